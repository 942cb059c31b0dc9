#include "bootstrap/job.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <sstream>
#include <vector>

#include "base/checks.hpp"
#include "base/text_file.hpp"
#include "bootstrap/sha256.hpp"

namespace symccl {
namespace {

std::vector<const char*> namesOfTheJob(const std::string& launcher) {
  if (launcher == "torchrun") return {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"};
  if (launcher == "openmpi") return {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"};
  if (launcher == "pals") return {"PALS_APID"};
  if (launcher == "mpich") return {"PMI_JOBID", "PMI_KVS"};
  if (launcher == "slurm") return {"SLURM_JOB_ID", "SLURM_STEP_ID"};
  return {};
}

const char* rankVariable(const std::string& launcher) {
  if (launcher == "openmpi") return "OMPI_COMM_WORLD_RANK";
  if (launcher == "pals") return "PALS_RANKID";
  if (launcher == "mpich") return "PMI_RANK";
  if (launcher == "slurm") return "SLURM_PROCID";
  return "RANK";
}

struct Ancestor {
  int parent = 0;
  std::string started;  // ticks since boot
};

/// From /proc/<pid>/stat, behind the name in brackets, which may hold anything: state, parent, ..., the 22nd field.
Ancestor statOf(const std::string& pid) {
  const std::string stat = readTextFile("/proc/" + pid + "/stat").value_or("");
  const std::size_t bracket = stat.rfind(')');
  if (bracket == std::string::npos) return {};
  std::istringstream fields(stat.substr(bracket + 1));
  std::vector<std::string> field{std::istream_iterator<std::string>(fields), {}};
  if (field.size() < 20) return {};
  return {static_cast<int>(std::strtol(field[1].c_str(), nullptr, 10)), field[19]};
}

bool environmentHas(const std::string& pid, const std::string& variable) {
  const std::string environment = '\0' + readTextFile("/proc/" + pid + "/environ").value_or("");
  return environment.find('\0' + variable + '=') != std::string::npos;
}

}  // namespace

std::string jobVariables(const Launch& launch, const Lookup& lookup) {
  std::string lines;
  for (const char* name : namesOfTheJob(launch.launcher)) {
    const char* value = lookup(name);
    if (value && *value) lines += text(name, '=', value, '\n');
  }
  return lines;
}

std::string launchingProcess(const std::string& variable, int pid) {
  pid = statOf(pid == 0 ? "self" : std::to_string(pid)).parent;
  for (int depth = 0; depth < 64 && pid > 1 && environmentHas(std::to_string(pid), variable); ++depth) {
    pid = statOf(std::to_string(pid)).parent;
  }
  return text(pid, '@', statOf(std::to_string(pid)).started);
}

std::string jobSocketName(const Launch& launch, const Lookup& lookup) {
  std::string job = jobVariables(launch, lookup);
  if (job.empty()) job = "process " + launchingProcess(rankVariable(launch.launcher)) + '\n';
  // A restart keeps the job's name; on one host its count is the same for all ranks.
  const char* restart = lookup("TORCHELASTIC_RESTART_COUNT");
  job += text("user ", ::geteuid(), " size ", launch.size, " restart ", restart ? restart : "0");
  return "symccl-job-" + hex(sha256(job)).substr(0, 32);
}

}  // namespace symccl

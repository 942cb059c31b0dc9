#include "bootstrap/launch.hpp"

#include <gtest/gtest.h>

#include <map>

namespace symccl {
namespace {

using Settings = std::map<std::string, std::string>;

Lookup from(const Settings& settings) {
  return [&settings](const char* name) {
    const auto at = settings.find(name);
    return at == settings.end() ? nullptr : at->second.c_str();
  };
}

void expectLaunch(const Settings& settings, const Launch& expected) {
  Result<Launch> launch = launchFrom(from(settings));
  ASSERT_TRUE(launch) << launch.error().message();
  EXPECT_EQ(launch->launcher, expected.launcher);
  EXPECT_EQ(launch->rank, expected.rank);
  EXPECT_EQ(launch->size, expected.size);
  EXPECT_EQ(launch->localRank, expected.localRank);
  EXPECT_EQ(launch->localSize, expected.localSize);
}

const Settings kTorchrun{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}};
const Settings kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},
                        {"OMPI_COMM_WORLD_SIZE", "3"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
const Settings kPals{
    {"PALS_RANKID", "6"}, {"PMI_RANK", "6"}, {"PMI_SIZE", "7"}, {"PALS_LOCAL_RANKID", "2"}, {"PMI_LOCAL_SIZE", "3"}};
const Settings kMpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Settings kSlurm{{"SLURM_PROCID", "3"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_NTASKS", "9"}, {"SLURM_LOCALID", "3"}, {"SLURM_STEP_NUM_NODES", "1"},
                      {"SLURM_NNODES", "2"}};

TEST(Launch, Alone) { expectLaunch({}, {0, 1, 0, 1, "none"}); }
TEST(Launch, Torchrun) { expectLaunch(kTorchrun, {5, 8, 1, 4, "torchrun"}); }
TEST(Launch, ByHand) { expectLaunch({{"RANK", "1"}, {"WORLD_SIZE", "2"}}, {1, 2, 1, 0, "torchrun"}); }
TEST(Launch, OpenMpi) { expectLaunch(kOpenMpi, {2, 3, 2, 3, "openmpi"}); }
TEST(Launch, Pals) { expectLaunch(kPals, {6, 7, 2, 3, "pals"}); }
TEST(Launch, Mpich) { expectLaunch(kMpich, {1, 2, 1, 2, "mpich"}); }
TEST(Launch, Slurm) { expectLaunch(kSlurm, {3, 4, 3, 4, "slurm"}); }

TEST(Launch, SlurmOnSeveralHosts) {
  Settings settings = kSlurm;
  settings["SLURM_STEP_NUM_NODES"] = "2";
  expectLaunch(settings, {3, 4, 3, 0, "slurm"});
}

TEST(Launch, SlurmsOlderName) {
  Settings settings = kSlurm;
  settings.erase("SLURM_STEP_NUM_TASKS");
  expectLaunch(settings, {3, 9, 3, 9, "slurm"});
}

TEST(Launch, AShellInsideAnAllocationIsNoStep) {
  Settings settings = kSlurm;
  settings.erase("SLURM_STEP_ID");
  expectLaunch(settings, {0, 1, 0, 1, "none"});
}

TEST(Launch, InnerLaunchersComeFirst) {
  Settings settings = kSlurm;
  settings.insert(kMpich.begin(), kMpich.end());
  expectLaunch(settings, {1, 2, 1, 2, "mpich"});
  settings.insert(kOpenMpi.begin(), kOpenMpi.end());
  expectLaunch(settings, {2, 3, 2, 3, "openmpi"});
  settings.insert(kTorchrun.begin(), kTorchrun.end());
  expectLaunch(settings, {5, 8, 1, 4, "torchrun"});
}

TEST(Launch, EmptyIsUnset) { expectLaunch({{"RANK", ""}, {"WORLD_SIZE", ""}}, {0, 1, 0, 1, "none"}); }

TEST(Launch, MalformedNumbersNameVariableAndValue) {
  const std::pair<Settings, std::string> launchers[] = {{kTorchrun, "RANK"},
                                                        {kTorchrun, "WORLD_SIZE"},
                                                        {kTorchrun, "LOCAL_RANK"},
                                                        {kTorchrun, "LOCAL_WORLD_SIZE"},
                                                        {kOpenMpi, "OMPI_COMM_WORLD_RANK"},
                                                        {kOpenMpi, "OMPI_COMM_WORLD_SIZE"},
                                                        {kPals, "PALS_RANKID"},
                                                        {kMpich, "PMI_RANK"},
                                                        {kMpich, "PMI_SIZE"},
                                                        {kSlurm, "SLURM_PROCID"},
                                                        {kSlurm, "SLURM_STEP_NUM_TASKS"},
                                                        {kSlurm, "SLURM_LOCALID"}};
  for (const auto& [good, name] : launchers) {
    for (const std::string value : {"three", "-1", "1.0", "1 ", " 1", "0x1", "99999999999999999999", "1,2"}) {
      Settings settings = good;
      settings[name] = value;
      Result<Launch> launch = launchFrom(from(settings));
      ASSERT_FALSE(launch) << name << '=' << value;
      EXPECT_EQ(launch.error().code(), Code::invalid);
      EXPECT_NE(launch.error().message().find(name + " is '" + value + '\''), std::string::npos)
          << launch.error().message();
    }
  }
}

TEST(Launch, HalfASetIsAnError) {
  const std::pair<const char*, const char*> halves[] = {{"RANK", "WORLD_SIZE"},
                                                        {"WORLD_SIZE", "RANK"},
                                                        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                        {"PMI_SIZE", "PMI_RANK"}};
  for (const auto& [there, missing] : halves) {
    Result<Launch> launch = launchFrom(from({{there, "1"}}));
    ASSERT_FALSE(launch) << there;
    EXPECT_EQ(launch.error().code(), Code::invalid);
    EXPECT_NE(launch.error().message().find(missing), std::string::npos) << launch.error().message();
  }
}

TEST(Launch, ARankOutsideTheSizeIsAnError) {
  Result<Launch> launch = launchFrom(from({{"RANK", "2"}, {"WORLD_SIZE", "2"}}));
  ASSERT_FALSE(launch);
  EXPECT_NE(launch.error().message().find("from 0 to 1"), std::string::npos) << launch.error().message();
  EXPECT_FALSE(launchFrom(from({{"RANK", "0"}, {"WORLD_SIZE", "0"}})));
}

TEST(Launch, ReadsTheEnvironment) {
  ::setenv("RANK", "3", 1);
  ::setenv("WORLD_SIZE", "4", 1);
  Result<Launch> launch = launchFromEnvironment();
  ::unsetenv("RANK");
  ::unsetenv("WORLD_SIZE");
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 4);
}

// Where the ranks meet.

Result<StorePlan> planFor(const Settings& settings, const std::string& root = "", const std::string& token = "") {
  Result<Launch> launch = launchFrom(from(settings));
  if (!launch) return launch.error();
  return planStore(*launch, root, token, from(settings));
}

Settings with(Settings settings, const Settings& more) {
  for (const auto& [name, value] : more) settings[name] = value;
  return settings;
}

const Settings kOneHost = with(kTorchrun, {{"LOCAL_WORLD_SIZE", "8"},
                                           {"MASTER_ADDR", "localhost"},
                                           {"MASTER_PORT", "29500"},
                                           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                           {"TORCHELASTIC_RUN_ID", "run-1"},
                                           {"TORCHELASTIC_RESTART_COUNT", "0"}});

TEST(StorePlan, OneRankNeedsNoAddress) {
  Result<StorePlan> plan = planFor({}, "host:5");
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->inProcess);
}

TEST(StorePlan, OneHostGetsANameFromTheJob) {
  Result<StorePlan> plan = planFor(kOneHost);
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_TRUE(plan->address.isUnix());
  EXPECT_TRUE(plan->address.name.starts_with("symccl-job-")) << plan->address.name;
  const std::string name = plan->address.name;
  EXPECT_EQ(planFor(with(kOneHost, {{"RANK", "0"}, {"LOCAL_RANK", "0"}}))->address.name, name) << "equal on all ranks";
  for (const Settings& other :
       {Settings{{"TORCHELASTIC_RUN_ID", "run-2"}}, Settings{{"TORCHELASTIC_RESTART_COUNT", "1"}},
        Settings{{"MASTER_PORT", "29501"}}, Settings{{"WORLD_SIZE", "6"}, {"LOCAL_WORLD_SIZE", "6"}}}) {
    EXPECT_NE(planFor(with(kOneHost, other))->address.name, name) << "another job must not be joined";
  }
}

TEST(StorePlan, LaunchersThatNameNoJobAreToldApartByTheirProcess) {
  Result<StorePlan> plan = planFor(kMpich);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_TRUE(plan->address.isUnix());
  EXPECT_EQ(planFor(with(kMpich, {{"PMI_RANK", "0"}}))->address.name, plan->address.name);
  EXPECT_NE(planFor(kOpenMpi)->address.name, planFor(with(kOpenMpi, {{"PMIX_NAMESPACE", "job-7@1"}}))->address.name);
}

TEST(StorePlan, RootComesFirst) {
  EXPECT_EQ(planFor(kOneHost, "unix:@chosen")->address.text(), "unix:@chosen");
  EXPECT_EQ(planFor(kOneHost, "node3:7000", "secret")->address.text(), "node3:7000");
  EXPECT_EQ(planFor(kOneHost, "nonsense").error().code(), Code::invalid);
}

TEST(StorePlan, MasterAddressWhereNobodyListensThere) {
  const Settings byHand{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29511"}};
  Result<StorePlan> plan = planFor(byHand);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->address.text(), "127.0.0.1:29511");
  EXPECT_EQ(planFor(with(byHand, {{"MASTER_ADDR", "::1"}}))->address.text(), "[::1]:29511");
  EXPECT_EQ(planFor(with(byHand, {{"MASTER_PORT", "x"}})).error().code(), Code::invalid);
}

TEST(StorePlan, OtherHostsNeedAToken) {
  const Settings byHand{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29511"}};
  Result<StorePlan> open = planFor(byHand);
  ASSERT_FALSE(open);
  EXPECT_NE(open.error().message().find("SYMCCL_TOKEN"), std::string::npos);
  EXPECT_TRUE(planFor(byHand, "", "secret"));
  EXPECT_FALSE(planFor(kOpenMpi, "node1:99"));
}

TEST(StorePlan, OverTcpTheTokenKnowsTheJob) {
  const Settings run1 = with(kOneHost, {{"LOCAL_WORLD_SIZE", "4"}}),
                 run2 = with(run1, {{"TORCHELASTIC_RUN_ID", "run-2"}});
  const std::string token = planFor(run1, "node1:7000", "secret")->token;
  EXPECT_NE(planFor(run2, "node1:7000", "secret")->token, token);
  EXPECT_NE(planFor(run1, "node1:7000", "other")->token, token);
  EXPECT_EQ(planFor(with(run1, {{"RANK", "2"}, {"TORCHELASTIC_RESTART_COUNT", "1"}}), "node1:7000", "secret")->token,
            token)
      << "equal on all hosts, also on one that joined later";
}

TEST(StorePlan, SeveralHostsWithoutAnAddressSayWhatToSet) {
  for (const Settings& settings :
       {with(kOneHost, {{"LOCAL_WORLD_SIZE", "4"}}), with(kMpich, {{"MPI_LOCALNRANKS", "1"}}),
        Settings{{"RANK", "0"}, {"WORLD_SIZE", "2"}}}) {
    Result<StorePlan> plan = planFor(settings);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code(), Code::invalid);
    EXPECT_NE(plan.error().message().find("SYMCCL_ROOT"), std::string::npos);
  }
}

}  // namespace
}  // namespace symccl

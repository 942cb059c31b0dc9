#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include "symccl_bench/binding.hpp"
#include "symccl_bench/failure.hpp"
#include "symccl_bench/peers.hpp"

extern char** environ;

namespace symccl::bench {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kStartSeconds = 120, kBlockSeconds = 300;

int listenAt(const std::string& name, int ranks) {
  const int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (listening < 0 || ::bind(listening, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listening, ranks) != 0) {
    throw Failure(std::string("a socket for peers: ") + std::strerror(errno));
  }
  return listening;
}

bool sameUser(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

// Without what launchers put there for the benchmark's own ranks; torch computes in one thread, as ours do.
std::vector<std::string> peerEnvironment() {
  static const char* const kDropped[] = {"RANK=",         "WORLD_SIZE=",  "LOCAL_", "GROUP_RANK=", "MASTER_",
                                         "TORCHELASTIC_", "SYMCCL_ROOT=", "OMPI_",  "PMI_",        "PMIX_",
                                         "SLURM_",        "MPI_",         "HYDRA_", "PALS_",       "OMP_NUM_THREADS="};
  std::vector<std::string> lines = {"OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo"};
  for (char** line = environ; *line != nullptr; ++line) {
    const std::string inherited = *line;
    const auto begins = [&](const char* prefix) { return inherited.starts_with(prefix); };
    if (std::none_of(std::begin(kDropped), std::end(kDropped), begins)) lines.push_back(inherited);
  }
  return lines;
}

std::vector<char*> pointersTo(std::vector<std::string>& lines) {
  std::vector<char*> pointers;
  for (std::string& line : lines) pointers.push_back(line.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

PeerGroup::PeerGroup(const std::string& name, int ranks, const Options& options) : name_(name), async_(options.async) {
  const std::string unique = "symccl-bench-" + std::to_string(::getpid()) + "-" + name;
  meeting_ = (std::filesystem::temp_directory_path() / unique).string();
  const auto commands = peerCommands(name, ranks, options, unique, meeting_, absent_);
  if (commands.empty()) return;
  const int listening = listenAt(unique, ranks);
  log_ = ::memfd_create("symccl-bench-peer", MFD_CLOEXEC);
  launch(commands);
  if (!meet(listening, ranks)) giveUp(lastWords());
  ::close(listening);
}

PeerGroup::~PeerGroup() {
  for (Worker& worker : workers_) {
    if (worker.socket >= 0) (void)::send(worker.socket, "quit\n", 5, MSG_NOSIGNAL);
  }
  stop();
  if (log_ >= 0) ::close(log_);
  std::error_code none;
  std::filesystem::remove(meeting_, none);
}

void PeerGroup::launch(const std::vector<std::vector<std::string>>& commands) {
  std::vector<std::string> lines = peerEnvironment();
  const std::vector<char*> variables = pointersTo(lines);
  const cpu_set_t& cpus = cpusAtStart();
  const pid_t parent = ::getpid();
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (std::vector<std::string> command : commands) {
    const std::vector<char*> arguments = pointersTo(command);
    const pid_t child = ::fork();
    if (child == 0) {  // nothing but system calls from here
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      ::setpgid(0, 0);
      ::sched_setaffinity(0, sizeof cpus, &cpus);
      ::dup2(nothing, 0);
      ::dup2(log_, 1);
      ::dup2(log_, 2);
      if (::getppid() == parent) ::execve(arguments[0], arguments.data(), variables.data());
      ::_exit(127);
    }
    if (child > 0) processes_.push_back(child);
  }
  ::close(nothing);
}

bool PeerGroup::meet(int listening, int ranks) {
  workers_.resize(static_cast<std::size_t>(ranks));
  const Clock::time_point until = Clock::now() + std::chrono::seconds(kStartSeconds);
  for (int met = 0; met < ranks;) {
    pollfd waiting{listening, POLLIN, 0};
    if (::poll(&waiting, 1, 100) <= 0) {
      if (someProcessEnded() || Clock::now() > until) return false;
      continue;
    }
    Worker worker;
    worker.socket = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    std::string line, hello;
    std::size_t rank = workers_.size();
    if (worker.socket >= 0 && sameUser(worker.socket) && readLine(worker, kStartSeconds, line)) {
      std::istringstream words(line);
      words >> hello >> rank >> std::ws;
      std::getline(words, version_);
    }
    if (hello != "hello" || rank >= workers_.size() || workers_[rank].socket >= 0) {
      if (worker.socket >= 0) ::close(worker.socket);
      continue;
    }
    workers_[rank] = std::move(worker);
    ++met;
  }
  return true;
}

bool PeerGroup::someProcessEnded() {
  bool ended = false;
  for (int& process : processes_) {
    if (process > 0 && ::waitpid(process, nullptr, WNOHANG) == process) process = 0;
    ended = ended || process == 0;
  }
  return ended;
}

bool PeerGroup::readLine(Worker& worker, int seconds, std::string& line) {
  const Clock::time_point until = Clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    const std::size_t end = worker.unread.find('\n');
    if (end != std::string::npos) {
      line = worker.unread.substr(0, end);
      worker.unread.erase(0, end + 1);
      return true;
    }
    pollfd waiting{worker.socket, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, 100);
    if (ready == 0 && (Clock::now() > until || someProcessEnded())) return false;
    if (ready <= 0) continue;
    char chunk[65536];
    const ssize_t got = ::recv(worker.socket, chunk, sizeof chunk, 0);
    if (got <= 0) return false;
    worker.unread.append(chunk, static_cast<std::size_t>(got));
  }
}

BlockResult PeerGroup::run(const Task& task, const Block& block) {
  BlockResult result;
  result.absent = absent_;
  if (!absent_.empty()) return result;
  std::ostringstream command;
  command << "block " << traitsOf(task.op).name << ' ' << nameOf(task.type) << ' ' << nameOf(task.reduction) << ' '
          << task.root << ' ' << task.count << ' ' << block.warmup << ' ' << block.iterations << ' ' << block.first
          << ' ' << block.check << ' ' << block.reuseBuffers << ' ' << task.inPlace << ' ' << async_ << '\n';
  const std::string line = command.str();
  for (Worker& worker : workers_) (void)::send(worker.socket, line.data(), line.size(), MSG_NOSIGNAL);
  result.timesNs.resize(static_cast<std::size_t>(block.iterations));
  for (Worker& worker : workers_) {
    std::string answer, kind;
    if (!readLine(worker, kBlockSeconds, answer)) {
      giveUp(lastWords());
      return {{}, {}, 0, absent_};
    }
    std::istringstream words(answer);
    words >> kind;
    if (kind != "times") {
      std::getline(words >> std::ws, result.absent);
      continue;
    }
    addTimes(words, result);
  }
  if (!result.absent.empty()) result.timesNs.clear();
  return result;
}

// One rank's answer into what the others said.
void PeerGroup::addTimes(std::istream& words, BlockResult& result) {
  std::uint64_t wrong = 0;
  words >> wrong;
  result.wrong += wrong;
  const auto takeSlowest = [&](std::vector<double>& slowest) {
    for (double& so : slowest) {
      double time = 0;
      if (!(words >> time)) result.absent = "it sent too few times";
      so = std::max(so, time);
    }
  };
  takeSlowest(result.timesNs);
  std::string name;
  for (std::size_t i = 0; words >> name; ++i) {
    if (i == result.more.size()) result.more.emplace_back(name, std::vector<double>(result.timesNs.size()));
    if (result.more[i].first != name) result.absent = "its ranks sent different series";
    takeSlowest(result.more[i].second);
  }
}

void PeerGroup::giveUp(const std::string& reason) {
  absent_ = reason.empty() ? "it did not answer in time" : reason;
  stop();
}

// Waits a little for processes that were told to quit, then ends their groups.
void PeerGroup::stop() {
  for (Worker& worker : workers_) {
    if (worker.socket >= 0) ::close(worker.socket);
    worker.socket = -1;
  }
  const Clock::time_point until = Clock::now() + std::chrono::seconds(10);
  for (int& process : processes_) {
    while (process > 0 && ::waitpid(process, nullptr, WNOHANG) == 0) {
      if (Clock::now() > until || !absent_.empty()) {
        ::kill(-process, SIGTERM);
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        ::kill(-process, SIGKILL);
        ::waitpid(process, nullptr, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    process = 0;
  }
}

// The last line that the processes printed.
std::string PeerGroup::lastWords() const {
  char chunk[8192];
  const off_t end = ::lseek(log_, 0, SEEK_END);
  const ssize_t got = ::pread(log_, chunk, sizeof chunk, std::max<off_t>(0, end - static_cast<off_t>(sizeof chunk)));
  std::istringstream printed(std::string(chunk, static_cast<std::size_t>(std::max<ssize_t>(0, got))));
  std::string line, last;
  while (std::getline(printed, line)) {
    if (line.find_first_not_of(" \t-") != std::string::npos) last = line;
  }
  return last;
}

}  // namespace symccl::bench

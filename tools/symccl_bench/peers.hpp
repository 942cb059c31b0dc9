// Other libraries, each in processes of its own that sleep while it is not their turn.
#pragma once

#include <istream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "symccl_bench/options.hpp"
#include "symccl_bench/task.hpp"

namespace symccl::bench {

/// What --peers accepts. "shm-staged", "private" and "out-of-place" run in the benchmark's own ranks; in torch,
/// "private" is a group of processes too.
const std::vector<std::string>& knownPeers();

/// The builds of a peer that are measured beside each other: Debian's and pip's of the MPIs, else its own name.
std::vector<std::string> buildsOf(const std::string& peer);

/// How to run a number of iterations. The same for the own ranks and for peers.
struct Block {
  int warmup = 0, iterations = 0;
  std::uint64_t first = 0;  ///< number of the first iteration: the data follows from it
  bool check = true, reuseBuffers = false;
};

/// More than one time of each iteration, by name: the slowest rank's nanoseconds.
using Series = std::vector<std::pair<std::string, std::vector<double>>>;

/// What came of it.
struct BlockResult {
  std::vector<double> timesNs;  ///< of each iteration, the slowest rank's
  Series more;                  ///< torch --async: "issue", "exposed"; ddp: "exposed", "communication"
  std::uint64_t wrong = 0;      ///< elements, over all ranks and iterations
  std::string absent;           ///< why there are no times
};

/// The processes of one peer. They are started by rank 0, connect to a socket of it, and obey lines:
///
///   worker:  hello RANK VERSION
///   rank 0:  block OP TYPE REDUCTION ROOT COUNT WARMUP ITERATIONS FIRST CHECK REUSE INPLACE ASYNC
///   worker:  times WRONG NANOSECONDS ... [NAME NANOSECONDS ...]...   |   absent REASON
///   rank 0:  quit
class PeerGroup {
 public:
  /// Starts build `name` and waits until all are there, two minutes at most. A peer that cannot be started has absent()
  /// and answers every block with it.
  PeerGroup(const std::string& name, int ranks, const Options& options);
  ~PeerGroup();
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const std::string& absent() const { return absent_; }
  BlockResult run(const Task& task, const Block& block);

 private:
  struct Worker {
    int socket = -1;
    std::string unread;
  };
  void launch(const std::vector<std::vector<std::string>>& commands);
  bool meet(int listening, int ranks);
  bool someProcessEnded();
  static void addTimes(std::istream& words, BlockResult& result);
  bool readLine(Worker& worker, int seconds, std::string& line);
  void giveUp(const std::string& reason);
  void stop();
  std::string lastWords() const;

  std::string name_, version_, absent_;
  std::string meeting_;  ///< torch makes further groups through this file too
  bool async_;
  std::vector<Worker> workers_;  ///< by rank
  std::vector<int> processes_;   ///< each leads a process group; 0: has ended
  int log_ = -1;                 ///< what the processes print
};

/// The command of every process to start for build `name`; empty with `absent` where the peer is not installed.
/// `socket`: name of the abstract Unix socket to connect to; `meeting`: a file that does not exist yet.
std::vector<std::vector<std::string>> peerCommands(const std::string& name, int ranks, const Options& options,
                                                   const std::string& socket, const std::string& meeting,
                                                   std::string& absent);

}  // namespace symccl::bench

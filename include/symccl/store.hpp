// The store: how ranks find each other before they share memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "symccl/export.hpp"
#include "symccl/result.hpp"

namespace symccl {

using Bytes = std::vector<std::uint8_t>;

/// A key-value store that every rank can reach. Used only while communicators are created. Thread-safe.
class SYMCCL_EXPORT Store {
 public:
  virtual ~Store() = default;
  /// Sets `key`, replacing what is there.
  virtual Status set(const std::string& key, const Bytes& value) = 0;
  /// The value of `key`, waiting at most `wait` for it to appear; Code::timeout if it does not.
  virtual Result<Bytes> get(const std::string& key, std::chrono::milliseconds wait) = 0;
  /// Adds `amount` to the counter `key` (0 if absent) and returns the new value.
  virtual Result<std::int64_t> add(const std::string& key, std::int64_t amount) = 0;
};

/// SymCCL's own store for programs without torch: rank 0 serves it, over TCP or at an abstract Unix name.
///
/// `host` is a name or a number (empty: loopback), or "unix:@name" with port 0, which only processes of the same user
/// on the same host can reach and which leaves no file. Clients prove that they know `token`, and the server proves it
/// to them; neither sends it. A server that other hosts can reach needs a token. A bad, slow or strange connection is
/// dropped; the server goes on. Keys have 1 to 4096 bytes, values at most 1 MiB. Calls from several threads do not hold
/// each other up.
///
/// Keep the server until every rank has what it needs: when it goes, its clients get Code::dead at once. A forked child
/// that uses its parent's store gets Code::forked.
class SYMCCL_EXPORT TcpStore : public Store {
 public:
  /// Starts the server and connects to it. `port` 0: any free one.
  static Result<std::unique_ptr<TcpStore>> serve(const std::string& host, int port, const std::string& token);
  /// Connects to a server, retrying until `wait` has passed. Code::invalid at once if the server refuses the token, or
  /// is none.
  static Result<std::unique_ptr<TcpStore>> connect(const std::string& host, int port, const std::string& token,
                                                   std::chrono::milliseconds wait);
  ~TcpStore() override;

  /// The port that the server listens on; 0 at a Unix name.
  int port() const;

  Status set(const std::string& key, const Bytes& value) override;
  Result<Bytes> get(const std::string& key, std::chrono::milliseconds wait) override;
  Result<std::int64_t> add(const std::string& key, std::int64_t amount) override;

 private:
  struct State;
  explicit TcpStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A store in this process's memory, for ranks that are threads of it.
SYMCCL_EXPORT std::shared_ptr<Store> makeLocalStore();

/// Where a launcher placed this process.
struct Launch {
  int rank = 0;
  int size = 1;
  int localRank = 0;
  int localSize = 0;     ///< ranks on this host; 0: the launcher does not tell
  std::string launcher;  ///< "torchrun", "openmpi", "pals", "mpich", "slurm" or "none"
};

/// Reads the variables of torchrun (RANK, WORLD_SIZE), Open MPI, PALS, MPICH/PMI and SLURM, in this order; none of
/// them: one rank. Code::invalid names the variable and its value where a number is malformed or only half of a set is
/// there.
SYMCCL_EXPORT Result<Launch> launchFromEnvironment();

/// The store where the ranks of `launch` meet. Rank 0 serves it, the others retry for `wait`. Call it once a process.
/// In this order: one rank: a local store; SYMCCL_ROOT (host:port or unix:@name); all ranks on one host: a Unix name
/// that follows from the user and the launcher's job; MASTER_ADDR and MASTER_PORT, unless torchrun's agent listens
/// there itself. Else Code::invalid says what to set. A launcher of one's own sets RANK, WORLD_SIZE, LOCAL_RANK,
/// LOCAL_WORLD_SIZE and SYMCCL_ROOT=unix:@<a random name>.
SYMCCL_EXPORT Result<std::shared_ptr<Store>> storeFromEnvironment(const Launch& launch, std::chrono::milliseconds wait);

}  // namespace symccl

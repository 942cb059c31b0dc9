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

/// SymCCL's own store for programs without torch: rank 0 serves it over TCP.
///
/// The server listens on `host` (loopback unless told otherwise) and `port` (0: any free one, see port()). Clients prove
/// that they know `token` before anything is stored. A bad connection is dropped; the server goes on.
class SYMCCL_EXPORT TcpStore : public Store {
 public:
  /// Starts the server and connects to it.
  static Result<std::unique_ptr<TcpStore>> serve(const std::string& host, int port, const std::string& token);
  /// Connects to a server, retrying until `wait` has passed.
  static Result<std::unique_ptr<TcpStore>> connect(const std::string& host, int port, const std::string& token,
                                                   std::chrono::milliseconds wait);
  ~TcpStore() override;

  /// The port that the server listens on.
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
  std::string launcher;  ///< "torchrun", "openmpi", "mpich", "slurm" or "none"
};

/// Reads the variables of torchrun (RANK, WORLD_SIZE), Open MPI, MPICH/PMI and SLURM, in this order.
SYMCCL_EXPORT Result<Launch> launchFromEnvironment();

/// The store that the launcher's variables describe: MASTER_ADDR and MASTER_PORT, else SYMCCL_ROOT (host:port), else, on
/// one host, an address derived from the launcher's job id. Rank 0 serves it.
SYMCCL_EXPORT Result<std::shared_ptr<Store>> storeFromEnvironment(const Launch& launch, std::chrono::milliseconds wait);

}  // namespace symccl

// Communicators: the collectives and point-to-point operations of a group of ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "symccl/export.hpp"
#include "symccl/memory.hpp"
#include "symccl/result.hpp"
#include "symccl/store.hpp"
#include "symccl/types.hpp"

namespace symccl {

/// What an operation does. The kinds from allGatherV on take one block per rank.
enum class Kind : std::uint8_t {
  barrier = 1,
  broadcast,
  allReduce,
  reduce,
  allGather,
  reduceScatter,
  allToAll,
  gather,
  scatter,
  allGatherV,
  reduceScatterV,
  allToAllV,
  gatherV,
  scatterV,
};
SYMCCL_EXPORT const char* nameOf(Kind kind);

/// One rank's piece of a v kind.
struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// One collective call, as one rank describes it. Made by the functions below; all ranks must describe the same one.
///
/// Buffers may be private or registered, in place or not, of any alignment and of 0 or more elements. They belong to
/// the operation until it has ended.
struct SYMCCL_EXPORT Operation {
  Kind kind = Kind::barrier;
  DataType type = DataType::byte;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::size_t count = 0;  ///< elements; which ones, says each function
  const void* send = nullptr;
  void* recv = nullptr;
  double factor = 1.0;                ///< premulSum: this rank's factor
  std::span<const Block> sendBlocks;  ///< v kinds; the array is read before start() or run() returns
  std::span<const Block> recvBlocks;

  static Operation barrier();
  /// root's `count` elements of `buffer` into everyone's `buffer`.
  static Operation broadcast(void* buffer, std::size_t count, DataType type, int root);
  /// `count` elements from everyone, reduced, to everyone. In place when send == recv.
  static Operation allReduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op);
  /// As allReduce, to root only; `recv` is not read elsewhere and may be null.
  static Operation reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op, int root);
  /// `count` elements from everyone; `recv` holds size x count. In place when send is this rank's part of recv.
  static Operation allGather(const void* send, void* recv, std::size_t count, DataType type);
  /// `send` holds size x count elements; `recv` gets this rank's `count`. In place when recv is this rank's part of
  /// send.
  static Operation reduceScatter(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op);
  /// `count` elements to each rank: `send` and `recv` hold size x count. send == recv is allowed.
  static Operation allToAll(const void* send, void* recv, std::size_t count, DataType type);
  /// `count` elements from everyone to root, whose `recv` holds size x count.
  static Operation gather(const void* send, void* recv, std::size_t count, DataType type, int root);
  /// `count` elements of root's `send` (size x count) to each rank's `recv`.
  static Operation scatter(const void* send, void* recv, std::size_t count, DataType type, int root);

  /// v kinds: one block per rank. What rank r sends to s must have the bytes that s expects from r.
  static Operation allGatherV(Block send, std::span<const Block> recv, DataType type);
  static Operation reduceScatterV(std::span<const Block> send, Block recv, DataType type, ReduceOp op);
  static Operation allToAllV(std::span<const Block> send, std::span<const Block> recv, DataType type);
  static Operation gatherV(Block send, std::span<const Block> recv, DataType type, int root);
  static Operation scatterV(std::span<const Block> send, Block recv, DataType type, int root);

  Operation& withFactor(double value) {
    factor = value;
    return *this;
  }
};

/// Options of one call.
struct CallOptions {
  /// The operation's deadline, counted from the moment it is issued; unset: the communicator's timeout.
  std::optional<std::chrono::milliseconds> timeout;
};

namespace detail {
class RequestState;
}

/// A started operation. Copies refer to the same one. Dropping it cancels nothing.
class SYMCCL_EXPORT Request {
 public:
  Request() = default;
  explicit Request(std::shared_ptr<detail::RequestState> state);

  bool valid() const { return state_ != nullptr; }
  /// Whether the operation has ended; never blocks.
  bool done() const;
  /// Waits for the end and returns the operation's status. With `wait`, Code::timeout after that long: this cancels
  /// nothing.
  Status wait(std::optional<std::chrono::milliseconds> wait = std::nullopt) const;
  /// Calls `callback` with the status once the operation has ended, at once if it has. On whatever thread ends it; it
  /// must not block.
  void onDone(std::function<void(const Status&)> callback) const;
  /// recv: the rank that sent (after the end).
  int source() const;
  /// recv: bytes received (after the end).
  std::size_t bytes() const;

 private:
  std::shared_ptr<detail::RequestState> state_;
};

inline constexpr int kAnySource = -1;
inline constexpr int kAnyTag = -1;

/// One part of a point-to-point batch. `tag` is 0..2^31-1 (kAnyTag: receive only).
struct Message {
  enum class Way : std::uint8_t { send, recv } way = Way::send;
  void* data = nullptr;
  std::size_t bytes = 0;
  int peer = 0;  ///< destination, or source (kAnySource: any)
  int tag = 0;
  bool exact = false;  ///< recv: a shorter message is an error (Code::truncate) too
};

struct CommunicatorOptions {
  /// Unique among the live communicators of this process and rank. May be used again by the same ranks; those who go on
  /// with other rank numbers take another one.
  std::string name = "world";
  std::chrono::milliseconds timeout{30 * 60 * 1000};  ///< of creation and of each operation; > 0
  int device = -1;                                    ///< heap ordinal; -1: this process's default
  /// Equal on all ranks; what HCCL_ALGO accepts, in its place and in that of the thresholds, or the name of one
  /// algorithm for all operations. Empty: what the environment says.
  std::string algorithm{};
  /// While an operation of this communicator runs, large ones of this process's other communicators pause between two
  /// blocks: 1 ms at most each time, 50 times at most in an operation. A rank's own affair.
  bool highPriority = false;
};

/// Counts since creation, per kind.
struct OperationCounters {
  std::uint64_t calls = 0, bytes = 0, inlined = 0, eager = 0, zeroCopy = 0, staged = 0;
  std::uint64_t loadedBytes = 0, storedBytes = 0;  ///< what this rank's copies and reductions read and wrote
  std::string algorithm;                           ///< of the last call
};
struct CommunicatorReport {
  std::string name;
  int rank = 0, size = 0;
  std::uint64_t sequence = 0;                                         ///< collectives issued
  std::vector<std::pair<std::string, OperationCounters>> operations;  ///< by kind's name; "send" and "recv" too
  std::uint64_t stagedSendPrivate = 0, stagedRecvPrivate = 0;  ///< why staged: on some rank the buffer was private
  std::uint64_t registeredSegments = 0, registeredBytes = 0;
  bool symmetric = false;  ///< every member's heap stands at its agreed address
};

/// A group of ranks. Threads: every method may be called from any thread; operations run in the order in which they
/// were issued, and all ranks must issue the same ones in the same order. A blocking call on an idle communicator runs
/// in the caller's thread. The first error sticks: each later call returns it. Results of the operation in which an
/// error occurred are undefined.
class SYMCCL_EXPORT Communicator {
 public:
  /// Creates this rank's end of a communicator of `size` ranks; every rank calls it with the same store, name and size.
  /// Blocks until all have come, a member dies, or the timeout passes; the error names the ranks that are missing.
  static Result<std::shared_ptr<Communicator>> create(Store& store, int rank, int size,
                                                      const CommunicatorOptions& options = {});
  /// Local; never waits for a peer. Operations still open end with Code::destroyed.
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;

  /// Collective over this communicator: ranks with equal `color` (>= 0) form one, ordered by `key`, then by rank. A
  /// negative color: none, a null pointer.
  virtual Result<std::shared_ptr<Communicator>> split(int color, int key, const CommunicatorOptions& options) = 0;

  /// Runs a collective and returns when this rank's part has ended.
  virtual Status run(const Operation& operation, const CallOptions& options = {}) = 0;
  /// Queues a collective and returns at once. A refused argument is in the request's status.
  virtual Request start(const Operation& operation, const CallOptions& options = {}) = 0;

  /// Starts sends and receives; their order within the batch does not matter for progress. Messages of one pair with
  /// equal tags do not overtake each other.
  virtual std::vector<Request> start(std::span<const Message> messages, const CallOptions& options = {}) = 0;
  Request send(const void* data, std::size_t bytes, int peer, int tag = 0, const CallOptions& options = {});
  Request recv(void* data, std::size_t bytes, int peer, int tag = 0, const CallOptions& options = {});

  /// Marks the pool's segments, present and future, as registered for this communicator. Local: talks to nobody. Twice
  /// is a no-op. Code::invalid if the pool is of another device's heap.
  virtual Status registerPool(const std::shared_ptr<Pool>& pool) = 0;
  /// Ends it. Code::invalid if the pool is not registered. Segments stay pinned while operations that use them run.
  virtual Status deregisterPool(const std::shared_ptr<Pool>& pool) = 0;
  /// Whether the whole range lies in segments registered with this communicator.
  virtual bool isRegistered(const void* address, std::size_t bytes) const = 0;

  /// Ends every wait here and at the peers with Code::aborted. Any thread, at once, idempotent.
  virtual void abort(const std::string& reason = "abort() was called") = 0;
  /// The sticky error, or success.
  virtual Status status() const = 0;
  virtual void setTimeout(std::chrono::milliseconds timeout) = 0;
  virtual std::chrono::milliseconds timeout() const = 0;
  virtual CommunicatorReport report() const = 0;
  /// The process ids of the members, by rank, as seen where each lives.
  virtual std::vector<int> pids() const = 0;
};

/// Has `hook` run about every 50 ms by each thread that sleeps inside a call, on that thread, so that an interpreter
/// around it can handle signals. It must return soon; it may call abort(). Null (the default): none. Process-wide.
SYMCCL_EXPORT void setWaitHook(void (*hook)());

}  // namespace symccl

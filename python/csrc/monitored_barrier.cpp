// A barrier that says who did not come. Rank 0 hears from every rank, then answers each. The messages' texts are those
// of gloo, which scripts and PyTorch's tests look for.
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

#include "backend.hpp"
#include "errors.hpp"
#include "interrupt.hpp"
#include "tags.hpp"

namespace symccl::pytorch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The messages outlast any barrier's timeout: the waits below are what ends it.
constexpr CallOptions kNeverExpires{std::chrono::hours(24 * 365)};

milliseconds remaining(Clock::time_point start, milliseconds timeout) {
  return timeout - std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

std::string joined(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

/// One byte for each rank, alive until the last request that uses it has ended.
struct Exchange {
  explicit Exchange(int size) : bytes(std::make_shared<std::vector<std::byte>>(size)) {}

  Request start(const std::shared_ptr<Communicator>& communicator, Message::Way way, int peer) {
    const Message message{way, bytes->data() + peer, 1, peer, kMonitoredBarrierTag, true};
    Request request = communicator->start({&message, 1}, kNeverExpires).front();
    request.onDone([keep = bytes](const Status&) {});
    return request;
  }

  std::shared_ptr<std::vector<std::byte>> bytes;
};

// Every call after a barrier that failed fails too: its messages may still come.
[[noreturn]] void fail(const std::shared_ptr<Communicator>& communicator, const std::string& text,
                       const std::string& cause) {
  communicator->abort(text);
  TORCH_CHECK_WITH(DistBackendError, false, text, cause.empty() ? "" : "\n Original exception: \n" + cause);
}

void hearFromAll(const std::shared_ptr<Communicator>& communicator, milliseconds timeout, bool waitAllRanks) {
  const auto start = Clock::now();
  const int size = communicator->size();
  Exchange exchange(size);
  std::vector<Request> arrivals(size);
  for (int rank = 1; rank < size; ++rank) arrivals[rank] = exchange.start(communicator, Message::Way::recv, rank);
  std::vector<int> missing;
  for (int rank = 1; rank < size; ++rank) {
    const milliseconds left = remaining(start, timeout);
    if (!waitAllRanks && left.count() <= 0) {
      fail(communicator, "Rank 0 timed out in monitoredBarrier after " + std::to_string(timeout.count()) + " ms.", "");
    }
    const Status status = waitInterruptibly(communicator, arrivals[rank], std::max(left, milliseconds(0)));
    if (status) continue;
    missing.push_back(rank);
    if (waitAllRanks) continue;
    fail(communicator,
         "[Rank 0]: Rank " + std::to_string(rank) + " failed to pass monitoredBarrier in " +
             std::to_string(timeout.count()) + " ms",
         status.error().message());
  }
  if (!missing.empty()) {
    fail(communicator,
         "[Rank 0]: Ranks " + joined(missing) + " failed to pass monitoredBarrier in " +
             std::to_string(timeout.count()) + " ms",
         "");
  }
}

void answerAll(const std::shared_ptr<Communicator>& communicator) {
  Exchange exchange(communicator->size());
  for (int rank = 1; rank < communicator->size(); ++rank) {
    const Request answer = exchange.start(communicator, Message::Way::send, rank);
    if (answer.done()) check(answer.wait());
  }
}

void reportToRankZero(const std::shared_ptr<Communicator>& communicator, milliseconds timeout) {
  const auto start = Clock::now();
  Exchange report(1), answer(1);
  const std::array<Request, 2> requests{report.start(communicator, Message::Way::send, 0),
                                        answer.start(communicator, Message::Way::recv, 0)};
  for (const Request& request : requests) {
    const Status status =
        waitInterruptibly(communicator, request, std::max(remaining(start, timeout), milliseconds(0)));
    if (status) continue;
    const std::string rank = std::to_string(communicator->rank());
    fail(communicator,
         "[Rank " + rank + "]: Rank " + rank +
             " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. "
             "Please check rank 0 logs for faulty rank.",
         status.error().message());
  }
}

}  // namespace

void ProcessGroupSymCCL::monitoredBarrier(const c10d::BarrierOptions& options, bool waitAllRanks) {
  const auto communicator = this->communicator();
  const milliseconds timeout = timeoutOf(options.timeout);
  if (rank_ != 0) return reportToRankZero(communicator, timeout);
  hearFromAll(communicator, timeout, waitAllRanks);
  answerAll(communicator);
}

}  // namespace symccl::pytorch

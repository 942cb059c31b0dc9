#include <poll.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/checks.hpp"
#include "base/deadline.hpp"
#include "base/fork.hpp"
#include "bootstrap/address.hpp"
#include "bootstrap/store_protocol.hpp"
#include "bootstrap/store_server.hpp"
#include "bootstrap/wire.hpp"
#include "symccl/store.hpp"

namespace symccl {

using namespace store_protocol;

namespace {

constexpr std::chrono::seconds kAnswerTime{
    30};  // for an answer that needs no waiting; a stopped server is noticed by it
constexpr std::chrono::milliseconds kFirstPause{5}, kLongestPause{100};

Result<Address> addressOf(const std::string& host, int port) {
  if (host.starts_with("unix:")) {
    if (port != 0) return invalid("a store at ", host, " has no port; 0 is accepted, not ", port);
    return Address::parse(host);
  }
  if (port < 0 || port > 65535) return invalid("a port is 0 to 65535, not ", port);
  return Address{host.empty() ? "127.0.0.1" : host, port, {}};
}

}  // namespace

/// Each call that runs at the same time has a connection of its own; one that waits in get() holds up no other.
struct TcpStore::State {
  Address address;
  std::string token;
  const std::uint64_t generation = forkGeneration();
  std::unique_ptr<StoreServer> server;

  std::mutex mutex;
  std::vector<ProcessDescriptor> idle;  // guarded by mutex
  std::string closed;                   // guarded by mutex; why no call will succeed any more

  Result<ProcessDescriptor> open(Deadline deadline) const;
  Result<ProcessDescriptor> openRetrying(Deadline deadline) const;
  Result<ProcessDescriptor> take(Deadline deadline);
  Result<Bytes> receiveBody(int fd, Deadline deadline);
  Result<Bytes> exchange(const Bytes& request, Deadline deadline);
  /// Sends a request; the reply's fields after `done`. Code::timeout with an empty message: the store said so.
  Result<Bytes> call(WireWriter& request, Deadline deadline);
  Error gone(const Error& cause);
};

Result<ProcessDescriptor> TcpStore::State::open(Deadline deadline) const {
  const Deadline end = earlier(deadline, Deadline::in(kHandshakeTime));
  Result<ProcessDescriptor> made = connectTo(address, end, {});
  if (!made) return made;
  if (Status status = introduce(made->get(), token, end, {}); !status) return status.error();
  return made;
}

Result<ProcessDescriptor> TcpStore::State::openRetrying(Deadline deadline) const {
  std::chrono::milliseconds pause = kFirstPause;
  for (;;) {
    Result<ProcessDescriptor> made = open(deadline);
    if (made || (made.error().code() != Code::dead && made.error().code() != Code::timeout)) return made;
    if (deadline.passed())
      return Error(Code::timeout, "the deadline passed; the last attempt: " + made.error().message());
    static_cast<void>(pauseFor(pause, deadline, {}));
    pause = std::min(2 * pause, kLongestPause);
  }
}

Error TcpStore::State::gone(const Error& cause) {
  if (cause.code() != Code::dead) return cause;
  const std::lock_guard lock(mutex);
  if (closed.empty()) closed = cause.message();
  return Error(Code::dead, closed);
}

Result<ProcessDescriptor> TcpStore::State::take(Deadline deadline) {
  {
    const std::lock_guard lock(mutex);
    if (!closed.empty()) return Error(Code::dead, closed);
    if (!idle.empty()) {
      ProcessDescriptor one = std::move(idle.back());
      idle.pop_back();
      return one;
    }
  }
  return open(deadline);
}

Result<Bytes> TcpStore::State::receiveBody(int fd, Deadline deadline) {
  Bytes head(4);
  if (Status status = receiveAll(fd, head.data(), head.size(), deadline, {}); !status) return status.error();
  const std::uint32_t bytes = WireReader(head).u32();
  if (bytes == 0 || bytes > kMostFrameBytes)
    return Error(Code::corrupt, text("the store sent a reply of ", bytes, " bytes"));
  Bytes body(bytes);
  if (Status status = receiveAll(fd, body.data(), body.size(), deadline, {}); !status) return status.error();
  return body;
}

Result<Bytes> TcpStore::State::exchange(const Bytes& request, Deadline deadline) {
  Result<ProcessDescriptor> one = take(deadline);
  if (!one) return one.error();
  // A server that closes says so first. The sentence may wait here already, and sending then fails.
  const Status sent = sendAll(one->get(), request.data(), request.size(), deadline, {});
  if (!sent && sent.error().code() != Code::dead) return sent.error();
  Result<Bytes> body = receiveBody(one->get(), deadline);
  if (!body && body.error().code() == Code::timeout) {
    return Error(Code::timeout, "no answer came in time; is the process that serves it stopped?");
  }
  if (!body) return body;
  WireReader in(*body);
  if (static_cast<Reply>(in.u8()) == Reply::closed) return Error(Code::dead, in.string());
  const std::lock_guard lock(mutex);
  idle.push_back(std::move(*one));
  return body;
}

Result<Bytes> TcpStore::State::call(WireWriter& request, Deadline deadline) {
  Result<Bytes> body = exchange(framed(request.take()), deadline);
  if (!body) return gone(body.error()).in("the store at " + address.text());
  WireReader in(*body);
  switch (static_cast<Reply>(in.u8())) {
    case Reply::done:
      return Bytes(body->begin() + 1, body->end());
    case Reply::timeout:
      return Error(Code::timeout, {});
    case Reply::refused: {
      const std::uint8_t code = in.u8();
      const std::string sentence = in.string();
      if (in.complete() && code <= static_cast<std::uint8_t>(Code::internal))
        return Error(static_cast<Code>(code), sentence);
      break;
    }
    case Reply::closed:
      break;
  }
  return Error(Code::corrupt, "the store at " + address.text() + " sent a reply that cannot be");
}

TcpStore::TcpStore(std::unique_ptr<State> state) : state_(std::move(state)) {}

TcpStore::~TcpStore() {
  // In a forked child the server's thread does not exist and a lock may be held for ever: what is the parent's is left.
  if (state_->generation != forkGeneration()) static_cast<void>(state_.release());
}

Result<std::unique_ptr<TcpStore>> TcpStore::serve(const std::string& host, int port, const std::string& token) {
  Result<Address> address = addressOf(host, port);
  if (!address) return address.error();
  Result<std::unique_ptr<StoreServer>> server = StoreServer::start(*address, token);
  if (!server) return server.error().in("serving a store");
  auto state = std::make_unique<State>();
  state->address = (*server)->address();
  state->token = token;
  state->server = std::move(*server);
  Result<ProcessDescriptor> first = state->openRetrying(Deadline::in(kAnswerTime));
  if (!first) return first.error().in("connecting to the own store at " + state->address.text());
  state->idle.push_back(std::move(*first));
  return std::unique_ptr<TcpStore>(new TcpStore(std::move(state)));
}

Result<std::unique_ptr<TcpStore>> TcpStore::connect(const std::string& host, int port, const std::string& token,
                                                    std::chrono::milliseconds wait) {
  Result<Address> address = addressOf(host, port);
  if (!address) return address.error();
  if (!address->isUnix() && port == 0) return invalid("connecting to a store needs its port, 1 to 65535");
  auto state = std::make_unique<State>();
  state->address = std::move(*address);
  state->token = token;
  Result<ProcessDescriptor> first = state->openRetrying(Deadline::in(wait));
  if (!first) return first.error().in("connecting to the store at " + state->address.text());
  state->idle.push_back(std::move(*first));
  return std::unique_ptr<TcpStore>(new TcpStore(std::move(state)));
}

int TcpStore::port() const { return state_->address.port; }

Status TcpStore::set(const std::string& key, const Bytes& value) {
  if (state_->generation != forkGeneration()) return Error(Code::forked, "this store belongs to the parent process");
  if (Status status = checkKey(key); !status) return status;
  if (Status status = checkValue(key, value.size()); !status) return status;
  WireWriter request;
  request.u8(static_cast<std::uint8_t>(Ask::set)).string(key);
  request.string({reinterpret_cast<const char*>(value.data()), value.size()});
  Result<Bytes> reply = state_->call(request, Deadline::in(kAnswerTime));
  if (!reply) return reply.error();
  return {};
}

Result<Bytes> TcpStore::get(const std::string& key, std::chrono::milliseconds wait) {
  if (state_->generation != forkGeneration()) return Error(Code::forked, "this store belongs to the parent process");
  if (Status status = checkKey(key); !status) return status.error();
  wait = std::clamp<std::chrono::milliseconds>(wait, std::chrono::milliseconds(0), std::chrono::hours(24 * 365));
  WireWriter request;
  request.u8(static_cast<std::uint8_t>(Ask::get)).string(key).u64(static_cast<std::uint64_t>(wait.count()));
  Result<Bytes> reply = state_->call(request, Deadline::in(wait + kAnswerTime));
  if (!reply) {
    if (reply.error().code() != Code::timeout || !reply.error().message().empty()) return reply;
    return Error(Code::timeout, text("the key '", key, "' did not appear in the store at ", state_->address.text(),
                                     " within ", wait.count(), " ms"));
  }
  WireReader in(*reply);
  const std::string value = in.string(kMostValueBytes);
  if (!in.complete())
    return Error(Code::corrupt, "the store at " + state_->address.text() + " sent a value that cannot be");
  return Bytes(value.begin(), value.end());
}

Result<std::int64_t> TcpStore::add(const std::string& key, std::int64_t amount) {
  if (state_->generation != forkGeneration()) return Error(Code::forked, "this store belongs to the parent process");
  if (Status status = checkKey(key); !status) return status.error();
  WireWriter request;
  request.u8(static_cast<std::uint8_t>(Ask::add)).string(key).u64(static_cast<std::uint64_t>(amount));
  Result<Bytes> reply = state_->call(request, Deadline::in(kAnswerTime));
  if (!reply) return reply.error();
  WireReader in(*reply);
  const auto sum = static_cast<std::int64_t>(in.u64());
  if (!in.complete())
    return Error(Code::corrupt, "the store at " + state_->address.text() + " sent a counter that cannot be");
  return sum;
}

}  // namespace symccl

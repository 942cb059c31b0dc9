#include "bootstrap/store_server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <list>
#include <thread>
#include <vector>

#include "base/checks.hpp"
#include "base/deadline.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "bootstrap/quiet_thread.hpp"
#include "bootstrap/store_protocol.hpp"
#include "bootstrap/store_table.hpp"
#include "bootstrap/wire.hpp"

namespace symccl {

using namespace store_protocol;

namespace {

constexpr int kMostUnproven = 128;               // connections in the handshake; more wait in the kernel's queue
constexpr std::chrono::milliseconds kRest{100};  // no accept for so long after it failed for lack of descriptors

struct Connection {
  ProcessDescriptor socket;
  bool proven = false;
  bool dropped = false;
  Digest nonce{};
  Deadline deadline = Deadline::in(kHandshakeTime);  ///< of the handshake, or of the get that waits
  std::string waitsFor;                              ///< the key of that get, or empty
  Bytes in, out;                                     ///< each holds one frame at most
  std::size_t sent = 0;

  bool sending() const { return sent < out.size(); }
  void send(Bytes bytes) {
    out = std::move(bytes);
    sent = 0;
    flush();
  }
  void reply(WireWriter& body) { send(framed(body.take())); }
  void flush();
  void read();
};

void Connection::flush() {
  while (sending()) {
    const ssize_t put = ::send(socket.get(), out.data() + sent, out.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      dropped = errno != EAGAIN;
      return;
    }
    sent += static_cast<std::size_t>(put);
  }
  out.clear();
  sent = 0;
}

void Connection::read() {
  const std::size_t most = proven ? 4 + kMostFrameBytes : kAnswerBytes;
  std::uint8_t chunk[16384];
  while (in.size() < most) {
    const ssize_t got = ::recv(socket.get(), chunk, std::min(sizeof chunk, most - in.size()), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      dropped = true;
      return;
    }
    in.insert(in.end(), chunk, chunk + got);
  }
}

}  // namespace

class StoreServer::Loop {
 public:
  Loop(Listener listener, FileDescriptor wake, std::string token, bool sameUserOnly)
      : listener_(std::move(listener)), wake_(std::move(wake)), token_(std::move(token)), sameUserOnly_(sameUserOnly) {}

  void run();
  void stop();
  std::thread thread;

 private:
  void accept();
  void serve(Connection& one);
  void prove(Connection& one);
  void answer(Connection& one, const Bytes& request);
  void answerWaiting(const std::string& key);
  void expire();
  int pollTime() const;
  void sayGoodbye();

  Listener listener_;
  ProcessDescriptor wake_;
  const std::string token_;
  const bool sameUserOnly_;
  std::atomic<bool> stopping_{false};
  StoreTable table_;
  std::list<Connection> connections_;
  int unproven_ = 0;
  Deadline acceptAgain_ = Deadline::in(std::chrono::seconds(0));
};

void StoreServer::Loop::stop() {
  stopping_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));  // an eventfd that is full wakes as well
}

int StoreServer::Loop::pollTime() const {
  Deadline first = Deadline::never();
  if (!acceptAgain_.passed()) first = acceptAgain_;
  for (const Connection& one : connections_) {
    if (!one.proven || !one.waitsFor.empty()) first = earlier(first, one.deadline);
  }
  return first.at() == Deadline::never().at() ? -1 : first.leftForPoll();
}

void StoreServer::Loop::run() {
  std::vector<pollfd> polled;
  while (!stopping_.load(std::memory_order_acquire)) {
    const bool accepting = unproven_ < kMostUnproven && acceptAgain_.passed();
    polled.assign({{wake_.get(), POLLIN, 0}, {listener_.socket.get(), static_cast<short>(accepting ? POLLIN : 0), 0}});
    for (const Connection& one : connections_) {
      // One request at a time: nothing is read while a reply is on its way or a get waits, only a hang-up is noticed.
      const int events = one.sending() ? POLLOUT : one.waitsFor.empty() ? POLLIN : POLLRDHUP;
      polled.push_back({one.socket.get(), static_cast<short>(events), 0});
    }
    if (::poll(polled.data(), polled.size(), pollTime()) < 0) continue;

    std::size_t at = 2;
    for (Connection& one : connections_) {
      const short events = polled[at++].revents;
      if (events == 0) continue;
      if (!one.waitsFor.empty() && !one.sending()) {
        one.dropped = true;  // hung up while waiting
      } else {
        serve(one);
      }
    }
    expire();
    unproven_ = 0;
    connections_.remove_if([](const Connection& one) { return one.dropped; });
    for (const Connection& one : connections_) unproven_ += one.proven ? 0 : 1;
    if (polled[1].revents != 0) accept();
  }
  sayGoodbye();
}

void StoreServer::Loop::accept() {
  while (unproven_ < kMostUnproven) {
    FileDescriptor made(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!made) {
      if (errno == EAGAIN) return;
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        log(LogLevel::warn, "STORE", -1, "accepting a connection failed: ", errnoText(errno));
        acceptAgain_ = Deadline::in(kRest);
        return;
      }
      continue;  // that connection has gone already
    }
    if (sameUserOnly_) {
      Result<ucred> peer = peerCredentials(made.get());
      if (!peer || peer->uid != ::geteuid()) continue;
    }
    Connection& one = connections_.emplace_back();
    one.socket = ProcessDescriptor(std::move(made));
    one.nonce = randomNonce();
    one.send(greeting(one.nonce));
    ++unproven_;
  }
}

void StoreServer::Loop::serve(Connection& one) {
  if (one.sending()) one.flush();
  if (!one.dropped && !one.sending()) one.read();
  // A client that has sent its last request and gone is not served: nobody would see the reply.
  while (!one.dropped && !one.sending() && one.waitsFor.empty()) {
    if (!one.proven) {
      if (one.in.size() < kAnswerBytes) return;
      prove(one);
      continue;
    }
    WireReader head(one.in);
    const std::uint32_t bytes = head.u32();
    if (!head.ok()) return;
    if (bytes == 0 || bytes > kMostFrameBytes) {
      one.dropped = true;
      return;
    }
    if (one.in.size() < 4 + std::size_t{bytes}) return;
    const Bytes request(one.in.begin() + 4, one.in.begin() + 4 + bytes);
    one.in.erase(one.in.begin(), one.in.begin() + 4 + bytes);
    answer(one, request);
  }
}

void StoreServer::Loop::prove(Connection& one) {
  Verdict verdict = judge(token_, one.nonce, one.in);
  one.in.clear();
  one.send(std::move(verdict.reply));
  one.proven = verdict.accepted;
  if (!verdict.accepted) one.dropped = true;
}

void StoreServer::Loop::answer(Connection& one, const Bytes& request) {
  WireReader in(request);
  const auto ask = static_cast<Ask>(in.u8());
  const std::string key = in.string(kMostKeyBytes);
  WireWriter out;
  const auto refuse = [&](const Error& error) {
    out.u8(static_cast<std::uint8_t>(Reply::refused))
        .u8(static_cast<std::uint8_t>(error.code()))
        .string(error.message());
  };
  if (ask == Ask::set) {
    const std::string value = in.string(kMostValueBytes);
    one.dropped = !in.complete();
    if (one.dropped) return;
    if (Status status = table_.set(key, Bytes(value.begin(), value.end())); !status) {
      refuse(status.error());
    } else {
      out.u8(static_cast<std::uint8_t>(Reply::done));
    }
  } else if (ask == Ask::get) {
    const std::uint64_t wait = in.u64();
    one.dropped = !in.complete();
    if (one.dropped) return;
    one.waitsFor = key;
    one.deadline = Deadline::in(std::chrono::milliseconds(std::min<std::uint64_t>(wait, 1000ull * 3600 * 24 * 365)));
    answerWaiting(key);
    return;
  } else if (ask == Ask::add) {
    const auto amount = static_cast<std::int64_t>(in.u64());
    one.dropped = !in.complete();
    if (one.dropped) return;
    if (Result<std::int64_t> sum = table_.add(key, amount); !sum) {
      refuse(sum.error());
    } else {
      out.u8(static_cast<std::uint8_t>(Reply::done)).u64(static_cast<std::uint64_t>(*sum));
    }
  } else {
    one.dropped = true;
    return;
  }
  one.reply(out);
  answerWaiting(key);
}

void StoreServer::Loop::answerWaiting(const std::string& key) {
  const Bytes* value = table_.find(key);
  if (!value) return;
  for (Connection& one : connections_) {
    if (one.dropped || one.waitsFor != key || key.empty()) continue;
    one.waitsFor.clear();
    WireWriter out;
    out.u8(static_cast<std::uint8_t>(Reply::done))
        .string({reinterpret_cast<const char*>(value->data()), value->size()});
    one.reply(out);
  }
}

void StoreServer::Loop::expire() {
  for (Connection& one : connections_) {
    if (one.dropped) continue;
    if (!one.proven) {
      one.dropped = one.deadline.passed();
    } else if (!one.waitsFor.empty() && one.deadline.passed()) {
      one.waitsFor.clear();
      WireWriter out;
      out.u8(static_cast<std::uint8_t>(Reply::timeout));
      one.reply(out);
    }
  }
}

void StoreServer::Loop::sayGoodbye() {
  for (Connection& one : connections_) {
    if (!one.proven || one.sending()) continue;
    WireWriter out;
    out.u8(static_cast<std::uint8_t>(Reply::closed)).string("the process that served it has dropped it");
    one.reply(out);
  }
  connections_.clear();
  listener_.socket.reset();
}

StoreServer::StoreServer(Address address, std::unique_ptr<Loop> loop)
    : address_(std::move(address)), loop_(std::move(loop)) {}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const Address& address, std::string token) {
  Result<Listener> listener = listenAt(address);
  if (!listener) return listener.error();
  if (token.empty() && !listener->loopback) {
    return invalid("a store at ", address.text(), " can be reached from other hosts and needs a token (SYMCCL_TOKEN)");
  }
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return systemError("eventfd");
  Address bound = address;
  if (!bound.isUnix()) bound.port = listener->port;
  auto loop = std::make_unique<Loop>(std::move(*listener), std::move(wake), std::move(token), address.isUnix());
  Result<std::thread> thread = startQuietThread("symccl-store", [work = loop.get()] { work->run(); });
  if (!thread) return thread.error();
  loop->thread = std::move(*thread);
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(bound), std::move(loop)));
}

StoreServer::~StoreServer() {
  loop_->stop();
  loop_->thread.join();
}

}  // namespace symccl

#include "bootstrap/address.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "base/checks.hpp"

namespace symccl {
namespace {

constexpr int kBacklog = 4096;  // the kernel lowers it to net.core.somaxconn
constexpr std::size_t kMostName = sizeof(sockaddr_un::sun_path) - 1;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress abstractAddress(const std::string& name) {
  SocketAddress out;
  auto* to = reinterpret_cast<sockaddr_un*>(&out.storage);
  to->sun_family = AF_UNIX;
  std::memcpy(to->sun_path + 1, name.data(), name.size());
  out.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return out;
}

Result<std::vector<SocketAddress>> resolve(const Address& address, bool toListen) {
  if (address.isUnix()) {
    if (address.name.size() > kMostName) {
      return invalid("the Unix name '", address.name, "' is longer than ", kMostName, " bytes");
    }
    return std::vector<SocketAddress>{abstractAddress(address.name)};
  }
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV | (toListen ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  const int refused = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &list);
  if (refused != 0) return invalid("the host name '", address.host, "' does not resolve: ", ::gai_strerror(refused));
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  std::vector<SocketAddress> found;
  for (const addrinfo* one = list; one; one = one->ai_next) {
    SocketAddress address_;
    std::memcpy(&address_.storage, one->ai_addr, one->ai_addrlen);
    address_.bytes = one->ai_addrlen;
    found.push_back(address_);
  }
  return found;
}

bool isLoopback(const SocketAddress& address) {
  if (address.storage.ss_family == AF_UNIX) return true;
  if (address.storage.ss_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(&address.storage);
    return ntohl(four->sin_addr.s_addr) >> 24 == 127;
  }
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

int portOf(int fd) {
  SocketAddress here;
  here.bytes = sizeof here.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.bytes) != 0) return 0;
  if (here.storage.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&here.storage)->sin_port);
  if (here.storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&here.storage)->sin6_port);
  return 0;
}

Result<ProcessDescriptor> openSocket(int family) {
  FileDescriptor made(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return systemError("socket");
  return ProcessDescriptor(std::move(made));
}

void setOption(int fd, int level, int option) {
  const int on = 1;
  static_cast<void>(::setsockopt(fd, level, option, &on, sizeof on));  // each is a help, none is needed
}

Result<ProcessDescriptor> connectOnce(const SocketAddress& to, const Address& address, Deadline deadline,
                                      const Interrupted& interrupted) {
  Result<ProcessDescriptor> made = openSocket(to.storage.ss_family);
  if (!made) return made;
  const int fd = made->get();
  int refused = ::connect(fd, to.get(), to.bytes) == 0 ? 0 : errno;
  if (refused == EINPROGRESS || refused == EINTR) {
    if (Status status = awaitReady(fd, POLLOUT, deadline, interrupted); !status) return status.error();
    socklen_t bytes = sizeof refused;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &refused, &bytes) != 0) refused = errno;
  }
  if (refused != 0) {
    const Code code = refused == EAGAIN ? Code::timeout : Code::dead;  // EAGAIN: a Unix socket with a full queue
    return Error(code, text("connecting to ", address.text(), " failed: ", errnoText(refused)));
  }
  if (!address.isUnix()) {
    setOption(fd, IPPROTO_TCP, TCP_NODELAY);
    setOption(fd, SOL_SOCKET, SO_KEEPALIVE);
    return made;
  }
  Result<ucred> listener = peerCredentials(fd);
  if (!listener) return listener.error();
  if (listener->uid != ::geteuid()) {
    return invalid("at ", address.text(), " listens pid ", listener->pid, " of user ", listener->uid, ", not of user ",
                   ::geteuid());
  }
  return made;
}

}  // namespace

std::string Address::text() const {
  if (isUnix()) return "unix:@" + name;
  const bool six = host.find(':') != std::string::npos;
  return symccl::text(six ? "[" : "", host, six ? "]" : "", ":", port);
}

Result<Address> Address::parse(std::string_view text) {
  constexpr std::string_view kUnix = "unix:@";
  const Error refused = invalid("'", text, "' is not an address: accepted are host:port (port 1 to 65535), ",
                                "[IPv6]:port, and unix:@name (at most ", kMostName, " bytes)");
  if (text.starts_with("unix:")) {
    const std::string_view name = text.substr(std::min(kUnix.size(), text.size()));
    if (!text.starts_with(kUnix) || name.empty() || name.size() > kMostName) return refused;
    return abstract(std::string(name));
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return refused;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  int port = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (problem != std::errc() || end != digits.data() + digits.size() || port < 1 || port > 65535) return refused;
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return refused;
  }
  if (host.empty()) return refused;
  return Address{std::string(host), port, {}};
}

Result<Listener> listenAt(const Address& address) {
  Result<std::vector<SocketAddress>> found = resolve(address, true);
  if (!found) return found.error();
  Status last = invalid("the host name '", address.host, "' has no address");
  for (const SocketAddress& at : *found) {
    Result<ProcessDescriptor> made = openSocket(at.storage.ss_family);
    if (!made) {
      last = made.error();
      continue;
    }
    if (!address.isUnix()) setOption(made->get(), SOL_SOCKET, SO_REUSEADDR);  // a port in TIME_WAIT is free
    if (::bind(made->get(), at.get(), at.bytes) != 0) {
      last = systemError("binding a socket to ", address.text());
      continue;
    }
    if (::listen(made->get(), kBacklog) != 0) {
      last = systemError("listening at ", address.text());
      continue;
    }
    const int port = portOf(made->get());
    return Listener{std::move(*made), port, isLoopback(at)};
  }
  return last.error();
}

Result<ProcessDescriptor> connectTo(const Address& address, Deadline deadline, const Interrupted& interrupted) {
  Result<std::vector<SocketAddress>> found = resolve(address, false);
  if (!found) return found.error();
  Result<ProcessDescriptor> last = invalid("the host name '", address.host, "' has no address");
  for (const SocketAddress& to : *found) {
    last = connectOnce(to, address, deadline, interrupted);
    if (last || last.error().code() != Code::dead) return last;
  }
  return last;
}

}  // namespace symccl

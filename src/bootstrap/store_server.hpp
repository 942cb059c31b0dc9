// The serving side of a TcpStore: one thread, poll(2), nonblocking, bounded buffers.
#pragma once

#include <memory>
#include <string>

#include "bootstrap/address.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// Serves until it is destroyed. A connection that is bad, slow to prove itself or full of junk is dropped, and the
/// others notice nothing. The destructor tells the clients that the store is closed and ends the thread; it waits for
/// nobody else.
class StoreServer {
 public:
  /// Code::invalid if `token` is empty and the address can be reached from another host.
  static Result<std::unique_ptr<StoreServer>> start(const Address& address, std::string token);
  ~StoreServer();

  /// Where it listens, with the port that the system chose.
  const Address& address() const { return address_; }

 private:
  class Loop;
  StoreServer(Address address, std::unique_ptr<Loop> loop);
  const Address address_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace symccl

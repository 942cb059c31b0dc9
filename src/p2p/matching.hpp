// Who gets which message: posted receives in posting order, messages of one pair in record order.
#pragma once

#include <list>
#include <optional>
#include <vector>

#include "p2p/ledger.hpp"
#include "p2p/record.hpp"

namespace symccl {

/// A message that has arrived: its descriptor. The bytes stay with the sender unless they are inline.
struct Arrival {
  Record record;
  int source = 0;
  std::uint64_t id = 0;  ///< its count on this pair
};

/// Receives that have found no message.
class PostedReceives {
 public:
  explicit PostedReceives(int members) : bySource_(static_cast<std::size_t>(members)) {}

  void add(OpenMessage receive);
  /// Takes out the receive that was posted first of those that accept the message.
  std::optional<OpenMessage> match(int source, std::uint64_t tag);

  template <class Visit>
  void each(const Visit& visit) {
    for (auto& list : bySource_) {
      for (OpenMessage& receive : list) visit(receive);
    }
    for (OpenMessage& receive : anySource_) visit(receive);
  }
  void clear();

 private:
  std::vector<std::list<OpenMessage>> bySource_;  // in posting order
  std::list<OpenMessage> anySource_;
};

/// Messages that have found no receive. Descriptors only, at any depth.
class UnexpectedMessages {
 public:
  explicit UnexpectedMessages(int members) : bySource_(static_cast<std::size_t>(members)) {}

  void add(const Arrival& arrival);
  /// Takes out the message that arrived first of those that the receive accepts.
  std::optional<Arrival> match(int source, int tag);
  void clear();

 private:
  struct Held {
    Arrival arrival;
    std::uint64_t order;  // of arrival, over all sources
  };
  using Position = std::list<Held>::iterator;
  Position find(std::list<Held>& list, int tag);

  std::vector<std::list<Held>> bySource_;  // in record order
  std::uint64_t arrivals_ = 0;
};

}  // namespace symccl

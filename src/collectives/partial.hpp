// Partial results of a reduction, for algorithms that combine a few ranks' inputs at a time.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "collectives/round.hpp"

namespace symccl {

/// Elements in the operation's type that hold the reduction of some ranks' inputs. Each input is taken once, with its
/// rank's factor where there is one; an average is divided once, when the last partial results are combined.
class Partial {
 public:
  explicit Partial(Round& round) : round_(round) {}

  /// This rank's input as a partial result.
  Status begin(const void* own, void* to, std::size_t count);
  /// This rank's input and the partial results `others`. `last`: gives the operation's result.
  Status add(const void* own, std::span<const std::byte* const> others, std::initializer_list<void*> to,
             std::size_t count, bool last);
  /// Two partial results, to where the first one stands.
  Status merge(void* one, const void* other, std::size_t count, bool last);

 private:
  Status combine(bool firstIsInput, std::initializer_list<void*> to, std::size_t count, bool last);
  Status average(std::initializer_list<void*> to, std::size_t count);

  Round& round_;
  std::vector<const void*> sources_;
  std::vector<double> factors_;
};

}  // namespace symccl

// One call of a backend method on its way to the communicator.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <chrono>
#include <cstddef>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "symccl/communicator.hpp"

namespace symccl::pytorch {

/// The memory of a call's tensors. Contiguous tensors are used where they lie; the elements of others are copied to and
/// from memory of their own.
class Buffers {
 public:
  /// `keep`: hold on to the tensors, because the operation outlives the call.
  explicit Buffers(bool keep) : keep_(keep) {}

  /// Takes over what another holds.
  void absorb(Buffers other);

  /// Where the tensor's elements lie in C order, to be read.
  const void* read(const at::Tensor& tensor);
  /// Where its elements are to be written in C order.
  void* write(const at::Tensor& tensor);
  /// Both.
  void* update(const at::Tensor& tensor);
  /// Memory of the call's own for `tensor`'s elements; copyBack() copies it into the tensor.
  void* writeAside(const at::Tensor& tensor);
  /// A copy of the elements, for an input that the operation's output would overwrite.
  const void* copyOf(const at::Tensor& tensor);

  /// Copies the results into the tensors that were not written where they lie. On whatever thread ends the operation.
  void copyBack();

 private:
  bool keep_;
  std::vector<at::Tensor> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // user's tensor, contiguous memory
};

/// An operation with the arrays that its v kind refers to.
struct Step {
  Operation operation;
  std::vector<Block> send, recv;
};

/// What a backend method makes of its arguments.
struct Call {
  /// `limit`: the call's timeout, c10d::kUnsetTimeout for the group's. `keep`: the operation outlives the call.
  Call(const char* titled, c10d::OpType kind, std::chrono::milliseconds limit, bool returnsAtOnce, bool keep)
      : title(titled), type(kind), timeout(limit), async(returnsAtOnce), buffers(keep) {}

  Operation& add(const Operation& operation) {
    steps.push_back({operation, {}, {}});
    return steps.back().operation;
  }
  /// Adds an operation of a v kind, made by `make` from the arrays where they stay.
  template <class Make>
  void add(std::vector<Block> send, std::vector<Block> recv, Make make) {
    steps.push_back({{}, std::move(send), std::move(recv)});
    steps.back().operation = make(steps.back().send, steps.back().recv);
  }
  /// "all_reduce"
  const char* name() const { return title + sizeof("symccl:") - 1; }

  const char* title;  ///< "symccl:all_reduce", as the profiler shows it
  c10d::OpType type;
  std::chrono::milliseconds timeout;
  bool async;
  Buffers buffers;
  c10::SmallVector<Step, 1> steps;  ///< run in order, under one Work
  std::vector<at::Tensor> inputs;   ///< for the profiler; filled only while one runs
  std::vector<at::Tensor> outputs;
};

/// Memory from `begin` on.
struct Range {
  const std::byte* begin;
  std::size_t bytes;
  bool overlaps(const Range& other) const {
    return begin < other.begin + other.bytes && other.begin < begin + bytes && bytes != 0 && other.bytes != 0;
  }
};

/// The memory that a strided tensor's elements span.
Range spanOf(const at::Tensor& tensor);

}  // namespace symccl::pytorch

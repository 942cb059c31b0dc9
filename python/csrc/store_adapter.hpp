// PyTorch's store as SymCCL's.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "symccl/store.hpp"

namespace symccl::pytorch {

/// Passes every call to a c10d store; its exceptions become results. Thread-safe as the store is.
class StoreAdapter final : public symccl::Store {
 public:
  explicit StoreAdapter(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  Status set(const std::string& key, const Bytes& value) override;
  Result<Bytes> get(const std::string& key, std::chrono::milliseconds wait) override;
  Result<std::int64_t> add(const std::string& key, std::int64_t amount) override;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace symccl::pytorch

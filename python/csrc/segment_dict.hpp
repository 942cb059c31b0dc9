// A pool's segment as Python sees it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

#include "symccl/memory.hpp"

namespace symccl::pytorch {

/// The keys are those of torch.cuda.MemPool.snapshot().
inline pybind11::dict segmentDict(const SegmentReport& segment, int device, std::uint64_t pool) {
  namespace py = pybind11;
  const auto base = reinterpret_cast<std::uintptr_t>(segment.address);
  py::list blocks;
  std::size_t used = 0;
  for (const auto& block : segment.blocks) {
    py::dict entry;
    entry["address"] = base + block.offset;
    entry["size"] = block.bytes;
    entry["requested_size"] = block.inUse ? block.bytes : 0;
    entry["state"] = block.inUse ? "active_allocated" : "inactive";
    entry["frames"] = py::list();
    blocks.append(entry);
    used += block.inUse ? block.bytes : 0;
  }
  py::dict result;
  result["device"] = device;
  result["address"] = base;
  result["total_size"] = segment.bytes;
  result["allocated_size"] = used;
  result["active_size"] = used;
  result["requested_size"] = used;
  result["stream"] = 0;
  result["segment_type"] = segment.bytes <= (std::size_t{2} << 20) ? "small" : "large";
  result["segment_pool_id"] = py::make_tuple(0, pool);
  result["is_expandable"] = false;
  result["frames"] = py::list();
  result["blocks"] = blocks;
  return result;
}

}  // namespace symccl::pytorch

// How a reduction is cut: whole steps by the vector loop, parts of a step through padding; and which stores suit it.

#include <cstring>
#include <vector>

#include "kernels/arithmetic.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/lines.hpp"

namespace symccl {
namespace {

// From here on a part of a step in front costs less than stores that cross lines.
constexpr std::size_t kAlignedFrom = 16 * 1024;

struct alignas(kLine) Step {
  char bytes[kMaximalStep];
};

/// Part of a step of every source, padded with zeros to a whole one. No allocation up to kFew sources.
class PaddedSources {
 public:
  PaddedSources(const KernelTable& kernels, std::span<const void* const> sources, std::size_t offset,
                std::size_t bytes) {
    if (sources.size() > kFew) {
      manySteps_.resize(sources.size());
      manyAddresses_.resize(sources.size());
    }
    Step* const steps = manySteps_.empty() ? steps_ : manySteps_.data();
    const void** const addresses = manyAddresses_.empty() ? addresses_ : manyAddresses_.data();
    for (std::size_t source = 0; source < sources.size(); ++source) {
      kernels.pad(steps[source].bytes, static_cast<const char*>(sources[source]) + offset, bytes);
      addresses[source] = &steps[source];
    }
    view_ = {addresses, sources.size()};
  }
  PaddedSources(const PaddedSources&) = delete;
  PaddedSources& operator=(const PaddedSources&) = delete;

  std::span<const void* const> view() const { return view_; }

 private:
  static constexpr std::size_t kFew = 32;

  Step steps_[kFew];
  const void* addresses_[kFew];
  std::vector<Step> manySteps_;
  std::vector<const void*> manyAddresses_;
  std::span<const void* const> view_;
};

/// One call of reduce().
class Reducer {
 public:
  Reducer(const KernelTable& kernels, const Reduction& reduction)
      : kernels_(kernels),
        reduction_(reduction),
        function_(kernels.reduce[static_cast<int>(reduction.type)][static_cast<int>(reduction.op)]),
        elementBytes_(sizeOf(reduction.type)),
        bytes_(reduction.count * elementBytes_) {}

  void run() {
    if (bytes_ < kSmall) return reduceRange(0, bytes_, reduction_.destinations, 0);
    const bool inPlace = destinationIsSource();
    const bool streaming = reduction_.stores == Stores::streaming && !inPlace;
    const std::size_t toLine = bytesToLine(reduction_.destinations[0]);
    const bool alignable = toLine % elementBytes_ == 0;
    prefetchSources_ = streaming || inPlace;
    if (streaming && !(alignable && linedUp(reduction_.destinations))) {
      streamBlocks();
    } else {
      streaming_ = streaming;
      ownDestinations_ = !streaming && !inPlace;
      const std::size_t head = alignable && (streaming || bytes_ >= kAlignedFrom) ? toLine : 0;
      reducePart(0, head, reduction_.destinations, 0);
      reduceRange(head, bytes_ - head, reduction_.destinations, head);
    }
    if (streaming) fenceStreams();
  }

 private:
  bool destinationIsSource() const {
    return std::ranges::any_of(reduction_.destinations, [&](const void* destination) {
      return std::ranges::find(reduction_.sources, destination) != reduction_.sources.end();
    });
  }

  /// Destinations that do not line up, with each other or with their elements, get their results from the cache.
  void streamBlocks() {
    Step block[kBlock / sizeof(Step)];
    void* const address = block;
    for (std::size_t at = 0; at < bytes_; at += kBlock) {
      const std::size_t bytes = std::min(kBlock, bytes_ - at);
      reduceRange(at, bytes, {&address, 1}, 0);
      for (void* destination : reduction_.destinations) {
        void* const to = static_cast<char*>(destination) + at;
        streamCopy(kernels_, {&to, 1}, block, bytes);
      }
    }
  }

  void reduceRange(std::size_t sourceOffset, std::size_t bytes, std::span<void* const> destinations,
                   std::size_t destinationOffset) const {
    const std::size_t whole = bytes - bytes % kernels_.stepBytes;
    function_({.sources = reduction_.sources.data(),
               .sourceCount = reduction_.sources.size(),
               .sourceOffset = sourceOffset,
               .destinations = destinations.data(),
               .destinationCount = destinations.size(),
               .destinationOffset = destinationOffset,
               .bytes = whole,
               .factors = reduction_.factors,
               .streaming = streaming_,
               .prefetchSources = prefetchSources_,
               .ownDestinations = ownDestinations_});
    reducePart(sourceOffset + whole, bytes - whole, destinations, destinationOffset + whole);
  }

  /// Less than a step: padded, so that every element meets the same instructions as in a whole one.
  void reducePart(std::size_t sourceOffset, std::size_t bytes, std::span<void* const> destinations,
                  std::size_t destinationOffset) const {
    if (bytes == 0) return;
    const PaddedSources sources(kernels_, reduction_.sources, sourceOffset, bytes);
    Step result;
    void* const address = &result;
    function_({.sources = sources.view().data(),
               .sourceCount = sources.view().size(),
               .sourceOffset = 0,
               .destinations = &address,
               .destinationCount = 1,
               .destinationOffset = 0,
               .bytes = kernels_.stepBytes,
               .factors = reduction_.factors,
               .streaming = false,
               .prefetchSources = false,
               .ownDestinations = false});
    for (void* destination : destinations) {
      std::memcpy(static_cast<char*>(destination) + destinationOffset, &result, bytes);
    }
  }

  const KernelTable& kernels_;
  const Reduction& reduction_;
  const ReduceFunction function_;
  const std::size_t elementBytes_;
  const std::size_t bytes_;
  bool streaming_ = false;
  bool prefetchSources_ = false;
  bool ownDestinations_ = false;
};

}  // namespace

void reduceWith(const KernelTable& kernels, const Reduction& reduction) {
  const StandardArithmetic standard;
  Reducer(kernels, reduction).run();
}

}  // namespace symccl

// Memory between two pages that cannot be touched.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace symccl::test {

/// At least `bytes` bytes, which end right before a page without access and begin at most a page after another.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes) : inner_((bytes + kPage - 1) / kPage * kPage) {
    mapping_ = static_cast<char*>(
        mmap(nullptr, inner_ + 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (mapping_ == MAP_FAILED || mprotect(mapping_, kPage, PROT_NONE) != 0 ||
        mprotect(mapping_ + kPage + inner_, kPage, PROT_NONE) != 0) {
      throw std::runtime_error("no memory for a guarded buffer");
    }
  }
  ~GuardedBuffer() { munmap(mapping_, inner_ + 2 * kPage); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  /// The first byte after the guard in front; aligned to a page.
  char* begin() const { return mapping_ + kPage; }
  /// One past the last byte.
  char* end() const { return begin() + inner_; }
  void fill(unsigned char value) { std::memset(begin(), value, inner_); }

 private:
  static constexpr std::size_t kPage = 4096;

  std::size_t inner_;
  char* mapping_;
};

}  // namespace symccl::test

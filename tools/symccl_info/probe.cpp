#include "symccl_info/probe.hpp"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/barrier.hpp"
#include "base/checks.hpp"
#include "base/environment.hpp"
#include "base/file_descriptor.hpp"
#include "base/host.hpp"
#include "base/text_file.hpp"
#include "memory/granules.hpp"
#include "memory/heap.hpp"
#include "memory/pages.hpp"
#include "memory/window.hpp"

namespace symccl::info {
namespace {

constexpr std::size_t kBytes = kGranule;

std::string refused(const char* call) { return text("no: ", call, " failed: ", errnoText(errno)); }

FileDescriptor probeMemory() {
  FileDescriptor memory(::memfd_create("symccl-info", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory && ::ftruncate(memory.get(), kBytes) != 0) memory.reset();
  return memory;
}

// "always within_size [advise] never" -> "advise"
std::string chosen(const std::string& path) {
  const std::string all = readTextFile(path).value_or("");
  const auto from = all.find('['), to = all.find(']');
  return from == std::string::npos || to == std::string::npos ? "unknown" : all.substr(from + 1, to - from - 1);
}

}  // namespace

std::string probeMemfd() { return probeMemory() ? "yes" : refused("memfd_create"); }

std::string probeSeals() {
  const FileDescriptor memory = probeMemory();
  if (!memory) return refused("memfd_create");
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return refused("F_ADD_SEALS");
  if (::ftruncate(memory.get(), 0) == 0) return "no: a sealed memfd could be shrunk";
  return "yes: shrink, grow, seal";
}

std::string probeReserve() {
  const FileDescriptor memory = probeMemory();
  if (!memory) return refused("memfd_create");
  if (::fallocate(memory.get(), 0, 0, kBytes) != 0) return refused("fallocate");
  if (::fallocate(memory.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes) != 0) {
    return refused("FALLOC_FL_PUNCH_HOLE");
  }
  return "yes: fallocate, punch hole";
}

std::string probePopulate() {
#ifdef MADV_POPULATE_READ
  constexpr int kPopulateRead = MADV_POPULATE_READ;
#else
  constexpr int kPopulateRead = 22;  // Linux 5.14; older headers lack the name
#endif
  const FileDescriptor memory = probeMemory();
  if (!memory) return refused("memfd_create");
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return refused("mmap");
  const std::string answer = ::madvise(mapped, kBytes, kPopulateRead) == 0 ? "yes" : refused("MADV_POPULATE_READ");
  ::munmap(mapped, kBytes);
  return answer;
}

namespace {

std::string canMakeHuge() {
  if (!environment().hugePages) return "no, SYMCCL_HUGE_PAGES is 0";
  const FileDescriptor memory = probeMemory();
  if (!memory) return refused("memfd_create");
  const Result<std::byte*> mapped = mapAtWindow(memory.get(), 0, kBytes);
  if (!mapped) return "no: " + mapped.error().message();
  const std::string answer = makeHuge(*mapped, 0, kBytes) ? "yes" : refused("MADV_COLLAPSE");
  ::munmap(*mapped, kBytes);
  return answer;
}

}  // namespace

std::string probeHugePages() {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  std::string explicitPages = readTextFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages").value_or("0");
  if (const auto end = explicitPages.find('\n'); end != std::string::npos) explicitPages.erase(end);
  return text("for heaps: ", canMakeHuge(), "; shared memory: ", chosen(folder + "shmem_enabled"),
              "; private memory: ", chosen(folder + "enabled"), "; explicit 2 MiB pages free: ", explicitPages);
}

std::string probeMembarrier() {
  const long commands = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (commands < 0) return refused("membarrier");
  if (!(commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED)) return "no: the kernel has no GLOBAL_EXPEDITED";
  if (membarrierRegistered()) return "yes: registered for GLOBAL_EXPEDITED";
  return environment().membarrier ? "no: this process could not register" : "no: SYMCCL_MEMBARRIER is 0";
}

std::string probeAbstractSocket() {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return refused("socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "symccl-info-" + randomUuid().hex();
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return refused("bind");
  return "yes";
}

std::string probeWindow() {
  const std::size_t bytes = environment().heapBytes;
  int free = 0;
  std::string refusal;
  for (int ordinal = 0; ordinal < kDevices; ++ordinal) {
    void* wanted = windowAddress(ordinal);
    void* got =
        ::mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == wanted)
      ++free;
    else if (got == MAP_FAILED && refusal.empty())
      refusal = "; mmap failed: " + errnoText(errno);
    if (got != MAP_FAILED) ::munmap(got, bytes);
  }
  return text(free, " of ", kDevices, " agreed addresses free for heaps of ", bytesText(bytes), ", from ",
              static_cast<const void*>(windowAddress(0)), refusal);
}

}  // namespace symccl::info

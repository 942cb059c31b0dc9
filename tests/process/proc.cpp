#include "process/proc.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/text_file.hpp"
#include "memory/heap.hpp"

namespace symccl::test {

namespace {

int entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<int>(std::distance(begin(all), end(all)));
}

// Of a line "Name:   123 kB".
std::size_t kibibytes(const char* file, const std::string& name) {
  const std::string text = readTextFile(file).value_or("");
  const auto at = text.find(name + ":");
  if (at == std::string::npos) return 0;
  return std::stoull(text.substr(at + name.size() + 1)) << 10;
}

}  // namespace

int openDescriptors() { return entries("/proc/self/fd") - 1; }  // without that of the folder itself
int threads() { return entries("/proc/self/task"); }

int mappings() {
  const std::string maps = readTextFile("/proc/self/maps").value_or("");
  return static_cast<int>(std::count(maps.begin(), maps.end(), '\n'));
}

std::size_t residentPrivate() { return kibibytes("/proc/self/status", "RssAnon"); }
std::size_t residentShared() { return kibibytes("/proc/self/status", "RssShmem"); }
std::size_t sharedMemoryOfMachine() { return kibibytes("/proc/meminfo", "Shmem"); }

std::size_t heapPages() {
  struct stat status{};
  const auto heap = Heap::ofDevice(-1);
  if (!heap || ::fstat((*heap)->descriptor(), &status) != 0) return 0;
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

std::string namesInTheSystem() {
  std::string found;
  std::istringstream sockets(readTextFile("/proc/net/unix").value_or(""));
  for (std::string line; std::getline(sockets, line);) {
    if (line.find("symccl") != std::string::npos) found += line.substr(line.rfind(' ') + 1) + "\n";
  }
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) found += file.path().string() + "\n";
  return found;
}

}  // namespace symccl::test

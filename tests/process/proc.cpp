#include "process/proc.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
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

// Processes may end while they are looked at.
void eachLink(const std::string& folder, const std::function<void(const std::string&, const std::string&)>& visit) {
  std::error_code none;
  for (const auto& link : std::filesystem::directory_iterator(folder, none)) {
    const std::string target = std::filesystem::read_symlink(link.path(), none).string();
    if (!none) visit(link.path().string(), target);
  }
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

std::size_t heapPages() {
  struct stat status{};
  const auto heap = Heap::ofDevice(-1);
  if (!heap || ::fstat((*heap)->descriptor(), &status) != 0) return 0;
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

std::uint64_t heapInode() {
  struct stat status{};
  const auto heap = Heap::ofDevice(-1);
  return heap && ::fstat((*heap)->descriptor(), &status) == 0 ? status.st_ino : 0;
}

std::vector<std::uint64_t> socketInodes() {
  std::vector<std::uint64_t> found;
  eachLink("/proc/self/fd", [&](const std::string&, const std::string& target) {
    if (target.starts_with("socket:[")) found.push_back(std::stoull(target.substr(8)));
  });
  return found;
}

bool isSocket(std::uint64_t inode) {
  std::istringstream sockets(readTextFile("/proc/net/unix").value_or(""));
  const std::string number = std::to_string(inode);
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream words(line);
    std::string word;
    for (int column = 0; column < 7; ++column) words >> word;
    if (word == number) return true;
  }
  return false;
}

bool someoneHolds(std::uint64_t inode) {
  bool found = false;
  const std::string number = " " + std::to_string(inode) + " ";
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    const std::string folder = process.path().string();
    if (folder.find_first_of("0123456789") == std::string::npos) continue;
    found = found || readTextFile(folder + "/maps").value_or("").find(number + "/memfd:symccl") != std::string::npos;
    eachLink(folder + "/fd", [&](const std::string& link, const std::string& target) {
      struct stat status{};
      found = found ||
              (target.starts_with("/memfd:symccl") && ::stat(link.c_str(), &status) == 0 && status.st_ino == inode);
    });
  }
  return found;
}

}  // namespace symccl::test

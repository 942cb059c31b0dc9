#include "base/text_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_descriptor.hpp"

namespace symccl {

std::optional<std::string> readTextFile(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string content;
  char chunk[4096];
  while (true) {
    const ssize_t got = ::read(file.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return content;
    content.append(chunk, static_cast<std::size_t>(got));
  }
}

}  // namespace symccl

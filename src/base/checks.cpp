#include "base/checks.hpp"

#include <cstring>

namespace symccl {

std::string errnoText(int number) {
  const char* name = strerrorname_np(number);
  const char* description = strerrordesc_np(number);
  if (!name || !description) return text("errno ", number);
  return text(name, " (", description, ")");
}

}  // namespace symccl

#include "symccl_bench/byte_size.hpp"

#include <cctype>
#include <cmath>
#include <cstdlib>

namespace symccl::bench {

std::optional<std::size_t> parseBytes(const std::string& text) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text.front()))) return {};
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string number = text.substr(0, digits);
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (*end != '\0') return {};
  std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  for (char& letter : unit) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  double scale = 0;
  if (unit.empty() || unit == "B") scale = 1;
  if (unit == "K" || unit == "KB" || unit == "KIB") scale = 1024.0;
  if (unit == "M" || unit == "MB" || unit == "MIB") scale = 1024.0 * 1024;
  if (unit == "G" || unit == "GB" || unit == "GIB") scale = 1024.0 * 1024 * 1024;
  const double bytes = value * scale;
  if (scale == 0 || bytes > 1e15 || bytes != std::floor(bytes)) return {};
  return static_cast<std::size_t>(bytes);
}

}  // namespace symccl::bench

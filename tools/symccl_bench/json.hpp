// Reading JSON, as far as results of benchmarks need it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace symccl::bench {

/// A value. What it is not is empty or 0.
struct Json {
  bool isTrue = false;
  double number = 0;
  std::string text;
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> members;

  /// The member, or an empty value.
  const Json& operator[](const std::string& name) const;
};

/// Throws Failure, with the place, where `text` is no JSON. Escapes \uXXXX become '?'.
Json parseJson(const std::string& text);

/// The same of a file; the failure names it.
Json readJson(const std::string& file);

}  // namespace symccl::bench

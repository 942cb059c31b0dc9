#include "symccl_bench/json.hpp"

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "symccl_bench/failure.hpp"

namespace symccl::bench {

namespace {

constexpr int kDeepest = 64;

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Json whole() {
    Json json = value(0);
    if (next() != '\0') fail();
    return json;
  }

 private:
  [[noreturn]] void fail() const { throw Failure("no JSON at byte " + std::to_string(at_)); }

  /// The next character that is no space; '\0' at the end.
  char next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char letter) {
    if (next() != letter) return false;
    ++at_;
    return true;
  }
  bool takeWord(const char* word) {
    const std::string all = word;
    if (text_.compare(at_, all.size(), all) != 0) return false;
    at_ += all.size();
    return true;
  }

  Json value(int depth) {
    if (depth > kDeepest) fail();
    Json json;
    const char first = next();
    if (first == '{') {
      members(json, depth);
    } else if (first == '[') {
      items(json, depth);
    } else if (first == '"') {
      json.text = string();
    } else if (takeWord("true")) {
      json.isTrue = true;
    } else if (!takeWord("false") && !takeWord("null")) {
      const char* begin = text_.c_str() + at_;
      char* end = nullptr;
      json.number = std::strtod(begin, &end);
      if (end == begin) fail();
      at_ += static_cast<std::size_t>(end - begin);
    }
    return json;
  }

  void members(Json& json, int depth) {
    ++at_;
    if (take('}')) return;
    do {
      if (next() != '"') fail();
      std::string name = string();
      if (!take(':')) fail();
      json.members.emplace_back(std::move(name), value(depth + 1));
    } while (take(','));
    if (!take('}')) fail();
  }

  void items(Json& json, int depth) {
    ++at_;
    if (take(']')) return;
    do {
      json.items.push_back(value(depth + 1));
    } while (take(','));
    if (!take(']')) fail();
  }

  std::string string() {
    std::string result;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\') {
        result += text_[at_];
        continue;
      }
      if (++at_ >= text_.size()) fail();
      const char escaped = text_[at_];
      result += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped == 'u' ? '?' : escaped;
      if (escaped == 'u') at_ += 4;
    }
    if (at_ >= text_.size()) fail();
    ++at_;
    return result;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

const Json& Json::operator[](const std::string& name) const {
  static const Json nothing;
  for (const auto& [key, value] : members) {
    if (key == name) return value;
  }
  return nothing;
}

Json parseJson(const std::string& text) { return Parser(text).whole(); }

Json readJson(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw Failure("cannot read " + file);
  std::ostringstream text;
  text << in.rdbuf();
  try {
    return parseJson(text.str());
  } catch (const Failure& failure) {
    throw Failure(file + ": " + failure.what());
  }
}

}  // namespace symccl::bench

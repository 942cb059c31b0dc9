#include "symccl_info/variables_page.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/environment.hpp"

namespace symccl::info {
namespace {

const char* valueOf(const Variable& variable) {
  const char* value = std::getenv(variable.name);
  return value && *value ? value : nullptr;
}

// Alone, so that each malformed variable is told and not only the first.
bool isValid(const Variable& variable) {
  const auto alone = [&](const char* name) -> const char* {
    return std::strcmp(name, variable.name) == 0 ? std::getenv(name) : nullptr;
  };
  return static_cast<bool>(parseEnvironment(alone));
}

std::string standardText(const Variable& variable) { return *variable.standard ? variable.standard : "not set"; }

std::string nowText(const Variable& variable) {
  const char* value = valueOf(variable);
  if (!value) return standardText(variable) + " (default)";
  const std::string shown = variable.secret ? "set, not shown" : value;
  return isValid(variable) ? shown : shown + " (malformed: every use of the library is refused)";
}

}  // namespace

std::string variablesPage() {
  std::string page;
  for (const Variable& variable : variables()) {
    page += std::string(variable.name) + "\n    " + variable.meaning + "\n";
    page += "    now       " + nowText(variable) + "\n";
    page += "    default   " + standardText(variable) + "\n";
    page += std::string("    accepted  ") + variable.accepted + "\n";
  }
  for (const std::string& sentence : unknownVariables(::environ)) page += "warning: " + sentence + "\n";
  return page;
}

bool variablesAreValid() {
  for (const Variable& variable : variables()) {
    if (!isValid(variable)) return false;
  }
  return true;
}

std::string variablesMarkdown() {
  std::string page =
      "# Variables\n\n"
      "<!-- Written by `symccl-info --markdown` from the table in `src/base/environment.cpp`. Do not edit by hand. "
      "-->\n\n"
      "SymCCL reads these variables once, when a process first uses it. An empty value counts as not set. A malformed "
      "value\n"
      "makes every call that can fail return an error which names the variable, its value and what is accepted. A name "
      "that\n"
      "starts with `SYMCCL_` but is not in the table has no effect: `symccl-info` and the log (from "
      "`SYMCCL_DEBUG=warn`) say\n"
      "so, with the nearest real name.\n\n"
      "`symccl-info --env` shows the values in force.\n\n"
      "| variable | default | accepted | meaning |\n"
      "| --- | --- | --- | --- |\n";
  for (const Variable& variable : variables()) {
    const std::string standard = *variable.standard ? "`" + std::string(variable.standard) + "`" : "not set";
    page += "| `" + std::string(variable.name) + "` | " + standard + " | " + variable.accepted + " | " +
            variable.meaning + " |\n";
  }
  return page;
}

}  // namespace symccl::info

// symccl-info: versions, variables, and what this host allows.
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "base/environment.hpp"
#include "base/version.hpp"
#include "symccl_info/host_page.hpp"
#include "symccl_info/variables_page.hpp"

namespace {

constexpr int kMalformedVariable = 1;
constexpr int kWrongUsage = 2;

std::string versionsPage() {
  return std::string("SymCCL ") + symccl::version() +
         "\n  revision  " SYMCCL_REVISION "\n  compiler  " SYMCCL_COMPILER "\n  build     " SYMCCL_BUILD_TYPE "\n";
}

void print(const std::string& page) { std::fputs(page.c_str(), stdout); }

void printAll() {
  print(versionsPage());
  print("\n" + symccl::info::hostPage());
  print("\nvariables\n" + symccl::info::variablesPage());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Shows the versions of SymCCL, what this host allows, and every variable. Without an option: everything.",
      "symccl-info");
  bool version = false, host = false, env = false, markdown = false;
  app.add_flag("--version", version, "Show version, revision and compiler")->disable_flag_override();
  app.add_flag("--host", host, "Show CPUs, memory limits, kernel features")->disable_flag_override();
  app.add_flag("--env", env, "Show every variable with its value, default, accepted values and meaning")
      ->disable_flag_override();
  app.add_flag("--markdown", markdown, "Show the documentation's page about the variables")->disable_flag_override();
  app.require_option(0, 1);
  app.footer(
      "Exit code: 0; 1 if a variable has a malformed value; 2 on wrong usage.\n\n"
      "Examples:\n"
      "  symccl-info\n"
      "  SYMCCL_HEAP_SIZE=4G symccl-info --env\n"
      "  symccl-info --markdown > docs/variables.md");

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "symccl-info: %s; 'symccl-info --help' shows what is accepted\n", error.what());
    return kWrongUsage;
  }

  if (version || markdown) {
    print(version ? versionsPage() : symccl::info::variablesMarkdown());
    return 0;
  }
  if (host)
    print(symccl::info::hostPage());
  else if (env)
    print(symccl::info::variablesPage());
  else
    printAll();
  if (symccl::info::variablesAreValid()) return 0;
  std::fprintf(stderr, "symccl-info: %s\n", symccl::environmentStatus().error().message().c_str());
  return kMalformedVariable;
}

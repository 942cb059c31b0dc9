// symccl-info: versions, variables, and what this host allows.
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "base/environment.hpp"
#include "base/version.hpp"
#include "symccl_info/host_page.hpp"
#include "symccl_info/plan_page.hpp"
#include "symccl_info/variables_page.hpp"

namespace {

constexpr int kMalformedVariable = 1;
constexpr int kWrongUsage = 2;

std::string versionsPage() {
  return std::string("SymCCL ") + symccl::version() +
         "\n  revision  " SYMCCL_REVISION "\n  compiler  " SYMCCL_COMPILER "\n  build     " SYMCCL_BUILD_TYPE "\n";
}

int malformed() {
  std::fprintf(stderr, "symccl-info: %s\n", symccl::environmentStatus().error().message().c_str());
  return kMalformedVariable;
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
      "Shows the versions of SymCCL, what this host allows, every variable, and plans. Without an option: everything.",
      "symccl-info");
  bool version = false, host = false, env = false, markdown = false;
  app.add_flag("--version", version, "Show version, revision and compiler")->disable_flag_override();
  app.add_flag("--host", host, "Show CPUs, memory limits, kernel features")->disable_flag_override();
  app.add_flag("--env", env, "Show every variable with its value, default, accepted values and meaning")
      ->disable_flag_override();
  app.add_flag("--markdown", markdown, "Show the documentation's page about the variables")->disable_flag_override();
  app.require_option(0, 1);
  symccl::info::PlanQuestion question;
  CLI::App* plan = app.add_subcommand("plan", "Show which algorithm an operation takes, and what each would cost");
  plan->add_option("operation", question.operation, "all_reduce, broadcast, ...")->required();
  plan->add_option("bytes", question.bytes, "Bytes of the call's count: 4096, 1M ...")->required();
  plan->add_option("--ranks", question.ranks, "Ranks of the communicator")->capture_default_str();
  plan->add_option("--type", question.type, "Element type")->capture_default_str();
  plan->add_option("--path", question.path, "Where the buffers are: registered or private")->capture_default_str();
  app.footer(
      "Exit code: 0; 1 if a variable has a malformed value; 2 on wrong usage.\n\n"
      "Examples:\n"
      "  symccl-info plan all_reduce 1M --ranks 4\n"
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

  if (*plan) {
    if (!symccl::environmentStatus()) return malformed();
    const symccl::Result<std::string> page = symccl::info::planPage(question);
    if (page) {
      print(*page);
      return 0;
    }
    std::fprintf(stderr, "symccl-info: %s\n", page.error().message().c_str());
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
  return symccl::info::variablesAreValid() ? 0 : malformed();
}

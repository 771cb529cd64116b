// The tilec command: parses, runs one subcommand, and turns failures into exit statuses.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "arguments.h"
#include "command.h"
#include "output.h"

namespace tilec::command {
namespace {

constexpr const char* kDescription =
    "tilec: GPU kernels specialised, compiled, cached and launched at run time.\n\n"
    "  tilec info                                  what is here: devices, NVRTC, cache, templates\n"
    "  tilec run gemm 512 512 512 --check          plan, run and check one problem\n"
    "  tilec run add 1000000 --device host         the same without a GPU\n"
    "  tilec build --arch sm_80,sm_90a             fill the cache ahead of time\n"
    "  tilec cache ls                              what the cache holds\n";

constexpr const char* kFooter =
    "Exit status: 0, 1 for a failure, 2 for a command that can't be right, 130 after Ctrl-C.";

// The innermost subcommand that was named.
const CLI::App& named(const CLI::App& app) {
  const std::vector<CLI::App*> below = app.get_subcommands();
  return below.empty() ? app : named(*below.back());
}

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? "tilec" : full_name(*parent) + " " + app.get_name();
}

std::vector<std::string> known_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> known_subcommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty()) names.push_back(sub->get_name());
  }
  return names;
}

std::string unexpected(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> below = known_subcommands(app);
  const bool option = word.size() > 1 && word.front() == '-';
  const std::string name = word.substr(0, word.find('='));
  const std::string message = option          ? "unknown option " + name + " of " + full_name(app)
                              : below.empty() ? full_name(app) + " takes no '" + word + "'"
                                              : full_name(app) + " has no '" + word + "'";
  const std::vector<std::string> near = similar(name, option ? known_options(app) : below);
  if (!near.empty()) return message + "; did you mean " + either(near) + "?";
  if (!option && !below.empty()) return message + "; it has " + either(below) + ".";
  return message + ".";
}

// What CLI11 found wrong, with the nearest right word.
std::string usage_message(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& app = named(root);
  const std::string name = full_name(app);
  const std::vector<std::string> extras = root.remaining(true);
  const std::vector<std::string> below = known_subcommands(app);
  const bool incomplete = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!extras.empty() && (incomplete || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)) {
    return unexpected(app, extras.front()) + " See " + name + " --help";
  }
  if (incomplete && !below.empty()) {
    return name + " needs a subcommand: " + either(below) + ". See " + name + " --help";
  }
  return name + ": " + error.what() + ". See " + name + " --help";
}

// Whether failures are to be told as JSON, also where the rest can't be parsed.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--") == 0) return false;
    if (std::strcmp(argv[i], "--json") == 0) return true;
  }
  return false;
}

void configure(CLI::App& app, Invocation& invocation) {
  app.footer(kFooter);
  app.set_version_flag("--version", "tilec " TILEC_VERSION);
  app.get_formatter()->column_width(34);
  app.require_subcommand(1);
  register_info(app, invocation);
  register_build(app, invocation);
  register_run(app, invocation);
  register_source(app, invocation);
  register_bench(app, invocation);
  register_cache(app, invocation);
  register_worker(app, invocation);
  add_global_flags(app, invocation.global);
}

// A write beyond the process's file-size limit is to be an error of write(), here and in the
// compilers that workers start. A container's first process is ended by a signal only where it
// handles it.
void prepare_signals() {
  std::signal(SIGXFSZ, SIG_IGN);
  if (getpid() != 1) return;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    const auto inherited = std::signal(signal, [](int arrived) { _exit(128 + arrived); });
    if (inherited == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

// On stdout, unless that is what failed: half a document may be there.
void tell(const std::exception_ptr& error, bool json) {
  print_error(error);
  if (!json || std::ferror(stdout) != 0) return;
  try {
    print_json({{"error", error_json(error)}});
  } catch (const Failure&) {
    print_error(std::current_exception());
  }
}

int run(int argc, char** argv) {
  CLI::App app(kDescription, "tilec");
  Invocation invocation;
  configure(app, invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    app.exit(success);
    flush_results();
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    throw UsageError(usage_message(app, error));
  }
  const int status = invocation.run(invocation.global);
  flush_results();
  return status;
}

}  // namespace
}  // namespace tilec::command

int main(int argc, char** argv) {
  using namespace tilec::command;
  prepare_signals();
  try {
    return run(argc, argv);
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    tell(error, wants_json(argc, argv));
    return exit_status(error);
  }
}

// How subcommands are made known: each file registers its own on the root and says what to run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tilec/options.h"

namespace CLI {
class App;
}

namespace tilec::command {

// Options of every subcommand.
struct GlobalFlags {
  bool json = false;
  std::string cache_dir, cache_policy, require_builder, nvrtc, host_compiler, dump_dir;
  std::vector<std::string> read_only_roots, bundles, trust_shared;

  // The environment's options with these on top. Throws UsageError, Error{invalid_argument}.
  Options options() const;
  // The same flags as words, for a worker process.
  std::vector<std::string> words() const;
};

// What was asked for: set by the callback of the subcommand that was named. Returns the exit
// status.
struct Invocation {
  GlobalFlags global;
  std::function<int(const GlobalFlags&)> run;
};

// To an app and all its subcommands.
void add_global_flags(CLI::App& app, GlobalFlags& flags);

// The same options with the engine's log switched off, where the subcommand tells what is wrong.
Options without_log(Options options);

void register_info(CLI::App& root, Invocation& invocation);
void register_build(CLI::App& root, Invocation& invocation);
void register_worker(CLI::App& root, Invocation& invocation);  // hidden: `build` starts it
void register_run(CLI::App& root, Invocation& invocation);
void register_source(CLI::App& root, Invocation& invocation);
void register_bench(CLI::App& root, Invocation& invocation);
void register_cache(CLI::App& root, Invocation& invocation);

// Of `tilec cache …`.
void register_cache_listing(CLI::App& cache, Invocation& invocation);      // ls, show, path, stats
void register_cache_maintenance(CLI::App& cache, Invocation& invocation);  // verify, clear, prune
void register_cache_bundles(CLI::App& cache, Invocation& invocation);      // export, import
void register_cache_why(CLI::App& cache, Invocation& invocation);

}  // namespace tilec::command

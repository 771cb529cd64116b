// The options of every subcommand, and how they change the environment's.
#include <spdlog/logger.h>
#include <spdlog/sinks/null_sink.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>

#include "arguments.h"
#include "command.h"
#include "output.h"

namespace tilec::command {
namespace {

struct NamedPolicy {
  const char* name;
  CachePolicy policy;
};
constexpr std::array<NamedPolicy, 4> kPolicies{{{"normal", CachePolicy::normal},
                                                {"must_hit", CachePolicy::must_hit},
                                                {"refresh", CachePolicy::refresh},
                                                {"off", CachePolicy::off}}};

CachePolicy parse_policy(const std::string& name) {
  std::vector<std::string> names;
  for (const NamedPolicy& row : kPolicies) {
    if (name == row.name) return row.policy;
    names.emplace_back(row.name);
  }
  throw UsageError("--cache-policy '" + name + "' is none; it is " + either(names));
}

}  // namespace

void add_global_flags(CLI::App& app, GlobalFlags& flags) {
  const bool root = app.get_parent() == nullptr;
  constexpr const char* kGroup = "Options of every subcommand";
  // Each subcommand takes them all, but shows only the first: the root's --help has the rest.
  const char* const group = root ? kGroup : "";
  app.add_flag("--json", flags.json, "Print one JSON document instead of text")
      ->group(root ? kGroup : "Options");
  const auto text = [&](const char* name, std::string& value, const char* meaning,
                        const char* type) {
    app.add_option(name, value, meaning)->type_name(type)->group(group);
  };
  const auto list = [&](const char* name, std::vector<std::string>& values, const char* meaning) {
    const auto append = [&values](const std::vector<std::string>& more) {
      values.insert(values.end(), more.begin(), more.end());
    };
    app.add_option_function<std::vector<std::string>>(name, append, meaning)
        ->type_name("PATH")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->group(group);
  };
  text("--cache-dir", flags.cache_dir, "The cache, in place of TILEC_CACHE_DIR", "DIR");
  text("--cache-policy", flags.cache_policy, "normal, must_hit, refresh or off", "POLICY");
  list("--read-only-root", flags.read_only_roots, "A cache to search too; may be repeated");
  list("--bundle", flags.bundles, "An exported bundle to search too; may be repeated");
  list("--trust-shared", flags.trust_shared, "A root to use although others can write there");
  text("--require-builder", flags.require_builder, "Serve only what this compiler made",
       "nvrtc-X.Y.Z");
  text("--nvrtc", flags.nvrtc, "NVRTC's shared library", "FILE");
  text("--host-compiler", flags.host_compiler, "The C++ compiler of the host device", "FILE");
  text("--dump-dir", flags.dump_dir, "Write the source, PTX and cubin of every plan there", "DIR");
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    add_global_flags(*sub, flags);
  }
}

Options GlobalFlags::options() const {
  Options options = Options::from_env();
  if (!cache_dir.empty()) options.cache_dir = resolved_path(cache_dir, "--cache-dir");
  if (!cache_policy.empty()) options.cache_policy = parse_policy(cache_policy);
  if (!require_builder.empty()) options.require_builder = require_builder;
  if (!nvrtc.empty()) options.nvrtc.library = resolved_program(nvrtc, "--nvrtc");
  if (!host_compiler.empty()) {
    options.host_compiler = resolved_program(host_compiler, "--host-compiler");
  }
  if (!dump_dir.empty()) options.dump_dir = resolved_path(dump_dir, "--dump-dir");
  const auto append = [](const std::vector<std::string>& from, const char* flag,
                         std::vector<std::filesystem::path>& to) {
    for (const std::string& path : from) to.push_back(resolved_path(path, flag));
  };
  append(read_only_roots, "--read-only-root", options.read_only_roots);
  append(bundles, "--bundle", options.bundle_files);
  append(trust_shared, "--trust-shared", options.trust_shared);
  return options;
}

Options without_log(Options options) {
  options.logger =
      std::make_shared<spdlog::logger>("tilec", std::make_shared<spdlog::sinks::null_sink_mt>());
  return options;
}

std::vector<std::string> GlobalFlags::words() const {
  std::vector<std::string> words;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.push_back(std::string(name) + "=" + value);
  };
  add("--cache-dir", cache_dir);
  add("--cache-policy", cache_policy);
  add("--require-builder", require_builder);
  add("--nvrtc", nvrtc);
  add("--host-compiler", host_compiler);
  add("--dump-dir", dump_dir);
  for (const std::string& path : read_only_roots) add("--read-only-root", path);
  for (const std::string& path : bundles) add("--bundle", path);
  for (const std::string& path : trust_shared) add("--trust-shared", path);
  return words;
}

}  // namespace tilec::command

// What the `tilec cache` subcommands share.
#include "cache_support.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <set>

#include "arguments.h"
#include "format.h"
#include "tilec/target.h"

namespace tilec::command {
namespace {

constexpr std::size_t kLeastPrefix = 4;

cache::StoreOptions store_options(const Options& options) {
  cache::StoreOptions store;
  store.root = options.cache_dir;
  store.read_only_roots = options.read_only_roots;
  for (const auto& path : options.bundle_files) store.bundles.push_back({.path = path});
  store.max_bytes = options.cache_max_bytes;
  store.sync = options.cache_sync;
  store.trust_shared = options.trust_shared;
  store.root_hint = "name another with --cache-dir or TILEC_CACHE_DIR";
  store.trust_hint =
      "name it with --trust-shared or TILEC_CACHE_TRUST_SHARED if others may write there";
  return store;
}

cache::Store opened(const Options& options, cache::StoreOptions store_options) {
  if (options.cache_dir.empty() && options.read_only_roots.empty() &&
      options.bundle_files.empty()) {
    throw UsageError(
        "there is no cache to open: HOME and XDG_CACHE_HOME are unset; name one with --cache-dir "
        "or "
        "TILEC_CACHE_DIR");
  }
  return cache::Store(std::move(store_options));
}

cache::Store warned(cache::Store store) {
  for (const std::string& problem : store.problems()) print_warning(problem);
  return store;
}

}  // namespace

void add_filter_flags(CLI::App& app, FilterFlags& flags) {
  constexpr const char* kGroup = "Filters (all must hold)";
  app.add_option("--target", flags.target, "sm_90a, …")->type_name("TARGET")->group(kGroup);
  app.add_option("--template", flags.template_name, "gemm_regn, …")
      ->type_name("NAME")
      ->group(kGroup);
  app.add_option("--builder", flags.builder, "nvrtc-13.0.88, …")
      ->type_name("BUILDER")
      ->group(kGroup);
  app.add_option("--kind", flags.kind, "cubin, ptx or host")->type_name("KIND")->group(kGroup);
  app.add_option("--key", flags.key, "One key, 32 hexadecimal digits")
      ->type_name("KEY")
      ->group(kGroup);
}

cache::Filter FilterFlags::filter() const {
  cache::Filter filter;
  if (!target.empty()) {
    // Objects of another machine's host device are listed too.
    filter.target = target.starts_with("host-") ? target : Target::parse(target).name();
  }
  filter.template_name = template_name;
  if (!builder.empty() && !cache::valid_builder(builder)) {
    throw UsageError("--builder '" + builder + "' can be none; builders look like nvrtc-13.0.88");
  }
  filter.builder = builder;
  if (!kind.empty() && kind != "cubin" && kind != "ptx" && kind != "host") {
    throw UsageError("--kind '" + kind + "' is none; it is cubin, ptx or host");
  }
  filter.kind = kind;
  if (!key.empty()) {
    filter.key = cache::Key::parse(key);
    if (!filter.key) {
      throw UsageError("--key '" + key +
                       "' is not a key: 32 of 0-9 and a-f, as `tilec cache ls` prints");
    }
  }
  return filter;
}

cache::Store open_store(const Options& options) {
  cache::StoreOptions store = store_options(options);
  store.read_only = true;
  std::error_code error;  // what can't be looked at is opened, and the store says why it can't be
  if (!std::filesystem::exists(store.root, error) && !error) store.root.clear();
  return warned(opened(options, std::move(store)));
}

cache::Store open_writable_store(const Options& options) {
  cache::Store store = open_store_to_fill(options);
  expect_writable(store);
  return store;
}

cache::Store open_store_to_fill(const Options& options) {
  cache::Store store = opened(options, store_options(options));
  return store.writable() ? warned(std::move(store)) : std::move(store);
}

void expect_writable(const cache::Store& store) {
  if (store.writable()) return;
  const std::vector<std::string> problems = store.problems();
  throw Failure(problems.empty()
                    ? "the cache " + store.options().root.string() + " can't be written"
                    : problems.front(),
                "cache");
}

void expect_key_or_prefix(const std::string& text) {
  const bool hexadecimal = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (!hexadecimal || text.size() < kLeastPrefix || text.size() > 32) {
    throw UsageError(
        "'" + text +
        "' is not a key: 32 of 0-9 and a-f as `tilec cache ls` prints, or the first of "
        "them (4 or more)");
  }
}

cache::Key find_key(const cache::Store& store, const std::string& text) {
  expect_key_or_prefix(text);
  if (const std::optional<cache::Key> key = cache::Key::parse(text)) return *key;
  std::set<cache::Key> found;
  store.for_each({}, cache::Depth::metadata, [&](const cache::Listed& listed) {
    if (listed.key.hex().starts_with(text)) found.insert(listed.key);
    return true;
  });
  if (found.empty()) {
    throw Failure("no entry's key begins with " + text + "; see `tilec cache ls`", "not_found");
  }
  if (found.size() > 1) {
    throw Failure(fmt::format("{} keys begin with {}; give more of its digits", found.size(), text),
                  "ambiguous");
  }
  return *found.begin();
}

int finish(const GlobalFlags& global, Finished finished) {
  const bool failed = !finished.complaint.empty();
  if (failed) {
    finished.json["error"] = {
        {"kind", finished.kind}, {"message", finished.complaint}, {"exit_status", kExitFailure}};
  }
  if (global.json) {
    print_json(finished.json);
  } else {
    print_text(finished.text);
  }
  if (failed) print_warning(finished.complaint);
  return failed ? kExitFailure : kExitOk;
}

std::string complaint_of(const std::vector<cache::Miss>& misses) {
  if (misses.empty()) return {};
  const cache::Miss& first = misses.front();
  const std::size_t more = misses.size() - 1;
  return first.path.string() + ": " + first.detail +
         (more == 0 ? "" : fmt::format("; {} more", more));
}

Json to_json(const std::vector<cache::Miss>& misses) {
  Json json = Json::array();
  for (const cache::Miss& miss : misses) json.push_back(to_json(miss));
  return json;
}

Json to_json(const cache::Miss& miss) {
  Json json{{"reason", cache::to_string(miss.reason)},
            {"detail", miss.detail},
            {"path", miss.path.string()},
            {"removed", miss.removed}};
  return json;
}

Json to_json(const cache::Listed& listed) {
  Json entries = Json::array();
  for (const cache::EntryPoint& entry : listed.metadata.entries) {
    entries.push_back({{"name", entry.name},
                       {"registers", entry.registers},
                       {"static_shared_bytes", entry.static_shared_bytes},
                       {"local_bytes", entry.local_bytes},
                       {"spill_store_bytes", entry.spill_store_bytes},
                       {"spill_load_bytes", entry.spill_load_bytes},
                       {"max_threads", entry.max_threads}});
  }
  const cache::Metadata& m = listed.metadata;
  Json json{{"key", listed.key.hex()},
            {"kind", m.kind},
            {"template", m.template_name},
            {"parameters", m.parameters},
            {"target", m.target},
            {"builder", m.builder},
            {"description", m.description},
            {"bytes", listed.bytes},
            {"payload_bytes", listed.payload_bytes},
            {"source_bytes", m.source_bytes},
            {"build_seconds", m.build_seconds},
            {"least_driver", m.least_driver},
            {"entries", entries},
            {"notes", m.notes},
            {"origin", cache::to_string(listed.origin)},
            {"path", listed.path.string()},
            {"last_used", utc(listed.last_used)}};
  if (listed.problem) json["problem"] = to_json(*listed.problem);
  return json;
}

std::string describe(const std::map<std::string, std::string>& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    text += (text.empty() ? "" : " ") + name + "=" + value;
  }
  return text;
}

std::string utc(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string age(std::chrono::system_clock::time_point time) {
  const std::chrono::duration<double> past = std::chrono::system_clock::now() - time;
  const double days = past.count() / 86400;
  return days >= 2 ? fmt::format("{:.0f} d", days) : human_duration(past.count());
}

}  // namespace tilec::command

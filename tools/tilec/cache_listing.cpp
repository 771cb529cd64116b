// tilec cache ls, show, path, stats: what is there. They change nothing.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "cache_support.h"
#include "format.h"

namespace tilec::command {
namespace {

struct Entries {
  std::vector<cache::Listed> all;
  std::vector<cache::Miss> unread;
};

Entries all_entries(const cache::Store& store, const cache::Filter& filter) {
  Entries entries;
  entries.unread = store.for_each(filter, cache::Depth::metadata, [&](const cache::Listed& listed) {
    entries.all.push_back(listed);
    return true;
  });
  return entries;
}

int list(const GlobalFlags& global, const FilterFlags& flags) {
  const cache::Filter filter = flags.filter();
  auto [entries, unread] = all_entries(open_store(global.options()), filter);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.metadata.template_name, a.metadata.target, a.key) <
           std::tie(b.metadata.template_name, b.metadata.target, b.key);
  });
  std::uint64_t bytes = 0;
  Json json = Json::array();
  std::vector<std::vector<std::string>> rows{
      {"KEY", "TEMPLATE", "PARAMETERS", "TARGET", "BUILDER", "SIZE", "USED"}};
  for (const cache::Listed& listed : entries) {
    bytes += listed.bytes;
    if (global.json) {
      json.push_back(to_json(listed));
    } else if (listed.problem) {
      rows.push_back({listed.key.hex(), "damaged",
                      std::string(cache::to_string(listed.problem->reason)), "", "",
                      human_bytes(listed.bytes), age(listed.last_used)});
    } else {
      const cache::Metadata& m = listed.metadata;
      rows.push_back({listed.key.hex(), m.template_name, describe(m.parameters), m.target,
                      m.builder, human_bytes(listed.bytes), age(listed.last_used)});
    }
  }
  std::string text;
  if (!entries.empty()) text = table(rows, {false, false, false, false, false, true, true});
  text += fmt::format("{} {}, {}\n", entries.size(), entries.size() == 1 ? "entry" : "entries",
                      human_bytes(bytes));
  return finish(global, {{{"entries", json},
                          {"count", entries.size()},
                          {"bytes", bytes},
                          {"unread", to_json(unread)}},
                         std::move(text),
                         "unread",
                         complaint_of(unread)});
}

std::string entry_text(const cache::Listed& listed) {
  const cache::Metadata& m = listed.metadata;
  std::vector<std::vector<std::string>> rows{
      {"key", listed.key.hex()},
      {"template", m.template_name},
      {"parameters", describe(m.parameters)},
      {"problem", m.description},
      {"target", m.target},
      {"kind", m.kind},
      {"builder", m.builder},
      {"size", fmt::format("{} ({} of it the {})", human_bytes(listed.bytes),
                           human_bytes(listed.payload_bytes), m.kind)},
      {"built in", human_time(m.build_seconds)},
      {"last used", utc(listed.last_used)},
      {"where", fmt::format("{} ({})", listed.path.string(), cache::to_string(listed.origin))}};
  if (m.least_driver > 0) {
    rows.push_back({"driver", fmt::format("{}.{} or later", m.least_driver / 1000,
                                          m.least_driver % 1000 / 10)});
  }
  for (const cache::EntryPoint& e : m.entries) {
    rows.push_back({"entry", fmt::format("{}: {} registers, {} B static shared memory, {} B stack, "
                                         "{} B spilled",
                                         e.name, e.registers, e.static_shared_bytes, e.local_bytes,
                                         e.spill_store_bytes + e.spill_load_bytes)});
  }
  for (const auto& [name, value] : m.notes) rows.push_back({name, value});
  if (listed.problem) {
    rows = {{"key", listed.key.hex()},
            {"where", listed.path.string()},
            {"damaged", fmt::format("{}: {}", cache::to_string(listed.problem->reason),
                                    listed.problem->detail)}};
  }
  std::string text = table(rows);
  if (!m.log.empty()) text += "log\n" + indented(m.log, "  ");
  return text;
}

void write_payload(const cache::Store& store, const cache::Key& key, const std::string& path) {
  const cache::LookUp found = store.look_up(key);
  if (!found) {
    throw Failure("the entry can't be read: " + found.misses.front().detail, "not_found");
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wbe"),
                                                             &std::fclose);
  if (file == nullptr) throw Failure(path + " can't be written: " + std::strerror(errno));
  const auto& payload = found.entry->payload;
  if (std::fwrite(payload.data(), 1, payload.size(), file.get()) == payload.size() &&
      std::fflush(file.get()) == 0) {
    return;
  }
  const std::string why = std::strerror(errno);
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) std::filesystem::remove(path, ignored);
  throw Failure(path + " can't be written: " + why);
}

struct ShowFlags {
  std::string key, payload;
};

int show(const GlobalFlags& global, const ShowFlags& flags) {
  expect_key_or_prefix(flags.key);
  const cache::Store store = open_store(global.options());
  const cache::Key key = find_key(store, flags.key);
  const std::vector<cache::Listed> entries = all_entries(store, {.key = key}).all;
  if (entries.empty()) {
    throw Failure("there is no entry " + key.hex() + "; see `tilec cache ls`", "not_found");
  }
  if (!flags.payload.empty()) write_payload(store, key, flags.payload);
  Json json = Json::array();
  std::string text;
  for (const cache::Listed& listed : entries) {
    json.push_back(to_json(listed));
    if (!listed.metadata.log.empty()) json.back()["log"] = listed.metadata.log;
    text += (text.empty() ? "" : "\n") + entry_text(listed);
  }
  if (global.json) {
    print_json({{"entries", json}});
  } else {
    print_text(text);
  }
  return kExitOk;
}

int path(const GlobalFlags& global) {
  const std::string directory = global.options().cache_dir.string();
  if (directory.empty()) {
    throw Failure(
        "there is no cache directory: HOME and XDG_CACHE_HOME are unset; name one with "
        "--cache-dir or TILEC_CACHE_DIR",
        "cache");
  }
  if (global.json) {
    print_json({{"path", directory}});
  } else {
    print_text(directory + "\n");
  }
  return kExitOk;
}

struct Sum {
  std::uint64_t entries = 0, bytes = 0;
};
using Sums = std::map<std::string, Sum>;

Json to_json(const Sums& sums) {
  Json json = Json::object();
  for (const auto& [name, sum] : sums) {
    json[name] = {{"entries", sum.entries}, {"bytes", sum.bytes}};
  }
  return json;
}

void append_rows(const std::string& what, const Sums& sums,
                 std::vector<std::vector<std::string>>& rows) {
  for (const auto& [name, sum] : sums) {
    rows.push_back({what, name, std::to_string(sum.entries), human_bytes(sum.bytes)});
  }
}

int stats(const GlobalFlags& global) {
  const Options options = global.options();
  const cache::Store store = open_store(options);
  Sums by_template, by_target, by_builder, by_origin;
  std::uint64_t damaged = 0;
  double build_seconds = 0;
  const auto count = [&](const cache::Listed& listed) {
    const auto add = [&](Sums& sums, const std::string& name) {
      sums[name].entries += 1;
      sums[name].bytes += listed.bytes;
    };
    add(by_origin, std::string(cache::to_string(listed.origin)));
    if (listed.problem) {
      ++damaged;
      return true;
    }
    add(by_template, listed.metadata.template_name);
    add(by_target, listed.metadata.target);
    add(by_builder, listed.metadata.builder);
    build_seconds += listed.metadata.build_seconds;
    return true;
  };
  const std::vector<cache::Miss> unread = store.for_each({}, cache::Depth::metadata, count);
  const cache::Totals totals = store.totals();
  Json json{{"path", options.cache_dir.string()},
            {"entries", totals.entries},
            {"bytes", totals.bytes},
            {"max_bytes", options.cache_max_bytes},
            {"temporary_files", totals.temporary_files},
            {"damaged", damaged},
            {"build_seconds", build_seconds},
            {"by_template", to_json(by_template)},
            {"by_target", to_json(by_target)},
            {"by_builder", to_json(by_builder)},
            {"by_origin", to_json(by_origin)},
            {"unread", command::to_json(unread)}};
  std::vector<std::vector<std::string>> rows{{"", "", "ENTRIES", "SIZE"}};
  append_rows("origin", by_origin, rows);
  append_rows("template", by_template, rows);
  append_rows("target", by_target, rows);
  append_rows("builder", by_builder, rows);
  std::string text =
      fmt::format("{}: {} entries, {}; {}\n", options.cache_dir.string(), totals.entries,
                  human_bytes(totals.bytes), human_bound(options.cache_max_bytes));
  text += fmt::format("{} damaged, {} temporary files, {} of compiling kept\n\n", damaged,
                      totals.temporary_files, human_time(build_seconds));
  text += table(rows, {false, false, true, true});
  return finish(global, {std::move(json), std::move(text), "unread", complaint_of(unread)});
}

}  // namespace

void register_cache_listing(CLI::App& cache, Invocation& invocation) {
  auto* ls = cache.add_subcommand("ls", "List the entries of the cache, its roots and bundles");
  const auto filter = std::make_shared<FilterFlags>();
  add_filter_flags(*ls, *filter);
  ls->callback([&invocation, filter] {
    invocation.run = [filter](const GlobalFlags& global) { return list(global, *filter); };
  });

  auto* one = cache.add_subcommand("show", "All that is known of one entry");
  const auto flags = std::make_shared<ShowFlags>();
  one->add_option("key", flags->key, "Its key, or the first digits of it")->required();
  one->add_option("--payload", flags->payload, "Write the cubin (PTX, object) to this file")
      ->type_name("FILE");
  one->callback([&invocation, flags] {
    invocation.run = [flags](const GlobalFlags& global) { return show(global, *flags); };
  });

  auto* where = cache.add_subcommand("path", "Print the directory");
  where->callback([&invocation] { invocation.run = path; });

  auto* counts = cache.add_subcommand("stats", "Entries and bytes by template, target and builder");
  counts->callback([&invocation] { invocation.run = stats; });
}

}  // namespace tilec::command

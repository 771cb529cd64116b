// tilec cache verify, clear, prune: they may remove entries of the own root, and nothing else.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "arguments.h"
#include "cache_support.h"
#include "format.h"

namespace tilec::command {
namespace {

int verify(const GlobalFlags& global, bool repair) {
  const Options options = global.options();
  const cache::Store store = repair ? open_writable_store(options) : open_store(options);
  const cache::VerifyReport report = store.verify(repair);
  std::string text;
  std::vector<cache::Miss> left;
  for (const cache::Miss& miss : report.damaged) {
    if (!miss.removed) left.push_back(miss);
    text += fmt::format("{}: {} ({}){}\n", miss.path.string(), miss.detail,
                        cache::to_string(miss.reason), miss.removed ? ", removed" : "");
  }
  const std::size_t removed = report.damaged.size() - left.size();
  text += fmt::format("{} good ({}), {} damaged, {} removed\n", report.good,
                      human_bytes(report.bytes), report.damaged.size(), removed);
  Finished finished{{{"good", report.good},
                     {"bytes", report.bytes},
                     {"damaged", to_json(report.damaged)},
                     {"removed", removed}},
                    text,
                    "damage",
                    {}};
  if (repair) {
    finished.complaint = complaint_of(left);
  } else if (!left.empty()) {
    finished.complaint = fmt::format(
        "{} damaged {}; `tilec cache verify --repair` removes what is in the own root, and "
        "whatever was lost is compiled again when it is needed",
        left.size(), left.size() == 1 ? "entry" : "entries");
  }
  return finish(global, std::move(finished));
}

int clear(const GlobalFlags& global, const FilterFlags& flags) {
  const cache::Filter filter = flags.filter();
  const cache::Cleared cleared = open_writable_store(global.options()).clear(filter);
  return finish(global, {{{"removed", cleared.removed}, {"kept", to_json(cleared.kept)}},
                         fmt::format("{} {} removed\n", cleared.removed,
                                     cleared.removed == 1 ? "entry" : "entries"),
                         "kept",
                         complaint_of(cleared.kept)});
}

// Of --max-size. 0 means no bound everywhere, and nobody prunes to that.
std::uint64_t parse_bound(const std::string& text) try {
  const std::uint64_t bytes = parse_bytes(text, "--max-size");
  if (bytes > 0) return bytes;
  throw UsageError(
      "--max-size 0 would be no bound at all, as 0 is for every size; `tilec cache clear` removes "
      "all entries");
} catch (const Error& error) {
  throw UsageError(error.what());
}

int prune(const GlobalFlags& global, const std::string& max_size) {
  cache::SweepOptions sweep{.complete = true};
  if (!max_size.empty()) sweep.max_bytes = parse_bound(max_size);
  const cache::Swept swept = open_writable_store(global.options()).sweep(sweep);
  if (!swept.ran && swept.kept.empty()) {
    throw Failure("another process is pruning this cache; nothing was done", "busy");
  }
  return finish(global,
                {{{"removed_entries", swept.removed_entries},
                  {"removed_bytes", swept.removed_bytes},
                  {"removed_temporary_files", swept.removed_temporary_files},
                  {"bytes_left", swept.bytes_left},
                  {"kept", to_json(swept.kept)}},
                 fmt::format("{} {} removed ({}), {} left\n", swept.removed_entries,
                             swept.removed_entries == 1 ? "entry" : "entries",
                             human_bytes(swept.removed_bytes), human_bytes(swept.bytes_left)),
                 "kept",
                 complaint_of(swept.kept)});
}

}  // namespace

void register_cache_maintenance(CLI::App& cache, Invocation& invocation) {
  auto* check = cache.add_subcommand("verify", "Read every entry whole and check it");
  const auto repair = std::make_shared<bool>(false);
  check->add_flag("--repair", *repair, "Remove damaged entries from the own root");
  check->callback([&invocation, repair] {
    invocation.run = [repair](const GlobalFlags& global) { return verify(global, *repair); };
  });

  auto* empty =
      cache.add_subcommand("clear", "Remove entries from the own root: all, or the filtered");
  const auto filter = std::make_shared<FilterFlags>();
  add_filter_flags(*empty, *filter);
  empty->callback([&invocation, filter] {
    invocation.run = [filter](const GlobalFlags& global) { return clear(global, *filter); };
  });

  auto* smaller =
      cache.add_subcommand("prune", "Remove the least recently used entries beyond a size");
  const auto size = std::make_shared<std::string>();
  smaller->add_option("--max-size", *size, "Such as 512M or 2G; left out: the configured bound")
      ->type_name("SIZE");
  smaller->callback([&invocation, size] {
    invocation.run = [size](const GlobalFlags& global) { return prune(global, *size); };
  });
}

}  // namespace tilec::command

// Filling the cache and watching what it keeps.
#include "build_work.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>

#include "format.h"

namespace tilec::command {

BuildWork::BuildWork(BuildReport& report, const cache::Store& store, const Options& options,
                     bool quiet)
    : report_(report), store_(store), options_(options), progress_(progress_style(quiet)) {}

void BuildWork::note_present() {
  counts_.total = report_.results.size();
  for (std::size_t i = 0; i < report_.results.size(); ++i) {
    BuildResult& result = report_.results[i];
    if (!result.item.rejected.empty()) {
      fail(result, result.item.rejected);
      continue;
    }
    const auto bytes =
        options_.cache_policy == CachePolicy::refresh ? std::nullopt : find(result.item.key);
    if (bytes) {
      note_found(result, BuildResult::Status::present, *bytes);
    } else {
      missing_.push_back(i);
    }
  }
  progress_.redraw(counts_);
}

std::vector<const BuildItem*> BuildWork::missing() const {
  std::vector<const BuildItem*> items;
  for (const std::size_t i : missing_) items.push_back(&report_.results[i].item);
  return items;
}

void BuildWork::build_missing(PoolOptions pool) {
  std::vector<std::string> tasks;
  for (const BuildItem* item : missing()) {
    tasks.push_back(item->task.dump(-1, ' ', true, Json::error_handler_t::replace));
  }
  pool.processes = std::min(pool.processes, static_cast<int>(tasks.size()));
  const PoolEvents events{
      .on_outcome = [&](const Outcome& outcome) { note(outcome, pool); },
      .on_message = [&](std::string_view line) { note_message(line); },
      .on_put_off =
          [&](std::size_t task) {
            progress_.message("tilec: " + report_.results[missing_[task]].item.label +
                              ": the compiling process was killed, as it is where memory runs out; "
                              "it is tried again alone after the others");
          },
      .on_tick = [&] { progress_.redraw(counts_); }};
  report_.signal = run_pool(tasks, pool, events);
  report_.seconds = progress_.seconds();
}

void BuildWork::note_evicted() {
  std::uint64_t largest = 0, lost = 0;
  for (const BuildResult& result : report_.results) largest = std::max(largest, result.bytes);
  for (BuildResult& result : report_.results) {
    const bool was_there = result.status == BuildResult::Status::built ||
                           result.status == BuildResult::Status::present;
    if (!was_there) continue;  // what was rejected has no key
    const cache::Key key = *cache::Key::parse(result.item.key);
    if (store_.peek(key, {.require_builder = options_.require_builder})) continue;
    result.status = BuildResult::Status::evicted;
    lost += result.bytes != 0 ? result.bytes : largest;  // gone before its size was seen
  }
  if (lost != 0) report_.bytes_needed = store_.totals().bytes + lost;
}

std::optional<std::uint64_t> BuildWork::find(const std::string& key) {
  const cache::LookUp found =
      store_.look_up(*cache::Key::parse(key), {.require_builder = options_.require_builder});
  for (const cache::Miss& miss : found.misses) {
    if (!cache::is_damage(miss.reason)) continue;
    // As the workers say it of what they come across.
    note_message(fmt::format("tilec: cache entry {} is not used ({}): {}{}", miss.path.string(),
                             cache::to_string(miss.reason), miss.detail,
                             miss.removed ? "; removed" : ""));
  }
  if (!found) return std::nullopt;
  if (found.entry->origin != cache::Origin::own_root) return 0;
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(found.entry->path, error);
  return error ? 0 : bytes;
}

void BuildWork::note_found(BuildResult& result, BuildResult::Status status, std::uint64_t bytes) {
  result.status = status;
  result.bytes = bytes;
  ++(status == BuildResult::Status::built ? counts_.built : counts_.present);
  const std::uint64_t bound = options_.cache_max_bytes;
  bytes_ += bytes;
  if (status != BuildResult::Status::built || bound == 0 || bytes_ <= bound) return;
  note_message(fmt::format(
      "tilec: what is asked for is larger than the cache may be ({}): from here on the least "
      "recently used entries are removed for new ones; TILEC_CACHE_MAX_BYTES sets "
      "another bound",
      human_bytes(bound)));
}

void BuildWork::fail(BuildResult& result, const std::string& message, const std::string& log) {
  result.status = BuildResult::Status::failed;
  result.message = message;
  result.log = log;
  ++counts_.failed;
  progress_.step(counts_, "failed: " + result.item.label + ": " + message, true);
}

void BuildWork::note(const Outcome& outcome, const PoolOptions& pool) {
  BuildResult& result = report_.results[missing_[outcome.task]];
  result.seconds = outcome.seconds;
  const std::size_t line = std::min(outcome.text.find('\n'), outcome.text.size());
  const std::string last_words = outcome.text.substr(std::min(line + 1, outcome.text.size()));
  switch (outcome.kind) {
    case Outcome::Kind::answered:
      return note_answer(result, Json::parse(outcome.text, nullptr, false));
    case Outcome::Kind::timed_out:
      return fail(result,
                  fmt::format("stopped after the time limit of {:g} s; --time-limit sets another",
                              std::chrono::duration<double>(pool.time_limit).count()));
    case Outcome::Kind::crashed:
      return fail(result, outcome.text.substr(0, line), last_words);
    case Outcome::Kind::killed:
      return fail(result,
                  "the compiling process was killed twice, the second time with nothing beside it: "
                  "most likely the kernel needs more memory than this machine or container gives",
                  last_words);
  }
}

void BuildWork::note_answer(BuildResult& result, const Json& answer) {
  if (!answer.is_object()) return fail(result, "the worker's answer can't be read", answer.dump());
  if (const auto error = answer.find("error"); error != answer.end()) {
    return fail(result, error->value("message", ""), error->value("log", ""));
  }
  if (const std::string key = answer.value("key", ""); key != result.item.key) {
    return fail(result,
                "what the worker made has another key, " + key + "; was tilec replaced meanwhile?");
  }
  const auto bytes = find(result.item.key);
  if (const std::string why = answer.value("not_kept", ""); !bytes && !why.empty()) {
    return fail(result, "compiled, but not kept in the cache: " + why +
                            "; --cache-dir names another folder");
  }
  // Kept and gone again already: removed for others, which is told in the end.
  const bool served = answer.value("origin", "") == "disk";  // another process was first
  note_found(result, served ? BuildResult::Status::present : BuildResult::Status::built,
             bytes.value_or(0));
  progress_.step(counts_, fmt::format("{} in {:.2f} s", result.item.label, result.seconds), false);
}

// Workers say the same things of the same cache: each once.
void BuildWork::note_message(std::string_view line) {
  const std::string text(line);
  if (std::find(messages_.begin(), messages_.end(), text) != messages_.end()) return;
  messages_.push_back(text);
  progress_.message(text);
}

}  // namespace tilec::command

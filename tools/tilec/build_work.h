// The part of `tilec build` that runs: finds what the cache has, hands the rest to workers, and looks
// again in the end. Not thread-safe.
#pragma once

#include <optional>

#include "build_report.h"
#include "cache_support.h"
#include "worker_pool.h"

namespace tilec::command {

class BuildWork {
 public:
  // All must outlive it.
  BuildWork(BuildReport& report, const cache::Store& store, const Options& options, bool quiet);

  // Reads what the cache has, whole: a damaged entry is built again.
  void note_present();
  std::vector<const BuildItem*> missing() const;
  void build_missing(PoolOptions pool);
  // What was there and is there no more: the cache's bound is smaller than what was asked for.
  void note_evicted();

 private:
  // The entry's size, 0 where it is no file of the own root; nothing where there is none.
  std::optional<std::uint64_t> find(const std::string& key);
  void note_found(BuildResult& result, BuildResult::Status status, std::uint64_t bytes);
  void note(const Outcome& outcome, const PoolOptions& pool);
  void note_answer(BuildResult& result, const Json& answer);
  void note_message(std::string_view line);
  void fail(BuildResult& result, const std::string& message, const std::string& log = {});

  BuildReport& report_;
  const cache::Store& store_;
  const Options& options_;
  Progress progress_;
  Counts counts_;
  std::vector<std::size_t> missing_;
  std::vector<std::string> messages_;
  std::uint64_t bytes_ = 0;  // of the entries asked for, as far as they were seen
};

}  // namespace tilec::command

// What became of each kernel of a `tilec build`, and how that is told.
#pragma once

#include <string>
#include <vector>

#include "build_list.h"
#include "progress.h"

namespace tilec::command {

struct BuildResult {
  // missing: not built, or not yet; evicted: built or present, and then removed for others
  enum class Status { built, present, failed, missing, evicted };
  BuildItem item;
  Status status = Status::missing;
  double seconds = 0;
  std::string message = {};  // why it failed, in a line
  std::string log = {};      // the compiler's
  std::uint64_t bytes = 0;   // of its entry, where that was seen in the own root
};

struct BuildReport {
  std::vector<BuildResult> results;
  std::vector<std::string> notes = {};
  std::string cache_dir = {};
  std::uint64_t max_bytes = 0;     // of the cache; 0: no bound
  std::uint64_t bytes_needed = 0;  // a bound that would have kept all; 0: all was kept
  Shard shard = {};
  double seconds = 0;
  int signal = 0;  // that interrupted it, or 0
  bool dry_run = false;
};

Counts count(const BuildReport& report);
Json to_json(const BuildReport& report);
std::string text(const BuildReport& report);

// One line for stderr: why the exit status is not 0. Empty where it is.
std::string complaint(const BuildReport& report);
int exit_status(const BuildReport& report);

}  // namespace tilec::command

// Records what a program plans, so that `tilec build` can make it ahead of time elsewhere.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "tilec/options.h"
#include "tilec/problem.h"

namespace tilec {

// Appends one line of JSON per problem that it has not seen yet: a manifest that `tilec build`
// reads. Each line is one write to a file opened for appending, so that threads, processes and
// crashes leave whole lines. Thread-safe.
class Recorder {
 public:
  // `file` empty: records nothing.
  Recorder(std::filesystem::path file, std::shared_ptr<spdlog::logger> logger);

  // Never throws: a record that can't be written is a warning, once.
  void add(const Problem& problem, const PlanOptions& options);

 private:
  std::filesystem::path file_;
  std::shared_ptr<spdlog::logger> logger_;
  std::mutex mutex_;  // of the rest
  std::unordered_set<std::string> seen_;
  bool warned_ = false;
};

// One problem as a manifest's line, without the newline.
std::string manifest_line(const Problem& problem, const PlanOptions& options);

}  // namespace tilec

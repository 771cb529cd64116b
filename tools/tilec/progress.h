// How far `tilec build` is: a bar on a terminal, plain lines elsewhere, on stderr. Not thread-safe.
#pragma once

#include <chrono>
#include <string>

namespace tilec::command {

struct Counts {
  std::size_t total = 0, built = 0, present = 0, failed = 0, evicted = 0;
  std::size_t done() const { return built + present + failed; }
};

enum class ProgressStyle { silent, lines, bar };

// "[######..............] 12/40  10 built, 2 present, 0 failed, about 35 s left"; fits in `width`.
std::string progress_bar(const Counts& counts, double seconds, std::size_t width);

class Progress {
 public:
  explicit Progress(ProgressStyle style)
      : style_(style), start_(std::chrono::steady_clock::now()) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // One more is done; `what` becomes a line of its own, if lines are shown or it matters.
  void step(const Counts& counts, const std::string& what, bool matters);
  void redraw(const Counts& counts);
  void message(const std::string& line);  // above the bar
  double seconds() const;

 private:
  void clear();

  ProgressStyle style_;
  std::chrono::steady_clock::time_point start_;
  bool drawn_ = false;
};

// The style that fits stderr: a bar on a terminal that can show one.
ProgressStyle progress_style(bool quiet);

}  // namespace tilec::command

// Drawing progress.
#include "progress.h"

#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "format.h"

namespace tilec::command {
namespace {

constexpr std::size_t kBarWidth = 24;

std::size_t terminal_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace

std::string progress_bar(const Counts& counts, double seconds, std::size_t width) {
  const std::size_t total = std::max<std::size_t>(counts.total, 1);
  const std::size_t filled = kBarWidth * counts.done() / total;
  std::string line =
      fmt::format("[{}{}] {}/{}  {} built, {} present, {} failed", std::string(filled, '#'),
                  std::string(kBarWidth - filled, '.'), counts.done(), counts.total, counts.built,
                  counts.present, counts.failed);
  const std::size_t worked = counts.built + counts.failed;
  const std::size_t left = counts.total - counts.done();
  if (worked > 0 && left > 0) {
    line += fmt::format(", about {} left", human_duration(seconds / static_cast<double>(worked) *
                                                          static_cast<double>(left)));
  }
  return line.substr(0, width);
}

ProgressStyle progress_style(bool quiet) {
  if (quiet) return ProgressStyle::silent;
  return isatty(STDERR_FILENO) == 1 ? ProgressStyle::bar : ProgressStyle::lines;
}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

void Progress::message(const std::string& line) {
  clear();
  std::fputs((line + "\n").c_str(), stderr);
}

void Progress::step(const Counts& counts, const std::string& what, bool matters) {
  if (style_ == ProgressStyle::lines || (style_ == ProgressStyle::bar && matters)) {
    message(fmt::format("[{}/{}] {}", counts.done(), counts.total, what));
  }
  redraw(counts);
}

void Progress::redraw(const Counts& counts) {
  if (style_ != ProgressStyle::bar) return;
  const std::string bar = progress_bar(counts, seconds(), terminal_width() - 1);
  std::fputs(("\r" + bar + "\x1b[K").c_str(), stderr);
  drawn_ = true;
}

}  // namespace tilec::command

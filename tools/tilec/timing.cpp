// Timing launches.
#include "timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace tilec::command {
namespace {

constexpr double kSampleSeconds = 0.02;
constexpr double kMostLaunches = 10000;

double seconds(const Device& device, int launches, const std::function<void()>& launch) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) launch();
  device.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Timing measure(const Device& device, int samples, const std::function<void()>& launch) {
  Timing timing{.samples = samples, .method = "each launch by itself"};
  const double first = seconds(device, 1, launch);
  if (!device.is_host()) {
    // The first launch has costs of its own.
    const double one = std::max(1e-7, std::min(first, seconds(device, 1, launch)));
    timing.launches =
        static_cast<int>(std::clamp(std::ceil(kSampleSeconds / one), 1.0, kMostLaunches));
    timing.method =
        "launches back to back between two synchronisations, operands in the same place";
  }
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) {
    times.push_back(seconds(device, timing.launches, launch) / timing.launches);
  }
  std::sort(times.begin(), times.end());
  timing.least_seconds = times.front();
  timing.median_seconds = times[times.size() / 2];
  return timing;
}

}  // namespace tilec::command

// Reading the affinity mask, control groups and /proc/meminfo.
#include "machine_limits.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tilec::command {
namespace {

namespace fs = std::filesystem;

// Twice the most that was seen with NVRTC 13.0 (/usr/bin/time -v): 80 to 105 MB for what is chosen by
// itself, 188 MB for a kernel that compiles for 15 s (gemm_regn f16 TILE=64 TN=64 UNROLL_K=64).
constexpr std::uint64_t kWorkerBytes = std::uint64_t{384} << 20;

constexpr int kMostJobs = 1024;

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// Nothing for "max", "-1" and a file that isn't there.
std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

int affinity() {
  // The kernel's mask may be wider than cpu_set_t.
  for (int most = CPU_SETSIZE; most <= (1 << 20); most *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(
        CPU_ALLOC(static_cast<std::size_t>(most)), [](cpu_set_t* set) { CPU_FREE(set); });
    const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
    if (sched_getaffinity(0, size, mask.get()) == 0) return CPU_COUNT_S(size, mask.get());
    if (errno != EINVAL) break;
  }
  return 1;
}

// Calls visit(folder) for the group `path` below `mount` and for each around it. A container may see
// its own group as the mount itself, under a path that isn't there.
template <class Visit>
void for_each_group(const fs::path& mount, const std::string& path, const Visit& visit) {
  fs::path folder = mount;
  visit(folder);
  for (const fs::path& part : fs::path(path).relative_path()) {
    if (part == "..") return;  // outside what this process may see
    folder /= part;
    visit(folder);
  }
}

void lower_processors(MachineLimits& limits, std::optional<std::uint64_t> quota,
                      std::optional<std::uint64_t> period) {
  if (!quota || !period || *period == 0) return;
  const std::uint64_t whole = (*quota + *period - 1) / *period;
  limits.processors = static_cast<int>(
      std::clamp<std::uint64_t>(whole, 1, static_cast<std::uint64_t>(limits.processors)));
}

void lower_memory(MachineLimits& limits, std::optional<std::uint64_t> bytes) {
  if (bytes) limits.memory_bytes = std::min(limits.memory_bytes, *bytes);
}

void mind_version_2(MachineLimits& limits, const fs::path& mount, const std::string& path) {
  for_each_group(mount, path, [&](const fs::path& group) {
    const std::string line = first_line(group / "cpu.max");  // "150000 100000", "max 100000"
    const std::size_t blank = std::min(line.find(' '), line.size());
    lower_processors(limits, number(line.substr(0, blank)),
                     number(std::string_view(line).substr(std::min(blank + 1, line.size()))));
    lower_memory(limits, number(first_line(group / "memory.max")));
  });
}

void mind_version_1(MachineLimits& limits, const fs::path& mounts, const std::string& controllers,
                    const std::string& path) {
  const std::string list = "," + controllers + ",";
  if (list.find(",cpu,") != std::string::npos) {
    for_each_group(mounts / "cpu", path, [&](const fs::path& group) {
      lower_processors(limits, number(first_line(group / "cpu.cfs_quota_us")),
                       number(first_line(group / "cpu.cfs_period_us")));
    });
  }
  if (list.find(",memory,") != std::string::npos) {
    for_each_group(mounts / "memory", path, [&](const fs::path& group) {
      lower_memory(limits, number(first_line(group / "memory.limit_in_bytes")));
    });
  }
}

void mind_free_memory(MachineLimits& limits, const fs::path& meminfo) {
  std::ifstream stream(meminfo);
  for (std::string line; std::getline(stream, line);) {
    constexpr std::string_view kName = "MemAvailable:";
    if (!line.starts_with(kName)) continue;
    const std::size_t digits = std::min(line.find_first_not_of(' ', kName.size()), line.size());
    const auto kilobytes = number(std::string_view(line).substr(digits));
    if (kilobytes) lower_memory(limits, *kilobytes * 1024);
  }
}

}  // namespace

MachineLimits machine_limits(const fs::path& root) {
  MachineLimits limits{.processors = affinity()};
  const fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/a/b"; "0::/a/b" is version 2
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      mind_version_2(limits, mounts, path);
      mind_version_2(limits, mounts / "unified", path);
    } else {
      mind_version_1(limits, mounts, controllers, path);
    }
  }
  mind_free_memory(limits, root / "proc/meminfo");
  return limits;
}

int default_jobs(const MachineLimits& limits) {
  const std::uint64_t fit = std::max<std::uint64_t>(1, limits.memory_bytes / kWorkerBytes);
  return static_cast<int>(std::min<std::uint64_t>(
      {fit, static_cast<std::uint64_t>(std::max(1, limits.processors)), kMostJobs}));
}

}  // namespace tilec::command

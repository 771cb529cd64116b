// What this process may use of the machine, and how many workers that allows. Reads files, changes
// nothing.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tilec::command {

struct MachineLimits {
  int processors = 1;                       // of the affinity mask, and of a container's quota
  std::uint64_t memory_bytes = UINT64_MAX;  // free here, or a container's limit
};

// Both versions of control groups, as this process and the groups around its own are bounded.
// `root` holds proc/ and sys/: another one than "/" is for tests.
MachineLimits machine_limits(const std::filesystem::path& root = "/");

// A worker a processor, as far as the memory reaches.
int default_jobs(const MachineLimits& limits);

}  // namespace tilec::command

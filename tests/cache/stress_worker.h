// A process of the stress program that uses the cache as an engine does, and the board on which all
// processes count what they see. The board lies in shared memory; everything on it is atomic.
#pragma once

#include <atomic>
#include <cstdint>

#include "support.h"

namespace tilec::cache::test {

struct Settings {
  std::uint64_t look_ups = 3000;
  std::uint64_t kills = 40;
  unsigned processes = 4;
  unsigned threads = 3;
  unsigned keys = 200;
  unsigned seed = 1;
  std::size_t disk_bytes = 4 << 20;
  std::uint64_t max_bytes = 1 << 20;
};

constexpr std::size_t most_keys = 4096;
constexpr std::size_t most_generations = 1 << 22;
// Shared by all processes. A generation is one process; zero is none.
struct Board {
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> next_generation{1};
  std::atomic<std::uint64_t> look_ups{0}, hits{0}, builds{0}, published{0}, unpublished{0};
  std::atomic<std::uint64_t> wrong_bytes{0}, overlapping_builds{0}, forks{0}, no_locks{0};
  std::atomic<std::uint64_t> misses[16]{};
  std::atomic<std::uint32_t> holders[most_keys]{};
  std::atomic<bool> dead[most_generations]{};
};

Bytes expected(unsigned number, const std::string& builder);

// Runs until the board says stop. The parent chooses the generation, to mark it dead when it kills.
int work(Board& board, const Settings& settings, const StoreOptions& options,
         std::uint32_t generation, unsigned seed);

}  // namespace tilec::cache::test

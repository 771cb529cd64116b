#include "plan/launch_limits.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>

namespace tilec {
namespace {

template <class... Values>
[[noreturn]] void refuse(fmt::format_string<Values...> format, Values&&... values) {
  throw Error(ErrorKind::unsupported, fmt::format(format, std::forward<Values>(values)...));
}

// Blocks that an SM's registers alone allow.
int blocks_by_registers(const DeviceFacts& facts, int threads, int registers) {
  constexpr int kAnyNumber = std::numeric_limits<int>::max();
  const DeviceFacts only{.name = {},
                         .target = {},
                         .shared_bytes_sm = kAnyNumber,
                         .registers_sm = facts.registers_sm,
                         .threads_sm = kAnyNumber,
                         .blocks_sm = kAnyNumber};
  return resident_blocks(only, threads, registers, 0);
}

}  // namespace

void expect_launchable(const Choice& choice, const LaunchShape& shape, const DeviceFacts& facts) {
  const std::string kernel = fmt::format("{} {}", choice.kernel->name, describe(choice.parameters));
  const auto& [width, height, depth] = shape.block;
  // Each by itself first: the product of three may be anything.
  if (std::min({width, height, depth}) < 1 || std::max(width, height) > 1024 || depth > 64 ||
      shape.threads() > 1024) {
    refuse("{} would need blocks of {}×{}×{} threads; CUDA's limit is 1024 in all, 64 of them in z",
           kernel, width, height, depth);
  }
  const bool host = choice.target.kind() == Target::Kind::host;
  const std::int64_t most = host ? choice.target.max_shared_bytes() : facts.shared_bytes_block;
  if (shape.shared_bytes < 0 || shape.shared_bytes > most) {
    refuse("{} would need {} bytes of shared memory a block; the device has {}", kernel,
           shape.shared_bytes, most);
  }
  const auto& [x, y, z] = shape.grid;
  if (std::min({x, y, z}) < 0 || x > 0x7fffffff || y > 65535 || z > 65535) {
    refuse(
        "{} would need a grid of {}×{}×{} blocks; CUDA's limit is 2147483647×65535×65535. Larger "
        "tiles need fewer blocks",
        kernel, x, y, z);
  }
}

void expect_fits(const cache::EntryPoint& entry, const LaunchShape& shape, const DeviceFacts& facts,
                 const std::string& name) {
  const auto threads = static_cast<int>(shape.threads());
  if (entry.max_threads > 0 && threads > entry.max_threads) {
    refuse(
        "{} would need blocks of {} threads; its code is made for {} at most (its launch bounds)",
        name, threads, entry.max_threads);
  }
  if (const std::int64_t bytes = shape.shared_bytes + entry.static_shared_bytes;
      bytes > facts.shared_bytes_block) {
    refuse(
        "{} would need {} bytes of shared memory a block, {} dynamic and {} static; the device "
        "has {}",
        name, bytes, shape.shared_bytes, entry.static_shared_bytes, facts.shared_bytes_block);
  }
  if (entry.registers > 0 && blocks_by_registers(facts, threads, entry.registers) == 0) {
    refuse(
        "{} would need {} registers for each of a block's {} threads; the device has {} for all. "
        "Launch bounds make the compiler use fewer",
        name, entry.registers, threads, facts.registers_sm);
  }
}

}  // namespace tilec

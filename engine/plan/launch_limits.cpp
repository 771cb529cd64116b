#include "plan/launch_limits.h"

#include <spdlog/fmt/fmt.h>

#include <limits>

#include "device/launch_shape.h"

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
  const bool host = choice.target.kind() == Target::Kind::host;
  const std::int64_t most = host ? choice.target.max_shared_bytes() : facts.shared_bytes_block;
  if (const std::string fault = launch_fault(shape, most); !fault.empty()) {
    refuse("{} {} {}", choice.kernel->name, describe(choice.parameters), fault);
  }
}

void expect_fits(const cache::EntryPoint& entry, const LaunchShape& shape, const DeviceFacts& facts,
                 const std::string& name) {
  const auto threads = static_cast<int>(shape.threads());
  if (entry.max_threads > 0 && threads > entry.max_threads) {
    refuse(
        "{} would need blocks of {} threads; its code is made for {} at most (its launch bounds, "
        "or "
        "registers)",
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

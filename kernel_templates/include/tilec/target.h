// What code is compiled for (Target, part of every cache key) and what a device is (DeviceFacts,
// never part of one). Both are plain values. Architectures are told apart in target.cpp only.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilec {

// `sm_90a` (a cubin), `compute_90` (PTX) or `host-x86_64-…` (the host device's objects).
class Target {
 public:
  enum class Kind : std::uint8_t { sm, compute, host };

  // Throws std::invalid_argument, saying what a target looks like.
  static Target parse(std::string_view name);
  // The target of objects for this machine's host device.
  static Target host();

  Kind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  // 90 for sm_90, sm_90a and compute_90; a large number for the host device, which supports all.
  int sm() const { return sm_; }
  // 'a' (that architecture only), 'f' (its family) or '\0'.
  char suffix() const { return suffix_; }

  // The PTX for this very GPU: compute_90a of sm_90a; itself where it is PTX, or the host's.
  Target ptx() const;
  // Without the suffix: what to compile for unless a kernel needs features of one architecture
  // only.
  Target plain() const;
  // The highest PTX target that is not newer, among those that `known` lists as numbers (90, …).
  std::optional<Target> newest_ptx(std::span<const int> known) const;
  // Where there is no code for this very target: others whose code may run, the best first. Cubins
  // of the same major and an earlier minor version, then PTX of this or an earlier one.
  std::vector<Target> stand_ins() const;

  // The most dynamic shared memory one block may have, in bytes.
  int max_shared_bytes() const;

  bool operator==(const Target&) const = default;
  auto operator<=>(const Target&) const = default;

 private:
  Kind kind_ = Kind::sm;
  int sm_ = 0;
  char suffix_ = '\0';
  std::string name_;
};

// The facts that `select` and the occupancy arithmetic read. Shipped for common GPUs by name
// (figures from the vendor's public data sheets), read off the driver for a device at hand.
struct DeviceFacts {
  std::string name;            // "h200"
  std::string target;          // the best target for it, "sm_90a"
  int sm_count = 0;            // streaming multiprocessors
  int shared_bytes_block = 0;  // most shared memory of one block, opted in
  int shared_bytes_sm = 0;
  int registers_sm = 65536;
  int threads_sm = 0;
  int blocks_sm = 0;
  std::int64_t l2_bytes = 0;
  double memory_gb_s = 0;  // peak DRAM bandwidth, 1e9 bytes a second
  double clock_mhz = 0;    // boost clock

  bool operator==(const DeviceFacts&) const = default;
};

std::span<const DeviceFacts> shipped_device_facts();
std::optional<DeviceFacts> find_device_facts(std::string_view name);
// Facts to plan with where only a target is known: those of a common device of that target.
DeviceFacts typical_facts(const Target& target);

// Blocks of one kernel that fit on one SM at the same time; 0 where a single one does not.
int resident_blocks(const DeviceFacts& facts, int threads_block, int registers_thread,
                    std::int64_t shared_bytes_block);

}  // namespace tilec

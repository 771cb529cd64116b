// Random operands on the device, in enough copies that no run finds its data in the L2.
#pragma once

#include <cstdint>
#include <vector>

#include "reference.h"
#include "tilec/buffer.h"

namespace tilec::bench {

// One set of operands, rotated over copies[i % copies()].
class Operands {
 public:
  // `elements` of each of three arrays; at least two copies, and more than twice the L2 in all.
  Operands(const Device& device, DType type, std::int64_t elements_a, std::int64_t elements_b,
           std::int64_t elements_out) {
    const auto size = static_cast<std::int64_t>(info(type).size);
    const std::int64_t bytes = size * (elements_a + elements_b + elements_out);
    const std::int64_t wanted = 2 * device.facts().l2_bytes / bytes + 1;
    const std::int64_t copies = std::clamp<std::int64_t>(wanted, 2, 4096);
    const auto a = reference::random_array(type, static_cast<std::size_t>(elements_a), 1);
    const auto b = reference::random_array(type, static_cast<std::size_t>(elements_b), 2);
    for (std::int64_t i = 0; i < copies; ++i) {
      a_.emplace_back(device, std::span<const std::byte>(a));
      b_.emplace_back(device, std::span<const std::byte>(b));
      out_.emplace_back(device, static_cast<std::size_t>(elements_out * size));
    }
  }

  int copies() const { return static_cast<int>(a_.size()); }
  void* a(int i) const { return a_[index(i)].data(); }
  void* b(int i) const { return b_[index(i)].data(); }
  void* out(int i) const { return out_[index(i)].data(); }

 private:
  std::size_t index(int i) const { return static_cast<std::size_t>(i) % a_.size(); }
  std::vector<DeviceBuffer<std::byte>> a_, b_, out_;
};

}  // namespace tilec::bench

#include "tests/support/guarded_array.h"

#include <algorithm>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace tilec::test {
namespace {

constexpr std::size_t kAlignment = 256;  // of device memory

std::size_t rounded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

GuardedArray::GuardedArray(const Device& device, std::span<const std::byte> contents,
                           std::size_t zone, std::size_t shift)
    : device_(device),
      before_(rounded(zone) + shift),
      count_(contents.size()),
      after_(zone),
      memory_(static_cast<std::byte*>(device.allocate(before_ + count_ + after_))) {
  device_.fill(memory_, 0xFF, before_ + count_ + after_);
  if (count_ != 0) device_.copy_to_device(data(), contents.data(), count_);
  guard();
}

GuardedArray::~GuardedArray() {
  open();
  device_.release(memory_);
}

GuardedArray::Reading GuardedArray::read() const {
  open();
  std::vector<std::byte> all(before_ + count_ + after_);
  device_.copy_to_host(all.data(), memory_, all.size());
  guard();
  const auto untouched = [](std::byte byte) { return byte == std::byte{0xFF}; };
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(before_);
  const auto last = first + static_cast<std::ptrdiff_t>(count_);
  return {.contents = {first, last},
          .zones_untouched = std::all_of(all.begin(), first, untouched) &&
                             std::all_of(last, all.end(), untouched)};
}

void GuardedArray::guard() const {
#if defined(__SANITIZE_ADDRESS__)
  if (!device_.is_host()) return;
  __asan_poison_memory_region(memory_, before_);
  __asan_poison_memory_region(memory_ + before_ + count_, after_);
#endif
}

void GuardedArray::open() const {
#if defined(__SANITIZE_ADDRESS__)
  if (device_.is_host()) __asan_unpoison_memory_region(memory_, before_ + count_ + after_);
#endif
}

}  // namespace tilec::test

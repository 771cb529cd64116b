#include "tests/support/guarded_array.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace tilec::test {
namespace {

constexpr std::size_t kAlignment = 256;  // of device memory

std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

GuardedArray::GuardedArray(const Device& device, std::span<const std::byte> contents,
                           const Placement& placement)
    : device_(device),
      placement_(placement),
      before_(rounded(placement.zone_bytes, kAlignment) + placement.shift),
      count_(contents.size()),
      after_(placement.zone_bytes) {
#if defined(__SANITIZE_ADDRESS__)
  placement_.fenced = false;  // poisoning does as much
#endif
  placement_.fenced = placement_.fenced && device.is_host();
  if (placement_.fenced) {
    place_fenced();
  } else {
    memory_ = static_cast<std::byte*>(device.allocate(before_ + count_ + after_));
  }
  device_.fill(memory_, static_cast<unsigned char>(placement_.zone), before_ + count_ + after_);
  if (count_ != 0) device_.copy_to_device(data(), contents.data(), count_);
  guard();
}

// Whole pages, the array at their end, and one more page that can't be touched.
void GuardedArray::place_fenced() {
  const std::size_t usable = rounded(before_ + count_, page_bytes());
  void* const memory = mmap(nullptr, usable + page_bytes(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  mprotect(memory_ + usable, page_bytes(), PROT_NONE);
  before_ = usable - count_;
  after_ = 0;
}

GuardedArray::~GuardedArray() {
  open();
  if (placement_.fenced) {
    munmap(memory_, before_ + count_ + page_bytes());
  } else {
    device_.release(memory_);
  }
}

GuardedArray::Reading GuardedArray::read() const {
  open();
  std::vector<std::byte> all(before_ + count_ + after_);
  device_.copy_to_host(all.data(), memory_, all.size());
  guard();
  const auto untouched = [this](std::byte byte) {
    return byte == static_cast<std::byte>(placement_.zone);
  };
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

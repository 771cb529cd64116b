// Device memory between guard zones, for tests: what lies before and behind an array has a pattern
// that must stay. Under AddressSanitizer the host device's zones can't be read
// either. Not thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tilec/device.h"

namespace tilec::test {

// NaNs around what is read: they spread. Around what is written no NaN, which a sum of NaNs could
// leave as it is.
enum class Zone : unsigned char { nan = 0xFF, number = 0xA5 };

class GuardedArray {
 public:
  struct Placement {
    Zone zone = Zone::nan;
    std::size_t zone_bytes = 4096;  // at least, on either side
    std::size_t shift = 0;          // bytes from a multiple of 256
    // On the host device: the array ends where no memory is, at whatever alignment that gives.
    bool fenced = false;
  };

  // Holds a copy of `contents`. Without contents, data() still is an address.
  GuardedArray(const Device& device, std::span<const std::byte> contents,
               const Placement& placement);
  ~GuardedArray();
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  void* data() const { return memory_ + before_; }

  struct Reading {
    std::vector<std::byte> contents;
    bool zones_untouched = false;
  };
  Reading read() const;

 private:
  void place_fenced();
  void guard() const;
  void open() const;

  Device device_;
  Placement placement_;
  std::size_t before_, count_, after_;
  std::byte* memory_ = nullptr;
};

}  // namespace tilec::test

// Device memory between guard zones, for tests: what lies before and behind an array is all ones
// (NaN for floats) and must stay so. Under AddressSanitizer the host device's zones can't be read
// either. Not thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tilec/device.h"

namespace tilec::test {

class GuardedArray {
 public:
  // A copy of `contents`, `shift` bytes beyond a multiple of 256, with at least `zone` bytes on
  // either side. Without contents, data() still is an address.
  GuardedArray(const Device& device, std::span<const std::byte> contents, std::size_t zone,
               std::size_t shift = 0);
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
  void guard() const;
  void open() const;

  Device device_;
  std::size_t before_, count_, after_;
  std::byte* memory_;
};

}  // namespace tilec::test

// XXH3-128 as 16 canonical (big-endian) bytes, equal on every machine. Pure functions, and a
// stream for what does not fit into memory at once.
#pragma once

#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tilec::cache {

using Digest = std::array<std::uint8_t, 16>;

Digest digest(std::span<const std::byte> bytes);

class DigestStream {
 public:
  DigestStream();
  void add(std::span<const std::byte> bytes);
  Digest finish() const;

 private:
  XXH3_state_t state_;
};

}  // namespace tilec::cache

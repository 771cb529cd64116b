#include "digest.h"

#include <cstring>

namespace tilec::cache {

namespace {

Digest canonical(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  Digest out;
  static_assert(sizeof(bytes.digest) == sizeof(out));
  std::memcpy(out.data(), bytes.digest, out.size());
  return out;
}

}  // namespace

Digest digest(std::span<const std::byte> bytes) {
  return canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

DigestStream::DigestStream() {
  XXH3_128bits_reset(&state_);
}

void DigestStream::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_, bytes.data(), bytes.size());
}

Digest DigestStream::finish() const {
  return canonical(XXH3_128bits_digest(&state_));
}

}  // namespace tilec::cache

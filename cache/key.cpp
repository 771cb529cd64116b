#include <cstring>

#include "bytes.h"
#include "digest.h"
#include "tilec/cache_key.h"

namespace tilec::cache {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

void append(std::string& out, std::string_view value) {
  std::byte length[8];
  store_number(length, static_cast<std::uint64_t>(value.size()));
  out.append(reinterpret_cast<const char*>(length), sizeof length);
  out.append(value);
}

}  // namespace

std::string Key::hex() const {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

std::optional<Key> Key::parse(std::string_view hex) {
  Key key;
  if (hex.size() != 2 * key.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    const int high = hex_digit(hex[2 * i]);
    const int low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    key.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return key;
}

// The first field names the scheme: another scheme, other keys.
KeyHasher::KeyHasher() {
  field("tilec key", "1");
}

KeyHasher& KeyHasher::field(std::string_view name, std::string_view value) {
  append(text_, name);
  append(text_, value);
  return *this;
}

Key KeyHasher::finish() const {
  return Key{digest(as_bytes(text_))};
}

}  // namespace tilec::cache

std::size_t std::hash<tilec::cache::Key>::operator()(const tilec::cache::Key& key) const noexcept {
  std::size_t value = 0;
  std::memcpy(&value, key.bytes.data(), sizeof value);
  return value;
}

// Little-endian numbers in byte buffers, and lists of named fields: u32 length, name, u32 length,
// value. Pure; a reader never looks past its span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilec::cache {

template <class Unsigned>
void store_number(std::byte* at, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    at[i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
  }
}

template <class Unsigned>
Unsigned load_number(const std::byte* at) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value = static_cast<Unsigned>(
        value | static_cast<Unsigned>(std::to_integer<Unsigned>(at[i]) << (8 * i)));
  }
  return value;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class FieldWriter {
 public:
  void add(std::string_view name, std::string_view value) {
    text(name);
    text(value);
  }
  void add(std::string_view name, std::uint64_t value) { add(name, std::to_string(value)); }
  const std::string& str() const { return out_; }

 private:
  void text(std::string_view value) {
    if (value.size() > UINT32_MAX) throw std::length_error("a field of 4 GiB or more");
    std::byte length[4];
    store_number(length, static_cast<std::uint32_t>(value.size()));
    out_.append(reinterpret_cast<const char*>(length), sizeof length);
    out_.append(value);
  }
  std::string out_;
};

class FieldReader {
 public:
  explicit FieldReader(std::string_view text) : rest_(text) {}

  // The next field; nothing at the end, or where the bytes make no field (then bad() is true).
  std::optional<std::pair<std::string_view, std::string_view>> next() {
    if (rest_.empty() || bad_) return std::nullopt;
    const std::string_view name = text();
    const std::string_view value = text();
    if (bad_) return std::nullopt;
    return std::pair(name, value);
  }
  bool bad() const { return bad_; }

 private:
  std::string_view text() {
    if (bad_ || rest_.size() < 4) {
      bad_ = true;
      return {};
    }
    const auto length =
        load_number<std::uint32_t>(reinterpret_cast<const std::byte*>(rest_.data()));
    rest_.remove_prefix(4);
    if (length > rest_.size()) {
      bad_ = true;
      return {};
    }
    const std::string_view value = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return value;
  }
  std::string_view rest_;
  bool bad_ = false;
};

}  // namespace tilec::cache

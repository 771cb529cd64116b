// The key of a cache entry: 16 bytes that stand for everything a compiled kernel depends on.
// Values; a KeyHasher belongs to one thread, a Key may be shared freely.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tilec::cache {

struct Key {
  std::array<std::uint8_t, 16> bytes{};

  // 32 lower-case hexadecimal digits, and back. parse() takes nothing else: no prefix, no blanks.
  std::string hex() const;
  static std::optional<Key> parse(std::string_view hex);

  auto operator<=>(const Key&) const = default;
};

// XXH3-128 over length-prefixed fields, so that no two lists of fields share their bytes:
//     Key key = KeyHasher{}.field("target", "sm_90a").field("source", text).finish();
// The order of the fields counts; a caller keeps it canonical. Nothing but the bytes handed in
// reaches the key: no locale, no path, no time. Equal on every machine.
class KeyHasher {
 public:
  KeyHasher();
  KeyHasher& field(std::string_view name, std::string_view value);
  Key finish() const;

 private:
  std::string text_;
};

}  // namespace tilec::cache

template <>
struct std::hash<tilec::cache::Key> {
  std::size_t operator()(const tilec::cache::Key& key) const noexcept;
};

// Sizes as people write them.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "tilec/options.h"

namespace tilec {
namespace {

// The power of 1024 that a unit stands for, in lower case.
std::optional<int> power_of(const std::string& unit) {
  if (unit.empty() || unit == "b") return 0;
  constexpr std::string_view kUnits = "kmgt";
  const std::size_t place = kUnits.find(unit.front());
  if (place == std::string_view::npos) return std::nullopt;
  const std::string_view rest = std::string_view(unit).substr(1);
  if (!rest.empty() && rest != "b" && rest != "ib") return std::nullopt;
  return static_cast<int>(place) + 1;
}

std::string lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return lower;
}

// A whole number of units, exactly; nothing where it is too large.
std::optional<std::uint64_t> whole(std::string_view digits, int power) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end || value > (~std::uint64_t{0} >> (10 * power))) {
    return std::nullopt;
  }
  return value << (10 * power);
}

// 1.5 units. Nothing where it is too large, or less than a byte: that would read as 0, which means
// something else.
std::optional<std::uint64_t> fraction(std::string_view digits, int power) {
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, std::chars_format::fixed);
  const double bytes = std::ldexp(value, 10 * power);
  if (error != std::errc() || stop != end || power == 0 || bytes >= 0x1p64) return std::nullopt;
  if (value > 0 && bytes < 1) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::optional<std::uint64_t> size_of(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::optional<int> power = power_of(lower(text));
  if (!power) return std::nullopt;
  const bool is_whole = digits.find('.') == std::string_view::npos;
  return is_whole ? whole(digits, *power) : fraction(digits, *power);
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text, std::string_view what) {
  if (const std::optional<std::uint64_t> bytes = size_of(text)) return *bytes;
  throw Error(ErrorKind::invalid_argument,
              fmt::format("{} = '{}' is not a size; it is a number of bytes, or one followed by K, "
                          "M, G or T for powers of 1024, as in 512M or 1.5 GiB, less than 2^64 "
                          "bytes",
                          what, text));
}

}  // namespace tilec

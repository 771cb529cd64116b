// Builder names: which are valid, which is newer. Pure.
#include "tilec/cache_entry.h"

namespace tilec::cache {

namespace {

constexpr std::size_t longest_builder = 64;

// ASCII only, whatever the locale.
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

int sign(int value) {
  return (value > 0) - (value < 0);
}

}  // namespace

bool valid_builder(std::string_view builder) {
  if (builder.empty() || builder.size() > longest_builder) return false;
  if (!is_digit(builder.front()) && !is_letter(builder.front())) return false;
  for (const char c : builder) {
    if (!is_digit(c) && !is_letter(c) && c != '.' && c != '_' && c != '+' && c != '-') return false;
  }
  return true;
}

int compare_builders(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view x = take_digits(a);
      const std::string_view y = take_digits(b);
      if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
      if (const int order = sign(x.compare(y))) return order;
    } else {
      if (a.front() != b.front()) {
        return static_cast<unsigned char>(a.front()) < static_cast<unsigned char>(b.front()) ? -1
                                                                                             : 1;
      }
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty() ? -1 : 1;
  return sign(whole_a.compare(whole_b));  // equal but for leading zeros: still two names
}

}  // namespace tilec::cache

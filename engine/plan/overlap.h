// Whether two operands in memory share an element.
#pragma once

#include <cstdint>

namespace tilec {

// `rows` rows of `row_bytes` each, `pitch` bytes apart (pitch ≥ row_bytes, or a single row).
struct Region {
  std::uintptr_t start = 0;
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  std::int64_t pitch = 0;

  bool empty() const { return rows == 0 || row_bytes == 0; }
  std::uintptr_t end() const {
    return start + static_cast<std::uintptr_t>((rows - 1) * pitch + row_bytes);
  }
  bool operator==(const Region&) const = default;
};

// Exact. Two blocks of one matrix interleave in memory and share nothing. Constant time for equal
// pitches and for regions that lie apart; else linear in the smaller number of rows.
bool overlap_exactly(const Region& one, const Region& other);
inline bool overlap(const Region& one, const Region& other) {
  if (one.empty() || other.empty()) return false;
  if (one.end() <= other.start || other.end() <= one.start) return false;  // the usual case
  return overlap_exactly(one, other);
}

}  // namespace tilec

// Whether two operands in memory share an element.
#include "plan/overlap.h"

#include <algorithm>
#include <utility>

namespace tilec {
namespace {

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && a < 0);
}

// Whether bytes [start, start + bytes), counted from the region's start, touch one of its rows.
bool touches(const Region& region, std::int64_t start, std::int64_t bytes) {
  if (region.rows == 1) return start < region.row_bytes && start + bytes > 0;
  // Row i covers [i·pitch, i·pitch + row_bytes): the first that ends after `start`.
  const std::int64_t first =
      std::max<std::int64_t>(0, floor_divide(start - region.row_bytes, region.pitch) + 1);
  return first < region.rows && first * region.pitch < start + bytes;
}

}  // namespace

bool overlap_exactly(const Region& one, const Region& other) {
  const auto distance = static_cast<std::int64_t>(other.start - one.start);
  if (one.pitch == other.pitch && one.rows > 1 && other.rows > 1) {
    // Rows i of one and j of the other meet where (i - j)·pitch - distance lies strictly between
    // -row_bytes of one and row_bytes of the other.
    const std::int64_t pitch = one.pitch;
    const std::int64_t least = floor_divide(distance - one.row_bytes, pitch) + 1;
    const std::int64_t most = floor_divide(distance + other.row_bytes - 1, pitch);
    return std::max(least, 1 - other.rows) <= std::min(most, one.rows - 1);
  }
  if (one.rows < other.rows) return overlap_exactly(other, one);
  for (std::int64_t row = 0; row < other.rows; ++row) {
    if (touches(one, distance + row * other.pitch, other.row_bytes)) return true;
  }
  return false;
}

}  // namespace tilec

// Random operands for checks and benchmarks.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "parallel.h"
#include "reference.h"

namespace tilec::reference {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014) as a hash of the index: each element depends on nothing
// else.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed * 0xD1B54A32D192ED03u + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Box and Muller's two normals from one pair of uniforms: element 2i and 2i+1 share them.
double normal(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t pair = index & ~std::uint64_t{1};
  const double u = (static_cast<double>(mixed(seed, pair) >> 11) + 0.5) * 0x1p-53;
  const double angle = static_cast<double>(mixed(seed, pair + 1) >> 11) * 0x1p-53;
  const double radius = std::sqrt(-2 * std::log(u));
  const double turn = 2 * std::numbers::pi * angle;
  return radius * (index == pair ? std::cos(turn) : std::sin(turn));
}

double element(bool integer, Values values, std::uint64_t seed, std::uint64_t index) {
  const bool positive = values == Values::positive;
  if (integer) {
    const auto bits = static_cast<std::uint32_t>(mixed(seed, index) >> 32);
    return static_cast<std::int32_t>(positive ? bits >> 1 : bits);
  }
  return positive ? static_cast<double>(mixed(seed, index) >> 11) * 0x1p-53 : normal(seed, index);
}

}  // namespace

std::vector<std::byte> random_array(DType type, std::size_t count, std::uint64_t seed,
                                    Values values) {
  return random_matrix(type, 1, static_cast<std::int64_t>(count), static_cast<std::int64_t>(count),
                       seed, values);
}

std::size_t matrix_elements(std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  if (rows <= 0 || columns <= 0) return 0;
  return static_cast<std::size_t>((rows - 1) * leading + columns);
}

std::vector<std::byte> random_matrix(DType type, std::int64_t rows, std::int64_t columns,
                                     std::int64_t leading, std::uint64_t seed, Values values) {
  const DTypeInfo& row = info(type);
  const std::size_t elements = matrix_elements(rows, columns, leading);
  std::vector<std::byte> bytes(elements * static_cast<std::size_t>(row.size), std::byte{0xFF});
  constexpr std::int64_t kChunk = 1 << 16;
  const std::int64_t chunks = columns <= 0 ? 0 : (columns + kChunk - 1) / kChunk;
  parallel_for(std::max<std::int64_t>(rows, 0) * chunks, 0, [&](std::int64_t task) {
    const std::int64_t r = task / chunks;
    const std::int64_t first = task % chunks * kChunk;
    for (std::int64_t c = first; c < std::min(columns, first + kChunk); ++c) {
      store_from_double(
          type, bytes.data(), static_cast<std::size_t>(r * leading + c),
          element(row.is_integer(), values, seed, static_cast<std::uint64_t>(r * columns + c)));
    }
  });
  return bytes;
}

bool gaps_untouched(DType type, std::int64_t rows, std::int64_t columns, std::int64_t leading,
                    const void* matrix) {
  if (columns <= 0) return true;  // no element, and so no memory
  const auto size = static_cast<std::size_t>(info(type).size);
  const auto* bytes = static_cast<const unsigned char*>(matrix);
  for (std::int64_t r = 0; r + 1 < rows; ++r) {
    const unsigned char* first = bytes + static_cast<std::size_t>(r * leading + columns) * size;
    const unsigned char* last = bytes + static_cast<std::size_t>((r + 1) * leading) * size;
    if (std::any_of(first, last, [](unsigned char byte) { return byte != 0xFF; })) return false;
  }
  return true;
}

}  // namespace tilec::reference

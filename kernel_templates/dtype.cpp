// The table of dtypes and the conversions that follow from a row alone.
#include "tilec/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace tilec {
namespace {

// clang-format off
constexpr std::array<DTypeInfo, 5> kDTypes{{
    // dtype name   size exp man  acc  scalar spelling            DLPack CUDA
    {f32,  "f32",   4,   8,  23,  f32, f32,   "float",            2,     0},
    {f64,  "f64",   8,   11, 52,  f64, f64,   "double",           2,     1},
    {f16,  "f16",   2,   5,  10,  f32, f32,   "tilec::half",      2,     2},
    {bf16, "bf16",  2,   8,  7,   f32, f32,   "tilec::bfloat16",  4,     14},
    {s32,  "s32",   4,   0,  31,  s32, s32,   "int",              0,     10},
}};
// clang-format on

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (static_cast<std::size_t>(kDTypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

std::uint64_t read_bits(const void* array, std::size_t index, int size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(array) + index * static_cast<std::size_t>(size),
              static_cast<std::size_t>(size));
  return bits;
}

void write_bits(void* array, std::size_t index, int size, std::uint64_t bits) {
  std::memcpy(static_cast<char*>(array) + index * static_cast<std::size_t>(size), &bits,
              static_cast<std::size_t>(size));
}

// IEEE 754 interchange formats, widest 64 bits: sign, exponent, fraction.
double decode_float(const DTypeInfo& type, std::uint64_t bits) {
  const int m = type.mantissa_bits;
  const std::uint64_t max_exponent = (1u << type.exponent_bits) - 1;
  const std::uint64_t exponent = (bits >> m) & max_exponent;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << m) - 1);
  const int bias = static_cast<int>(max_exponent >> 1);
  double magnitude = 0;
  if (exponent == max_exponent) {
    magnitude = fraction == 0 ? HUGE_VAL : std::nan("");
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<double>(fraction), 1 - bias - m);
  } else {
    magnitude = std::ldexp(static_cast<double>(fraction | (std::uint64_t{1} << m)),
                           static_cast<int>(exponent) - bias - m);
  }
  return (bits >> (type.exponent_bits + m)) & 1 ? -magnitude : magnitude;
}

std::uint64_t encode_float(const DTypeInfo& type, double value) {
  const int m = type.mantissa_bits;
  const std::uint64_t max_exponent = (1u << type.exponent_bits) - 1;
  const int bias = static_cast<int>(max_exponent >> 1);
  const std::uint64_t sign = std::uint64_t{std::signbit(value)} << (type.exponent_bits + m);
  const std::uint64_t infinity = max_exponent << m;
  if (std::isnan(value)) return sign | infinity | (std::uint64_t{1} << (m - 1));
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(exponent-1), 2^exponent)
  const int quantum = std::max(exponent - 1, 1 - bias) - m;
  // In units of the last place; nearbyint rounds to nearest even. A carry runs into the exponent.
  const double units = std::nearbyint(std::ldexp(std::fabs(value), -quantum));
  const auto whole = static_cast<std::uint64_t>(units);
  const auto biased = static_cast<std::uint64_t>(quantum + m + bias - 1);
  const std::uint64_t bits = (biased << m) + whole;
  return sign | (bits > infinity ? infinity : bits);
}

}  // namespace

const DTypeInfo& info(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)];
}

std::span<const DTypeInfo> dtypes() {
  return kDTypes;
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeInfo& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string dtype_names() {
  std::string names;
  for (const DTypeInfo& row : kDTypes) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

double load_as_double(DType dtype, const void* array, std::size_t index) {
  const DTypeInfo& type = info(dtype);
  const std::uint64_t bits = read_bits(array, index, type.size);
  if (type.is_integer()) return static_cast<std::int32_t>(static_cast<std::uint32_t>(bits));
  return decode_float(type, bits);
}

void store_from_double(DType dtype, void* array, std::size_t index, double value) {
  const DTypeInfo& type = info(dtype);
  if (type.is_integer()) {
    const double wrapped = value - std::floor(value / 0x1p32) * 0x1p32;
    write_bits(array, index, type.size, static_cast<std::uint64_t>(wrapped));
  } else {
    write_bits(array, index, type.size, encode_float(type, value));
  }
}

}  // namespace tilec

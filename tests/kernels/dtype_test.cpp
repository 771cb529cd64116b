// dtypes: the table's rows, exact decoding, rounding to nearest even, wrapping.
#include "tilec/dtype.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tilec::test {
namespace {

std::uint64_t stored_bits(DType type, double value) {
  std::uint64_t bits = 0;
  store_from_double(type, &bits, 0, value);
  return bits;
}

double value_of(DType type, std::uint64_t bits) {
  return load_as_double(type, &bits, 0);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_SUITE("cpu") {
  TEST_CASE("dtype: rows") {
    const std::vector<std::pair<std::string, int>> names = {
        {"f32", 4}, {"f64", 8}, {"f16", 2}, {"bf16", 2}, {"s32", 4}};
    REQUIRE(dtypes().size() == names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const DTypeInfo& row = dtypes()[i];
      CHECK(row.name == names[i].first);
      CHECK(row.size == names[i].second);
      CHECK(&info(row.dtype) == &row);
      CHECK(parse_dtype(row.name) == row.dtype);
      // Sign, exponent and fraction fill the element.
      CHECK(1 + row.exponent_bits + row.mantissa_bits == 8 * row.size);
      CHECK(row.is_integer() == (row.dtype == s32));
    }
    for (const char* bad : {"", "f3", "f322", "F32", "float", " f32", "s8"}) {
      CHECK(parse_dtype(bad) == std::nullopt);
    }
    CHECK(dtype_names() == "f32, f64, f16, bf16, s32");
    CHECK(info(f16).accumulator == f32);
    CHECK(info(bf16).accumulator == f32);
    for (const DType own : {f32, f64, s32}) CHECK(info(own).accumulator == own);
  }

  TEST_CASE("dtype: bit patterns and their values") {
    const struct {
      DType type;
      std::uint64_t bits;
      double value;
    } table[] = {
        {f32, 0x3f800000, 1.0},
        {f32, 0xc0490fdb, -3.1415927410125732},
        {f32, 0x00000001, 0x1p-149},
        {f32, 0x007fffff, 0x1.fffffcp-127},
        {f32, 0x7f7fffff, 0x1.fffffep127},
        {f32, 0x7f800000, kInfinity},
        {f64, 0x3ff0000000000000, 1.0},
        {f64, 0x0000000000000001, 0x1p-1074},
        {f64, 0x7fefffffffffffff, 0x1.fffffffffffffp1023},
        {f16, 0x3c00, 1.0},
        {f16, 0xc000, -2.0},
        {f16, 0x0001, 0x1p-24},
        {f16, 0x03ff, 0x1.ff8p-15},
        {f16, 0x0400, 0x1p-14},
        {f16, 0x7bff, 65504.0},
        {f16, 0x7c00, kInfinity},
        {f16, 0xfc00, -kInfinity},
        {bf16, 0x3f80, 1.0},
        {bf16, 0x4049, 3.140625},
        {bf16, 0x0001, 0x1p-133},
        {bf16, 0x7f7f, 0x1.fep127},
        {bf16, 0xff80, -kInfinity},
        {s32, 0, 0.0},
        {s32, 0x7fffffff, 2147483647.0},
        {s32, 0x80000000, -2147483648.0},
        {s32, 0xffffffff, -1.0},
    };
    for (const auto& [type, bits, value] : table) {
      CAPTURE(info(type).name);
      CAPTURE(value);
      CHECK(value_of(type, bits) == value);
      CHECK(stored_bits(type, value) == bits);
    }
    for (const DType type : {f32, f64, f16, bf16}) {
      CHECK(std::isnan(value_of(type, stored_bits(type, std::nan("")))));
      CHECK(std::signbit(value_of(type, stored_bits(type, -0.0))));
      CHECK(value_of(type, stored_bits(type, -0.0)) == 0);
      CHECK(stored_bits(type, 0.0) == 0);
    }
  }

  TEST_CASE("dtype: rounding to nearest even") {
    const struct {
      DType type;
      double value, rounded;
    } table[] = {
        {f16, 1 + 0x1p-11, 1.0},         // halfway: the even one below
        {f16, 1 + 0x3p-11, 1 + 0x1p-9},  // halfway: the even one above
        {f16, 1 + 0x1.000002p-11, 1 + 0x1p-10},
        {f16, 65519.99, 65504.0},
        {f16, 65520.0, kInfinity},
        {f16, -65520.0, -kInfinity},
        {f16, 1e300, kInfinity},
        {f16, 0x1p-25, 0.0},  // half of the least subnormal: even is zero
        {f16, 0x1.0000000001p-25, 0x1p-24},
        {f16, 0x1.ffcp-15 + 0x1p-25, 0x1p-14},  // from subnormal to normal
        {bf16, 1 + 0x1p-8, 1.0},
        {bf16, 1 + 0x3p-8, 1 + 0x1p-6},
        {bf16, 0x1.ffp127, kInfinity},
        {bf16, 0x1.fefffp127, 0x1.fep127},
        {bf16, 0x1p-134, 0.0},
        {f32, 1 + 0x1p-24, 1.0},
        {f32, 0x1.ffffffp127, kInfinity},
        {s32, 2147483648.0, -2147483648.0},  // wraps
        {s32, -2147483649.0, 2147483647.0},
        {s32, 4294967296.0 * 5 + 7, 7.0},
        {s32, -4294967296.0 * 5 - 7, -7.0},
    };
    for (const auto& [type, value, rounded] : table) {
      CAPTURE(info(type).name);
      CAPTURE(value);
      CHECK(value_of(type, stored_bits(type, value)) == rounded);
    }
  }

  TEST_CASE("dtype: every 16-bit float there and back, and every midpoint") {
    for (const DType type : {f16, bf16}) {
      for (std::uint64_t bits = 0; bits < 0x10000; ++bits) {
        const double value = value_of(type, bits);
        if (std::isnan(value)) {
          CHECK(std::isnan(value_of(type, stored_bits(type, value))));
          continue;
        }
        if (stored_bits(type, value) != bits) FAIL_CHECK(info(type).name, " ", bits);
        // Between this and the next of the same sign: halfway goes to the even one.
        const double next = value_of(type, bits + 1);
        if (!std::isfinite(value) || !std::isfinite(next) || (bits & 0x7fff) == 0x7fff) continue;
        const double middle = (value + next) / 2;
        const std::uint64_t even = bits % 2 == 0 ? bits : bits + 1;
        if (stored_bits(type, middle) != even) FAIL_CHECK(info(type).name, " after ", bits);
        if (stored_bits(type, std::nextafter(middle, value)) != bits) {
          FAIL_CHECK(info(type).name, " just above ", bits);
        }
        if (stored_bits(type, std::nextafter(middle, next)) != bits + 1) {
          FAIL_CHECK(info(type).name, " just below ", bits + 1);
        }
      }
    }
  }

  TEST_CASE("dtype: f32 as the compiler rounds it") {
    std::uint64_t state = 1;
    for (int i = 0; i < 200000; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double value = std::bit_cast<double>(state);
      if (std::isnan(value)) continue;
      const auto expected = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      if (stored_bits(f32, value) != expected) FAIL_CHECK(value);
      const auto narrow = std::bit_cast<float>(static_cast<std::uint32_t>(state >> 17));
      if (std::isnan(narrow)) continue;
      if (stored_bits(f32, static_cast<double>(narrow)) != std::bit_cast<std::uint32_t>(narrow)) {
        FAIL_CHECK(narrow);
      }
    }
  }

  TEST_CASE("dtype: elements of arrays") {
    for (const DTypeInfo& row : dtypes()) {
      std::vector<unsigned char> array(static_cast<std::size_t>(5 * row.size), 0xAA);
      const std::vector<unsigned char> before = array;
      store_from_double(row.dtype, array.data(), 2, -3);
      CHECK(load_as_double(row.dtype, array.data(), 2) == -3);
      const auto size = static_cast<std::size_t>(row.size);
      CHECK(std::memcmp(array.data(), before.data(), 2 * size) == 0);
      CHECK(std::memcmp(array.data() + 3 * size, before.data(), 2 * size) == 0);
    }
  }
}

static_assert(dtype_of<float> == f32 && dtype_of<double> == f64 && dtype_of<std::int32_t> == s32);
static_assert(dtype_of<float16> == f16 && dtype_of<bfloat16> == bf16);
static_assert(sizeof(float16) == 2 && sizeof(bfloat16) == 2);

}  // namespace
}  // namespace tilec::test

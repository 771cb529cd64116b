// Scalar: which values a plan of which type takes. And the public enumerations' names.
#include "tilec/scalar.h"

#include <cmath>
#include <limits>

#include "support.h"
#include "tilec/error.h"
#include "tilec/kernel.h"

namespace tilec::test {
namespace {

TEST_SUITE("cpu") {
  TEST_CASE("scalar: what fits what") {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
    constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
    const struct {
      Scalar scalar;
      bool in_f32, in_f64, in_s32;
    } rows[] = {
        {0, true, true, true},
        {2, true, true, true},
        {0.0f, true, true, true},
        {-0.0f, true, true, true},
        {1.0, true, true, true},
        {0.5f, true, true, false},
        {0.5, true, true, false},
        {0.1, false, true, false},
        {0.1f, true, true, false},
        {1e300, false, true, false},
        {1e-300, false, true, false},
        {(1 << 24) + 1, false, true, true},
        {kMost, false, true, true},
        {kLeast, true, true, true},
        {2147483648.0, true, true, false},
        {-2147483649.0, false, true, false},
        {1e20f, true, true, false},
        {kInfinity, true, true, false},
        {-kInfinity, true, true, false},
        {kNan, true, true, false},
    };
    for (const auto& row : rows) {
      CAPTURE(row.scalar.text());
      CHECK(row.scalar.fits(f32) == row.in_f32);
      CHECK(row.scalar.fits(f64) == row.in_f64);
      CHECK(row.scalar.fits(s32) == row.in_s32);
    }
  }

  TEST_CASE("scalar: it remembers its type") {
    CHECK(Scalar(0.5f).type() == f32);
    CHECK(Scalar(0.5).type() == f64);
    CHECK(Scalar(5).type() == s32);
    CHECK(Scalar(0.5f).text() == "0.5 (f32)");
    CHECK(Scalar(3).text() == "3 (s32)");
    CHECK(Scalar(0.1f).value() == static_cast<double>(0.1f));
    static_assert(Scalar(2).value() == 2.0);
  }

  TEST_CASE("names of the public enumerations") {
    CHECK(to_string(ErrorKind::invalid_argument) == "invalid_argument");
    CHECK(to_string(ErrorKind::unsupported) == "unsupported");
    CHECK(to_string(ErrorKind::compile) == "compile");
    CHECK(to_string(ErrorKind::driver) == "driver");
    CHECK(to_string(ErrorKind::cache_miss) == "cache_miss");
    CHECK(to_string(Origin::memory) == "memory");
    CHECK(to_string(Origin::disk) == "disk");
    CHECK(to_string(Origin::compiler) == "compiler");
  }
}

}  // namespace
}  // namespace tilec::test

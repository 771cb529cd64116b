// overlap: exact, against counting bytes one by one.
#include "plan/overlap.h"

#include <limits>
#include <random>
#include <set>

#include "support.h"

namespace tilec::test {
namespace {

std::set<std::uintptr_t> bytes_of(const Region& region) {
  std::set<std::uintptr_t> bytes;
  for (std::int64_t row = 0; row < region.rows; ++row) {
    for (std::int64_t i = 0; i < region.row_bytes; ++i) {
      bytes.insert(region.start + static_cast<std::uintptr_t>(row * region.pitch + i));
    }
  }
  return bytes;
}

bool share_a_byte(const Region& one, const Region& other) {
  const auto bytes = bytes_of(one);
  for (const std::uintptr_t byte : bytes_of(other)) {
    if (bytes.contains(byte)) return true;
  }
  return false;
}

TEST_SUITE("cpu") {
  TEST_CASE("overlap: as counted byte by byte, on random small regions") {
    std::mt19937 random(7);
    const auto below = [&](unsigned bound) { return static_cast<std::int64_t>(random() % bound); };
    int overlapping = 0, interleaved = 0;
    for (int i = 0; i < 200000; ++i) {
      Region pair[2];
      const std::int64_t pitch = 1 + below(12);
      for (Region& region : pair) {
        region.start = 1000 + static_cast<std::uintptr_t>(below(60));
        region.rows = below(7);
        region.pitch = below(2) == 0 ? pitch : 1 + below(12);
        region.row_bytes = below(static_cast<unsigned>(region.pitch) + 1);
        if (region.rows == 1 && below(2) == 0) region.pitch = below(4);  // any, for a single row
      }
      const bool expected = share_a_byte(pair[0], pair[1]);
      INFO(pair[0].start, " ", pair[0].rows, "×", pair[0].row_bytes, "/", pair[0].pitch, " and ",
           pair[1].start, " ", pair[1].rows, "×", pair[1].row_bytes, "/", pair[1].pitch);
      REQUIRE(overlap(pair[0], pair[1]) == expected);
      REQUIRE(overlap(pair[1], pair[0]) == expected);
      overlapping += expected;
      interleaved += !expected && !pair[0].empty() && !pair[1].empty() &&
                     pair[0].start < pair[1].end() && pair[1].start < pair[0].end();
    }
    CHECK(overlapping > 10000);
    CHECK(interleaved > 1000);
  }

  TEST_CASE("overlap: the blocks of one matrix, as in a blocked LU") {
    // A 12×12 matrix of 4-byte elements in 4×4 blocks.
    const auto block = [](std::int64_t i, std::int64_t j) {
      return Region{4096 + static_cast<std::uintptr_t>((4 * i * 12 + 4 * j) * 4), 4, 16, 48};
    };
    for (std::int64_t one = 0; one < 9; ++one) {
      for (std::int64_t other = 0; other < 9; ++other) {
        CHECK(overlap(block(one / 3, one % 3), block(other / 3, other % 3)) == (one == other));
      }
    }
    Region shifted = block(1, 1);
    shifted.start += 4;
    CHECK(overlap(block(1, 1), shifted));
    CHECK(overlap(shifted, block(1, 2)));
    CHECK_FALSE(overlap(shifted, block(1, 0)));
  }

  TEST_CASE("overlap: huge regions take no time and do not overflow") {
    const std::int64_t rows = std::int64_t{1} << 30;
    const Region even{0, rows, 4, 16};
    const Region odd{8, rows, 4, 16};
    CHECK_FALSE(overlap(even, odd));
    CHECK(overlap(even, Region{0, rows, 12, 16}));
    CHECK_FALSE(
        overlap(Region{0, rows, 1 << 20, 1 << 30}, Region{1 << 20, rows, 1 << 20, 1 << 30}));
    const Region high{~std::uintptr_t{0} - 100, 1, 100, 100};
    CHECK(overlap(high, high));
    // The pitch of a single row means nothing, however far it reaches.
    for (const std::int64_t any : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1},
                                   std::int64_t{0}, std::numeric_limits<std::int64_t>::max()}) {
      const Region row{4096, 1, 100, any};
      CHECK(overlap(row, Region{4000, 30, 4, 8}));
      CHECK(overlap(Region{4000, 30, 4, 8}, row));
      CHECK_FALSE(overlap(row, Region{4196, 1, 100, any}));
      CHECK(overlap(row, Region{4195, 1, 100, any}));
    }
    // A single column: every pitch-th element.
    const Region column{4096, 5, 4, 40};
    CHECK_FALSE(overlap(column, Region{4100, 5, 36, 40}));
    CHECK(overlap(column, Region{4100, 5, 37, 40}));
    CHECK_FALSE(overlap(high, Region{0, 1, 100, 100}));
  }
}

}  // namespace
}  // namespace tilec::test

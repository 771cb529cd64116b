// Problems: normalization and its errors, shapes, words, hashes, shape classes.
#include "tilec/problem.h"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilec::test {
namespace {

constexpr std::int64_t kTwo59 = std::int64_t{1} << 59;
constexpr std::int64_t kTwo62 = std::int64_t{1} << 62;

TEST_SUITE("cpu") {
  TEST_CASE("problem: normalized fills in what was left out") {
    const GemmProblem whole = normalized({.M = 2, .N = 3, .K = 5, .a = f16});
    CHECK(whole == GemmProblem{.M = 2,
                               .N = 3,
                               .K = 5,
                               .a = f16,
                               .b = f16,
                               .d = f16,
                               .lda = 5,
                               .ldb = 3,
                               .ldc = 3,
                               .ldd = 3});
    CHECK(normalized(whole) == whole);
    const GemmProblem given{.M = 2,
                            .N = 3,
                            .K = 5,
                            .a = f16,
                            .b = f32,
                            .d = f64,
                            .lda = 6,
                            .ldb = 7,
                            .ldc = 8,
                            .ldd = 9};
    CHECK(normalized(given) == given);
    CHECK_NOTHROW(normalized({}));
  }

  TEST_CASE("problem: normalized refuses, with both values") {
    const std::vector<std::pair<GemmProblem, std::string>> table = {
        {{.M = -1, .N = 3, .K = 5}, "M = -1; an extent is 0 or more"},
        {{.M = 1, .N = -3, .K = 5}, "N = -3; an extent is 0 or more"},
        {{.M = 1, .N = 3, .K = -5}, "K = -5; an extent is 0 or more"},
        {{.M = 2, .N = 3, .K = 5, .ldd = 1},
         "ldd = 1 is less than N = 3: rows of the matrix would overlap"},
        {{.M = 1, .N = 3, .K = 2, .ldb = 1},
         "ldb = 1 is less than N = 3: rows of the matrix would overlap"},
        {{.M = 2, .N = 3, .K = 5, .lda = 4},
         "lda = 4 is less than K = 5: rows of the matrix would overlap"},
        {{.M = 2, .N = 3, .K = 5, .ldb = 2},
         "ldb = 2 is less than N = 3: rows of the matrix would overlap"},
        {{.M = 2, .N = 3, .K = 5, .ldc = 1},
         "ldc = 1 is less than N = 3: rows of the matrix would overlap"},
        {{.M = 2, .N = 3, .K = 5, .ldd = -3},
         "ldd = -3 is less than N = 3: rows of the matrix would overlap"},
        {{.M = kTwo62, .N = 3, .K = 5},
         "a matrix of 4611686018427387904 rows with lda = 5 has over 2^59 elements"},
        {{.M = 4, .N = 1, .K = 1, .ldc = kTwo62},
         "a matrix of 4 rows with ldc = 4611686018427387904 has over 2^59 elements"},
        {{.M = 2, .N = 1, .K = 1, .a = f64, .lda = kTwo59},
         "a matrix of 2 rows with lda = 576460752303423488 has over 2^59 elements"},
    };
    for (const auto& [problem, message] : table) {
      CHECK_THROWS_WITH_AS(normalized(problem), message.c_str(), std::invalid_argument);
    }
  }

  TEST_CASE("problem: the leading dimension of at most one row is not looked at") {
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t any : {kLeast, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1},
                                   std::int64_t{3}, std::int64_t{1} << 40, kMost}) {
      CAPTURE(any);
      // One row of A, C and D; one of B; none of each; rows of nothing.
      for (const std::int64_t M : {0, 1}) {
        CHECK(normalized({.M = M, .N = 3, .K = 5, .lda = any, .ldc = any, .ldd = any}) ==
              normalized({.M = M, .N = 3, .K = 5}));
      }
      CHECK(normalized({.M = 2, .N = 3, .K = 1, .ldb = any}) ==
            normalized({.M = 2, .N = 3, .K = 1}));
      CHECK(normalized({.M = 2, .N = 3, .K = 0, .lda = any, .ldb = any}) ==
            normalized({.M = 2, .N = 3, .K = 0}));
      CHECK(normalized({.M = 2, .N = 0, .K = 5, .ldb = any, .ldc = any, .ldd = any}) ==
            normalized({.M = 2, .N = 0, .K = 5}));
    }
    // Columns of one element are rows like others.
    CHECK(normalized({.M = 2, .N = 1, .K = 1, .lda = 7}).lda == 7);
    CHECK_THROWS_AS(normalized({.M = 2, .N = 1, .K = 1, .lda = -7}), std::invalid_argument);
  }

  TEST_CASE("problem: of ldc and ldd, one that is left out follows the other") {
    const auto of = [](std::int64_t ldc, std::int64_t ldd) {
      const GemmProblem p = normalized({.M = 2, .N = 3, .K = 5, .ldc = ldc, .ldd = ldd});
      CHECK(normalized(p) == p);
      return std::pair(p.ldc, p.ldd);
    };
    CHECK(of(0, 0) == std::pair<std::int64_t, std::int64_t>(3, 3));
    CHECK(of(8, 0) == std::pair<std::int64_t, std::int64_t>(8, 8));
    CHECK(of(0, 9) == std::pair<std::int64_t, std::int64_t>(9, 9));
    CHECK(of(8, 3) == std::pair<std::int64_t, std::int64_t>(8, 3));
    CHECK(of(3, 9) == std::pair<std::int64_t, std::int64_t>(3, 9));
  }

  TEST_CASE("problem: what is stated of leading dimensions makes the same problem again") {
    const auto words = [](const GemmProblem& problem) {
      GemmProblem again = problem;
      again.lda = again.ldb = again.ldc = again.ldd = 0;
      std::string text;
      for (const auto& [name, value] : stated_leading_dimensions(problem)) {
        (name == "lda"   ? again.lda
         : name == "ldb" ? again.ldb
         : name == "ldc" ? again.ldc
                         : again.ldd) = value;
        text += std::string(name) + "=" + std::to_string(value) + " ";
      }
      CHECK(normalized(again) == normalized(problem));
      return text;
    };
    const GemmProblem packed{.M = 2, .N = 3, .K = 5};
    CHECK(words(packed) == "");
    CHECK(words(normalized(packed)) == "");
    CHECK(words({.M = 2, .N = 3, .K = 5, .ldc = 8}) == "ldc=8 ");
    CHECK(words(normalized({.M = 2, .N = 3, .K = 5, .ldc = 8})) == "ldc=8 ldd=8 ");
    CHECK(words(normalized({.M = 2, .N = 3, .K = 5, .ldc = 8, .ldd = 3})) == "ldc=8 ldd=3 ");
    CHECK(words(normalized({.M = 2, .N = 3, .K = 5, .ldc = 3, .ldd = 9})) == "ldc=3 ldd=9 ");
    CHECK(words({.M = 2, .N = 3, .K = 5, .lda = 6, .ldb = 7}) == "lda=6 ldb=7 ");
    CHECK(words(normalized({.M = 1, .N = 3, .K = 5, .lda = 6, .ldc = 7})) == "");
  }

  TEST_CASE("problem: shapes") {
    CHECK(Shape{7}.elements() == 7);
    CHECK(Shape{2, 3, 5, 7}.elements() == 210);
    CHECK(Shape{2, 0, 5}.elements() == 0);
    CHECK(Shape{}.elements() == 0);
    CHECK(Shape{}.rank() == 0);
    CHECK(Shape{4, 9}[1] == 9);
    CHECK(Shape{4, 9} != Shape{9, 4});
    CHECK(Shape{4} != Shape{4, 1});
    CHECK(Shape{kTwo59}.elements() == kTwo59);
    CHECK_THROWS_WITH_AS(Shape({1, 1, 1, 1, 1}), "a shape of rank 5; ranks are 1 to 4",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(Shape({3, -1}), "an extent of the shape = -1; an extent is 0 or more",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(Shape({kTwo59, 2}), "a shape of over 2^59 elements",
                         std::invalid_argument);
    CHECK_THROWS_AS(Shape({kTwo62, 0, kTwo62}), std::invalid_argument);
  }

  TEST_CASE("problem: words") {
    CHECK(describe(Problem(GemmProblem{.M = 128, .N = 64, .K = 32, .a = f16})) ==
          "gemm 128x64x32 f16");
    CHECK(describe(Problem(normalized({.M = 2, .N = 3, .K = 5, .lda = 6, .ldc = 8}))) ==
          "gemm 2x3x5 f32 lda=6 ldc=8 ldd=8");
    CHECK(describe(Problem(AddProblem{.shape = {4, 5}, .dtype = s32})) == "add 4x5 s32");
    CHECK(to_string(Operation::gemm) == "gemm");
    CHECK(to_string(Operation::add) == "add");
    CHECK(operation(GemmProblem{}) == Operation::gemm);
    CHECK(operation(AddProblem{}) == Operation::add);
    CHECK(element_type(GemmProblem{.a = bf16}) == bf16);
    CHECK(element_type(AddProblem{.shape = {1}, .dtype = f64}) == f64);
  }

  TEST_CASE("problem: every field reaches the hash") {
    std::vector<Problem> problems{GemmProblem{}, AddProblem{}};
    for (std::int64_t GemmProblem::*field :
         {&GemmProblem::M, &GemmProblem::N, &GemmProblem::K, &GemmProblem::lda, &GemmProblem::ldb,
          &GemmProblem::ldc, &GemmProblem::ldd}) {
      GemmProblem problem;
      problem.*field = 8;
      problems.push_back(problem);
    }
    problems.push_back(GemmProblem{.a = f16});
    problems.push_back(GemmProblem{.b = f16});
    problems.push_back(GemmProblem{.d = f16});
    problems.push_back(AddProblem{.shape = {8}});
    problems.push_back(AddProblem{.shape = {8, 2}});
    problems.push_back(AddProblem{.shape = {2, 8}});
    problems.push_back(AddProblem{.shape = {8}, .dtype = f16});
    std::set<std::size_t> hashes;
    for (const Problem& problem : problems) {
      hashes.insert(hash_value(problem));
      CHECK(hash_value(problem) == hash_value(Problem(problem)));
    }
    CHECK(hashes.size() == problems.size());
    // What is left out counts as what it means.
    CHECK(hash_value(GemmProblem{.a = f16}) == hash_value(GemmProblem{.a = f16, .b = f16}));
  }

  TEST_CASE("problem: shape classes") {
    const struct {
      std::int64_t M, N;
      ShapeClass expected;
    } gemms[] = {
        {0, 1000000, ShapeClass::tiny},
        {1000000, 0, ShapeClass::tiny},
        {128, 128, ShapeClass::tiny},
        {16384, 1, ShapeClass::tiny},
        {128, 129, ShapeClass::large},
        {16385, 1, ShapeClass::narrow},
        {1, 16385, ShapeClass::narrow},
        {16, 4096, ShapeClass::narrow},
        {4096, 16, ShapeClass::narrow},
        {kTwo62, 1, ShapeClass::narrow},
        {4096, 17, ShapeClass::tall},
        {4096, 512, ShapeClass::tall},
        {4095, 512, ShapeClass::large},
        {17, 4096, ShapeClass::wide},
        {512, 4096, ShapeClass::wide},
        {512, 4095, ShapeClass::large},
        {4096, 4096, ShapeClass::large},
        {std::int64_t{1} << 40, std::int64_t{1} << 40, ShapeClass::large},
        {kTwo62, 64, ShapeClass::tall},
        {64, kTwo62, ShapeClass::wide},
    };
    for (const auto& [M, N, expected] : gemms) {
      CAPTURE(M);
      CAPTURE(N);
      CHECK(to_string(shape_class(GemmProblem{.M = M, .N = N, .K = 1})) == to_string(expected));
    }
    CHECK(shape_class(AddProblem{.shape = {262144}}) == ShapeClass::tiny);
    CHECK(shape_class(AddProblem{.shape = {262145}}) == ShapeClass::large);
    CHECK(shape_class(AddProblem{.shape = {512, 513}}) == ShapeClass::large);
    CHECK(to_string(ShapeClass::tiny) == "tiny");
    CHECK(to_string(ShapeClass::wide) == "wide");
    CHECK(to_string(ShapeClass::narrow) == "narrow");
  }
}

}  // namespace
}  // namespace tilec::test

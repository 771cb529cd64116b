// The references and bounds that results are checked with: against results computed by other means,
// and against results that are wrong.
#include "reference.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "parallel.h"
#include "reference_gemm.h"

namespace tilec::reference {
namespace {

using Bytes = std::vector<std::byte>;

Bytes array(DType type, const std::vector<double>& values) {
  Bytes bytes(values.size() * static_cast<std::size_t>(info(type).size));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(type, bytes.data(), i, values[i]);
  return bytes;
}

double at(DType type, const Bytes& bytes, std::size_t index) {
  return load_as_double(type, bytes.data(), index);
}

// alpha·A·B + beta·C by the definition, in long double, rounded once.
Bytes definition(const GemmProblem& given, const GemmOperands& o) {
  const GemmProblem p = normalized(given);
  Bytes d(matrix_elements(p.M, p.N, p.ldd) * static_cast<std::size_t>(info(*p.d).size),
          std::byte{0xFF});
  for (std::int64_t i = 0; i < p.M; ++i) {
    for (std::int64_t j = 0; j < p.N; ++j) {
      long double sum = 0;
      for (std::int64_t k = 0; k < p.K; ++k) {
        sum += static_cast<long double>(
                   load_as_double(p.a, o.a, static_cast<std::size_t>(i * p.lda + k))) *
               load_as_double(*p.b, o.b, static_cast<std::size_t>(k * p.ldb + j));
      }
      long double value = o.alpha * sum;
      if (o.beta != 0) {
        value += static_cast<long double>(o.beta) *
                 load_as_double(*p.d, o.c, static_cast<std::size_t>(i * p.ldc + j));
      }
      store_from_double(*p.d, d.data(), static_cast<std::size_t>(i * p.ldd + j),
                        static_cast<double>(value));
    }
  }
  return d;
}

struct Case {
  DType type;
  std::int64_t M, N, K, gap;
  double alpha, beta;
};

const std::vector<Case> kCases{{f32, 1, 1, 1, 0, 1, 0},         {f32, 70, 300, 131, 3, 0.5, 2},
                               {f64, 65, 257, 64, 1, -1, 0.25}, {f16, 33, 20, 200, 5, 2, 1},
                               {bf16, 20, 33, 65, 0, 1, 0},     {f32, 5, 7, 0, 2, 1, 2}};

struct Data {
  GemmProblem problem;
  Bytes a = {}, b = {}, c = {};
  GemmOperands operands = {};
};

Data data(const Case& one) {
  Data d{.problem = {.M = one.M,
                     .N = one.N,
                     .K = one.K,
                     .a = one.type,
                     .lda = one.K + one.gap,
                     .ldb = one.N + one.gap,
                     .ldc = one.N + 2 * one.gap,
                     .ldd = one.N + one.gap}};
  if (one.gap == 0) d.problem.lda = d.problem.ldb = d.problem.ldc = d.problem.ldd = 0;
  d.problem = normalized(d.problem);
  const GemmProblem& p = d.problem;
  d.a = random_matrix(one.type, p.M, p.K, p.lda, 1);
  d.b = random_matrix(one.type, p.K, p.N, p.ldb, 2);
  d.c = random_matrix(one.type, p.M, p.N, p.ldc, 3);
  d.operands = {
      .a = d.a.data(), .b = d.b.data(), .c = d.c.data(), .alpha = one.alpha, .beta = one.beta};
  return d;
}

}  // namespace

TEST_CASE("a GEMM by the definition is right, and its gaps are untouched") {
  for (const Case& one : kCases) {
    CAPTURE(info(one.type).name);
    const Data d = data(one);
    const Bytes result = definition(d.problem, d.operands);
    const Verdict verdict =
        check_gemm(d.problem, info(one.type).accumulator, d.operands, result.data());
    CHECK_MESSAGE(verdict.ok, verdict.text());
    CHECK(verdict.checked == one.M * one.N);
    CHECK(verdict.elements == one.M * one.N);
    CHECK(verdict.worst_ratio <= 1);
    CHECK(gaps_untouched(one.type, d.problem.M, d.problem.N, d.problem.ldd, result.data()));
  }
}

TEST_CASE("one element off by twice its bound is found, wherever it is") {
  const Case one{f32, 70, 300, 131, 3, 1, 1};
  const Data d = data(one);
  for (const auto& place_of_error : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 0}, {63, 255}, {64, 256}, {69, 299}, {35, 150}}) {
    const std::int64_t row = place_of_error.first, column = place_of_error.second;
    Bytes result = definition(d.problem, d.operands);
    const auto place = static_cast<std::size_t>(row * d.problem.ldd + column);
    double magnitude = 0;
    for_each_tile(d.problem, d.operands, {.threads = 1}, [&](const Tile& tile) {
      for (std::size_t i = 0; i < tile.elements.size(); ++i) {
        if (tile.rows[i / tile.columns.size()] == row &&
            tile.columns[i % tile.columns.size()] == column) {
          magnitude = tile.elements[i].magnitude;
        }
      }
    });
    const double bound = (4 * std::sqrt(131.0) + 2) * 0x1p-24 * magnitude;
    store_from_double(f32, result.data(), place, at(f32, result, place) + 2 * bound);
    const Verdict verdict = check_gemm(d.problem, f32, d.operands, result.data());
    CHECK_FALSE(verdict.ok);
    CHECK(verdict.wrong == 1);
    CHECK(verdict.worst_row == row);
    CHECK(verdict.worst_column == column);
    CHECK(verdict.worst_ratio > 1);
  }
}

TEST_CASE(
    "a result that loses precision everywhere fails the Frobenius gate, though no element does") {
  const Case one{f32, 64, 64, 4096, 0, 1, 0};
  const Data d = data(one);
  Bytes result = definition(d.problem, d.operands);
  for (std::size_t i = 0; i < 64 * 64; ++i) {
    store_from_double(f32, result.data(), i,
                      at(f32, result, i) * (1 + (i % 2 == 0 ? 8e-6 : -8e-6)));
  }
  const Verdict verdict = check_gemm(d.problem, f32, d.operands, result.data());
  CHECK(verdict.wrong == 0);
  CHECK_FALSE(verdict.ok);
  CHECK(verdict.frobenius == doctest::Approx(8e-6).epsilon(0.01));
}

TEST_CASE("integers wrap modulo 2^32, and every bit counts") {
  const GemmProblem problem{.M = 2, .N = 1, .K = 2, .a = s32};
  const Bytes a = array(s32, {2147483647, 2, -2147483648.0, 3});
  const Bytes b = array(s32, {2147483647, 5});
  const Bytes c = array(s32, {7, -9});
  const auto wrap = [](std::int64_t value) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::uint64_t>(value)));
  };
  const std::int64_t m = 2147483647;
  const std::int32_t first = wrap(3 * std::int64_t{wrap(m * m + 10)} - 2 * 7);
  const std::int32_t second = wrap(3 * std::int64_t{wrap(-2147483648 * m + 15)} + 2 * 9);
  const GemmOperands operands{.a = a.data(), .b = b.data(), .c = c.data(), .alpha = 3, .beta = -2};
  CHECK(check_gemm(problem, s32, operands, array(s32, {double(first), double(second)}).data()).ok);
  const Verdict off =
      check_gemm(problem, s32, operands, array(s32, {double(first), double(second) + 1}).data());
  CHECK_FALSE(off.ok);
  CHECK(off.worst_row == 1);
}

TEST_CASE("what is not read may be NaN, and what is read may not") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const GemmProblem problem{.M = 1, .N = 1, .K = 1};
  const Bytes nan = array(f32, {kNaN}), two = array(f32, {2}), six = array(f32, {6});
  const Bytes three = array(f32, {3});
  const auto check = [&](const GemmOperands& operands, const Bytes& d) {
    return check_gemm(problem, f32, operands, d.data()).ok;
  };
  const GemmOperands no_c{.a = two.data(), .b = three.data(), .c = nan.data()};
  CHECK(check(no_c, six));
  CHECK_FALSE(check(no_c, nan));
  const GemmOperands no_product{
      .a = nan.data(), .b = two.data(), .c = three.data(), .alpha = 0, .beta = 2};
  CHECK(check(no_product, six));
  CHECK_FALSE(check(no_product, nan));
  const GemmOperands spreads{.a = nan.data(), .b = two.data()};
  CHECK(check(spreads, nan));
  CHECK_FALSE(check(spreads, six));
}

TEST_CASE("with no products the result is beta·C, and to the bit for a beta of 0 or 1") {
  const std::uint32_t odd[] = {0x80000000, 0x7f800005, 0xffc00003, 1};  // −0, two NaNs, a subnormal
  Bytes c(sizeof odd);
  std::memcpy(c.data(), odd, sizeof odd);
  const Bytes zeros(c.size()), nan = array(f32, {NAN, NAN, NAN, NAN});
  for (const std::int64_t K : {0, 1}) {
    const GemmProblem problem{.M = 2, .N = 2, .K = K};
    for (const double alpha : {K == 0 ? HUGE_VAL : 0.0, K == 0 ? NAN : -0.0}) {
      const auto check = [&](double beta, const Bytes& of_c, const Bytes& d) {
        return check_gemm(
            problem, f32,
            {.a = nan.data(), .b = nan.data(), .c = of_c.data(), .alpha = alpha, .beta = beta},
            d.data());
      };
      CHECK(check(1, c, c).ok);
      CHECK(check(1, c, c).exact);
      for (std::size_t i = 0; i < 4; ++i) {
        Bytes other = c;
        other[4 * i + (i == 0 ? 3 : 0)] ^= i == 0 ? std::byte{0x80} : std::byte{2};
        CHECK(check(1, c, other).wrong == 1);
      }
      CHECK(check(0, nan, zeros).ok);
      CHECK_FALSE(check(0, nan, array(f32, {0, -0.0, 0, 0})).ok);
      CHECK_FALSE(check(0, nan, nan).ok);
      CHECK(check(2, array(f32, {1, 2, 3, 4}), array(f32, {2, 4, 6, 8})).ok);
      CHECK_FALSE(check(2, array(f32, {1, 2, 3, 4}), array(f32, {2, 4, 6, 8.00001})).ok);
      CHECK(check(NAN, array(f32, {1, 2, 3, 4}), nan).ok);
    }
  }
}

TEST_CASE("a long sum of positive numbers has a bound of its own, and shows what it lost") {
  constexpr std::int64_t K = 1 << 14;
  const Bytes ones = array(f16, std::vector<double>(K, 1));
  const GemmProblem problem{.M = 1, .N = 1, .K = K, .a = f16};
  const GemmOperands operands{.a = ones.data(), .b = ones.data()};
  const Bytes stuck = array(f16, {2048});  // where a sum in f16 stops growing
  const Verdict with_mean =
      check_gemm(problem, f16, operands, stuck.data(), {.data_with_mean = true});
  CHECK(with_mean.ok);
  CHECK(with_mean.frobenius == 0.875);
  // Summed in f32 it has to be nearly right.
  CHECK_FALSE(check_gemm(problem, f32, operands, stuck.data(), {.data_with_mean = true}).ok);
  CHECK(check_gemm(problem, f32, operands, array(f16, {K}).data(), {.data_with_mean = true}).ok);
}

TEST_CASE("overflow of the output type is infinity, of the right sign") {
  const GemmProblem problem{.M = 1, .N = 1, .K = 1, .a = f16};
  const Bytes large = array(f16, {60000}), two = array(f16, {2});
  const GemmOperands operands{.a = large.data(), .b = two.data()};
  CHECK(check_gemm(problem, f32, operands, array(f16, {HUGE_VAL}).data()).ok);
  CHECK_FALSE(check_gemm(problem, f32, operands, array(f16, {-HUGE_VAL}).data()).ok);
  CHECK_FALSE(check_gemm(problem, f32, operands, array(f16, {65504}).data()).ok);
  for (const DType type : {f16, f32}) {
    const Bytes numbers = array(type, {2}), minus = array(type, {-HUGE_VAL});
    const GemmProblem one{.M = 1, .N = 1, .K = 1, .a = type};
    const GemmOperands scaled{.a = numbers.data(), .b = numbers.data(), .alpha = -HUGE_VAL};
    CHECK(check_gemm(one, f32, scaled, minus.data()).ok);
    CHECK_FALSE(check_gemm(one, f32, scaled, array(type, {HUGE_VAL}).data()).ok);
    CHECK_FALSE(check_gemm(one, f32, scaled, array(type, {-65504}).data()).ok);
    CHECK_FALSE(check_gemm(one, f32, scaled, array(type, {NAN}).data()).ok);
  }
}

TEST_CASE("the table of tolerances") {
  struct Row {
    DType input, accumulator, output;
    double u_acc, u_out, frobenius;
  };
  for (const Row& row :
       {Row{f64, f64, f64, 0x1p-53, 0, 1e-14}, Row{f32, f32, f32, 0x1p-24, 0, 2e-6},
        Row{bf16, f32, bf16, 0x1p-23, 0x1p-8, 3e-3}, Row{f16, f32, f16, 0x1p-23, 0x1p-11, 4e-4}}) {
    CAPTURE(info(row.output).name);
    const Tolerance t = tolerance(row.input, row.accumulator, row.output);
    CHECK(t.u_acc == row.u_acc);
    CHECK(t.u_out == row.u_out);
    CHECK(t.frobenius == row.frobenius);
    CHECK_FALSE(t.exact);
  }
  CHECK(tolerance(f16, f32, f16).tiny == 0x1p-25);
  CHECK(tolerance(s32, s32, s32).exact);
  CHECK(tolerance(f16, f16, f16).u_acc == 0x1p-11);
}

TEST_CASE("beyond its bound the check takes a sample, with the edges in it") {
  const GemmProblem problem{.M = 90, .N = 110, .K = 16};
  const Bytes a = random_array(f32, 90 * 16, 1), b = random_array(f32, 16 * 110, 2);
  const GemmOperands operands{.a = a.data(), .b = b.data()};
  const CheckOptions options{.max_products = 16000};
  Bytes d = definition(problem, operands);
  const Verdict sampled = check_gemm(problem, f32, operands, d.data(), options);
  CHECK(sampled.ok);
  CHECK(sampled.checked < sampled.elements);
  CHECK(sampled.checked > 0);
  CHECK(sampled.text().find("a sample of") != std::string::npos);
  store_from_double(f32, d.data(), 90 * 110 - 1, 1e6);
  CHECK_FALSE(check_gemm(problem, f32, operands, d.data(), options).ok);
}

TEST_CASE("Add is checked to the bit, in every dtype") {
  for (const DTypeInfo& type : dtypes()) {
    CAPTURE(type.name);
    const AddProblem problem{.shape = {1000}, .dtype = type.dtype};
    const Bytes a = random_array(type.dtype, 1000, 5), b = random_array(type.dtype, 1000, 6);
    Bytes out(a.size());
    for (std::size_t i = 0; i < 1000; ++i) {
      store_from_double(type.dtype, out.data(), i, at(type.dtype, a, i) + at(type.dtype, b, i));
    }
    CHECK(check_add(problem, a.data(), b.data(), out.data()).ok);
    out[517] ^= std::byte{1};
    const Verdict verdict = check_add(problem, a.data(), b.data(), out.data());
    CHECK_FALSE(verdict.ok);
    CHECK(verdict.wrong == 1);
    CHECK(verdict.worst_column == 517 / type.size);
  }
}

TEST_CASE("in Add the sign of zero counts, and any NaN is as good as another") {
  const AddProblem problem{.shape = {1}};
  const Bytes zero = array(f32, {0.0}), minus = array(f32, {-0.0});
  CHECK(check_add(problem, minus.data(), minus.data(), minus.data()).ok);
  CHECK_FALSE(check_add(problem, minus.data(), minus.data(), zero.data()).ok);
  const std::uint32_t quiet = 0x7fc00000, other = 0xffc12345;
  CHECK(check_add(problem, &quiet, zero.data(), &other).ok);
}

TEST_CASE("random arrays: the same for the same seed, normal or uniform, gaps of ones") {
  CHECK(random_array(f32, 1000, 1) == random_array(f32, 1000, 1));
  CHECK(random_array(f32, 1000, 1) != random_array(f32, 1000, 2));
  double sum = 0, squares = 0;
  const Bytes values = random_array(f64, 100000, 3);
  for (std::size_t i = 0; i < 100000; ++i) {
    sum += at(f64, values, i);
    squares += at(f64, values, i) * at(f64, values, i);
  }
  CHECK(std::fabs(sum / 1e5) < 0.02);
  CHECK(squares / 1e5 == doctest::Approx(1).epsilon(0.03));
  const Bytes integers = random_array(s32, 1000, 4);
  double least = 0, most = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    least = std::min(least, at(s32, integers, i));
    most = std::max(most, at(s32, integers, i));
  }
  CHECK(least < -2e9);
  CHECK(most > 2e9);
  const auto within = [](DType type, double low, double high) {
    const Bytes positive = random_array(type, 1000, 4, Values::positive);
    for (std::size_t i = 0; i < 1000; ++i) {
      if (at(type, positive, i) < low || at(type, positive, i) > high) return false;
    }
    return true;
  };
  for (const DType type : {f32, f64, f16, bf16}) CHECK(within(type, 0, 1));
  CHECK(within(s32, 0, 2147483647));
  CHECK_FALSE(within(f32, 0.01, 1));
  CHECK_FALSE(within(f32, 0, 0.99));
  CHECK_FALSE(within(s32, 0, 2e9));
  // Without columns there is no memory to look at.
  CHECK(gaps_untouched(f32, 3, 0, 8, nullptr));
  Bytes matrix = random_matrix(f32, 3, 5, 8, 7);
  CHECK(matrix.size() == (2 * 8 + 5) * sizeof(float));
  CHECK(gaps_untouched(f32, 3, 5, 8, matrix.data()));
  matrix[(8 + 5) * sizeof(float)] = std::byte{0};
  CHECK_FALSE(gaps_untouched(f32, 3, 5, 8, matrix.data()));
  CHECK(random_matrix(f32, 0, 5, 8, 7).empty());
}

TEST_CASE("parallel_for calls each task once and passes on what it throws") {
  std::vector<std::atomic<int>> calls(1000);
  parallel_for(1000, 4, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
  for (const auto& count : calls) CHECK(count == 1);
  CHECK_THROWS_AS(parallel_for(100, 3,
                               [](std::int64_t i) {
                                 if (i == 50) throw std::runtime_error("fifty");
                               }),
                  std::runtime_error);
}

}  // namespace tilec::reference

// The error model, and the comparison of results with it.
#include "reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>

#include "parallel.h"
#include "reference_gemm.h"

namespace tilec::reference {
namespace {

double unit_roundoff(DType type) {
  return std::ldexp(1.0, -(info(type).mantissa_bits + 1));
}

double half_least_subnormal(DType type) {
  const DTypeInfo& row = info(type);
  const int bias = (1 << (row.exponent_bits - 1)) - 1;
  return std::ldexp(1.0, 1 - bias - row.mantissa_bits - 1);
}

// Largest ‖error‖/‖D‖ at K = 4096 or less, for results of that type with sums at least as precise.
struct FrobeniusGate {
  DType output;
  double bound;
};
constexpr std::array<FrobeniusGate, 4> kFrobeniusGates{
    {{f64, 1e-14}, {f32, 2e-6}, {bf16, 3e-3}, {f16, 4e-4}}};

double frobenius_gate(DType output) {
  const auto* gate = std::find_if(kFrobeniusGates.begin(), kFrobeniusGates.end(),
                                  [&](const FrobeniusGate& row) { return row.output == output; });
  return gate == kFrobeniusGates.end() ? unit_roundoff(output) : gate->bound;
}

// One result against what it should be, given how far it may be off.
struct Comparison {
  double error = 0;  // infinite for a NaN or an infinity that should not be there
  bool finite = false;
  bool ok = false;
};

Comparison compare(DType output, double got, double expected, double bound) {
  if (std::isnan(expected)) return {.error = 0, .finite = false, .ok = std::isnan(got)};
  const double error = std::fabs(got - expected);
  if (std::isfinite(got) && std::isfinite(expected)) {
    return {.error = error, .finite = true, .ok = error <= bound};
  }
  if (std::isinf(expected) && got == expected) return {.error = 0, .finite = false, .ok = true};
  // Near the largest number of the type, rounding may overflow on either side.
  std::array<std::byte, 8> reach{};
  store_from_double(output, reach.data(), 0, expected + std::copysign(bound, expected));
  const bool overflow = std::isinf(got) && load_as_double(output, reach.data(), 0) == got;
  return {.error = overflow ? 0 : std::numeric_limits<double>::infinity(),
          .finite = false,
          .ok = overflow};
}

// Sums over the tiles of a result.
struct Tally {
  Verdict verdict;
  double error_squares = 0;
  double reference_squares = 0;

  void add(std::int64_t row, std::int64_t column, double got, double expected, double bound,
           const Comparison& comparison) {
    verdict.checked += 1;
    verdict.wrong += comparison.ok ? 0 : 1;
    if (comparison.finite) {
      verdict.max_error = std::max(verdict.max_error, comparison.error);
      error_squares += comparison.error * comparison.error;
      reference_squares += expected * expected;
    }
    const double ratio =
        comparison.ok && comparison.error == 0
            ? 0
            : (bound > 0 ? comparison.error / bound : std::numeric_limits<double>::infinity());
    const bool first_wrong = !comparison.ok && verdict.wrong == 1;
    if (ratio > verdict.worst_ratio || first_wrong) {
      verdict.worst_ratio = std::max(ratio, verdict.worst_ratio);
      verdict.worst_row = row;
      verdict.worst_column = column;
      verdict.got = got;
      verdict.expected = expected;
    }
  }

  void merge(const Tally& other) {
    const bool worse = other.verdict.worst_ratio > verdict.worst_ratio ||
                       (verdict.wrong == 0 && other.verdict.wrong > 0);
    if (worse) {
      verdict.worst_ratio = other.verdict.worst_ratio;
      verdict.worst_row = other.verdict.worst_row;
      verdict.worst_column = other.verdict.worst_column;
      verdict.got = other.verdict.got;
      verdict.expected = other.verdict.expected;
    }
    verdict.checked += other.verdict.checked;
    verdict.wrong += other.verdict.wrong;
    verdict.max_error = std::max(verdict.max_error, other.verdict.max_error);
    error_squares += other.error_squares;
    reference_squares += other.reference_squares;
  }
};

double element_bound(const Tolerance& t, const GemmProblem& problem, const GemmOperands& operands,
                     const CheckOptions& options, const Element& element) {
  if (t.exact) return 0;
  const bool any = has_products(problem, operands);
  const auto k = any ? static_cast<double>(problem.K) : 0;
  const double alpha = any ? operands.alpha : 0;
  const double growth = options.data_with_mean ? k : std::sqrt(k);
  return ((4 * growth + 2) * t.u_acc + t.c_in) * element.magnitude +
         t.u_out * std::fabs(element.value) + t.tiny + std::fabs(alpha) * k * t.tiny_product;
}

// The bits that D has to hold at (row, column) where it holds C's or zeros.
bool holds_copy(const GemmProblem& problem, const GemmOperands& operands, const void* d,
                std::int64_t row, std::int64_t column) {
  const auto size = static_cast<std::size_t>(info(*problem.d).size);
  const auto place = [&](const void* array, std::int64_t leading) {
    return static_cast<const std::byte*>(array) +
           static_cast<std::size_t>(row * leading + column) * size;
  };
  constexpr std::array<std::byte, 8> kZero{};
  const std::byte* right = operands.beta == 0 ? kZero.data() : place(operands.c, problem.ldc);
  return std::memcmp(place(d, problem.ldd), right, size) == 0;
}

}  // namespace

Tolerance tolerance(DType input, DType accumulator, DType output) {
  if (info(output).is_integer()) return {.exact = true};
  const bool narrow_sums = info(accumulator).size < info(output).size || info(accumulator).size < 4;
  Tolerance t;
  t.u_acc = unit_roundoff(accumulator);
  // Tensor cores truncate where they add products of 16-bit operands.
  if (info(input).size < info(accumulator).size && accumulator != f64) t.u_acc *= 2;
  t.u_out = accumulator == output ? 0 : unit_roundoff(output);
  t.tiny = half_least_subnormal(output);
  t.tiny_product = half_least_subnormal(accumulator);
  t.frobenius = frobenius_gate(output);
  // Rounding a growing sum of K centred products costs about 0.41·u·√K; the f32 gate allows 0.52.
  if (narrow_sums) t.frobenius += 0.52 * 64 * unit_roundoff(accumulator);
  return t;
}

Verdict check_gemm(const GemmProblem& given, DType accumulator, const GemmOperands& operands,
                   const void* d, const CheckOptions& options) {
  const GemmProblem problem = normalized(given);
  const DType output = *problem.d;
  Tolerance t = tolerance(problem.a, accumulator, output);
  const bool copied =
      !has_products(problem, operands) && (operands.beta == 0 || operands.beta == 1);
  t.exact = t.exact || copied;
  Tally total;
  std::mutex total_mutex;
  for_each_tile(problem, operands, options, [&](const Tile& tile) {
    Tally tally;
    for (std::size_t i = 0; i < tile.rows.size(); ++i) {
      for (std::size_t j = 0; j < tile.columns.size(); ++j) {
        const Element& element = tile.elements[i * tile.columns.size() + j];
        const std::int64_t place = tile.rows[i] * problem.ldd + tile.columns[j];
        const double got = load_as_double(output, d, static_cast<std::size_t>(place));
        const double bound = element_bound(t, problem, operands, options, element);
        Comparison comparison = compare(output, got, element.value, bound);
        if (copied) {
          comparison.ok = holds_copy(problem, operands, d, tile.rows[i], tile.columns[j]);
        }
        tally.add(tile.rows[i], tile.columns[j], got, element.value, bound, comparison);
      }
    }
    const std::lock_guard lock(total_mutex);
    total.merge(tally);
  });

  Verdict verdict = total.verdict;
  verdict.exact = t.exact;
  verdict.elements = problem.M * problem.N;
  verdict.frobenius_bound =
      t.frobenius * std::sqrt(std::max(1.0, static_cast<double>(problem.K) / 4096)) *
      (options.data_with_mean ? std::sqrt(std::max(1.0, static_cast<double>(problem.K))) : 1);
  verdict.frobenius =
      total.error_squares == 0 ? 0 : std::sqrt(total.error_squares / total.reference_squares);
  // A handful of elements has no Frobenius statistics, and cancellation may leave a norm of
  // nothing.
  const bool gated = verdict.checked >= 256 && !t.exact;
  verdict.ok = verdict.wrong == 0 && (!gated || verdict.frobenius <= verdict.frobenius_bound);
  return verdict;
}

Verdict check_add(const AddProblem& problem, const void* a, const void* b, const void* out) {
  const DTypeInfo& type = info(problem.dtype);
  const auto size = static_cast<std::size_t>(type.size);
  const std::int64_t n = problem.shape.elements();
  constexpr std::int64_t kChunk = 1 << 16;
  Tally total;
  std::mutex total_mutex;
  parallel_for((n + kChunk - 1) / kChunk, 0, [&](std::int64_t chunk) {
    Tally tally;
    for (std::int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
      const auto at = static_cast<std::size_t>(i);
      // Double holds at least 2p+2 bits of every narrower format: rounding twice is rounding once.
      const double sum = load_as_double(type.dtype, a, at) + load_as_double(type.dtype, b, at);
      std::array<std::byte, 8> right{};
      store_from_double(type.dtype, right.data(), 0, sum);
      const double expected = load_as_double(type.dtype, right.data(), 0);
      const double got = load_as_double(type.dtype, out, at);
      const bool same =
          std::memcmp(right.data(), static_cast<const std::byte*>(out) + at * size, size) == 0 ||
          (std::isnan(expected) && std::isnan(got));
      const bool finite = std::isfinite(got) && std::isfinite(expected);
      tally.add(0, i, got, expected, 0,
                {.error = finite ? std::fabs(got - expected) : 0, .finite = finite, .ok = same});
    }
    const std::lock_guard lock(total_mutex);
    total.merge(tally);
  });
  Verdict verdict = total.verdict;
  verdict.exact = true;
  verdict.elements = n;
  verdict.ok = verdict.wrong == 0;
  return verdict;
}

std::string Verdict::text() const {
  const auto print = [](const char* format, auto... values) {
    std::array<char, 256> line{};
    std::snprintf(line.data(), line.size(), format, values...);
    return std::string(line.data());
  };
  std::string text = ok ? "ok: " : "wrong: ";
  if (checked < elements) {
    text += print("a sample of %lld of ", static_cast<long long>(checked));
  }
  text += print("%lld elements", static_cast<long long>(elements));
  if (exact) {
    text += wrong == 0 ? ", every bit right" : "";
  } else {
    text += print(", error %.3g of the bound, Frobenius %.2g (bound %.2g)", worst_ratio, frobenius,
                  frobenius_bound);
  }
  if (wrong > 0) {
    text += print(", %lld beyond the bound; the worst at (%lld, %lld) is %.9g and should be %.9g",
                  static_cast<long long>(wrong), static_cast<long long>(worst_row),
                  static_cast<long long>(worst_column), got, expected);
  }
  return text;
}

}  // namespace tilec::reference

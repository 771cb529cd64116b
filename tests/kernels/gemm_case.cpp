#include "tests/kernels/gemm_case.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>

#include "reference.h"
#include "tests/support/guarded_array.h"

namespace tilec::test {
namespace {

using Bytes = std::vector<std::byte>;

Scalar scalar(DType type, double value) {
  if (type == f64) return value;
  if (type == s32) return static_cast<std::int32_t>(value);
  return static_cast<float>(value);
}

Bytes matrix(DType type, std::int64_t rows, std::int64_t columns, std::int64_t leading, bool ones,
             std::uint64_t seed) {
  Bytes bytes = reference::random_matrix(type, rows, columns, leading, seed);
  for (std::int64_t i = 0; ones && i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      store_from_double(type, bytes.data(), static_cast<std::size_t>(i * leading + j), 1);
    }
  }
  return bytes;
}

// Bits that do not survive a product with 1 or a sum with 0, of every kind.
Bytes odd_matrix(DType type, std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  const DTypeInfo& format = info(type);
  const int width = format.exponent_bits + format.mantissa_bits;
  const std::uint64_t one = 1, sign = one << width;
  const std::uint64_t infinity = sign - (one << format.mantissa_bits);
  const std::uint64_t quiet = format.is_integer() ? 0 : one << (format.mantissa_bits - 1);
  const std::uint64_t bits[] = {sign,     infinity | 5, sign | infinity | quiet | 3, one,
                                sign | 3, infinity,     infinity | quiet | one};
  Bytes bytes = reference::random_matrix(type, rows, columns, leading, 3);
  const auto size = static_cast<std::size_t>(format.size);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto place = static_cast<std::size_t>(i * leading + j);
      std::memcpy(bytes.data() + place * size, &bits[place % std::size(bits)], size);
    }
  }
  return bytes;
}

Bytes poison(DType type, std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  return Bytes(reference::matrix_elements(rows, columns, leading) *
                   static_cast<std::size_t>(info(type).size),
               std::byte{0xFF});
}

// The operands on the host and in guarded device memory.
struct Operands {
  Bytes a, b, c;
  std::unique_ptr<GuardedArray> on_device_a, on_device_b, on_device_c, on_device_d;
};

// Far enough for an index that is wrong by some rows of a tile.
std::size_t zone_bytes(const GemmProblem& p, std::int64_t ld) {
  const std::int64_t bytes = std::min<std::int64_t>(80 * ld * info(p.a).size, 1 << 20);
  return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 4096));
}

Operands place(const Device& device, const GemmCase& gemm, const GemmProblem& p) {
  const DType T = p.a;
  Operands all;
  all.a = gemm.alpha == 0 ? poison(T, p.M, p.K, p.lda) : matrix(T, p.M, p.K, p.lda, gemm.ones, 1);
  all.b = gemm.alpha == 0 ? poison(T, p.K, p.N, p.ldb) : matrix(T, p.K, p.N, p.ldb, gemm.ones, 2);
  all.c = gemm.beta == 0 ? poison(T, p.M, p.N, p.ldc)
          : gemm.odd_c   ? odd_matrix(T, p.M, p.N, p.ldc)
                         : matrix(T, p.M, p.N, p.ldc, false, 3);
  const Bytes d = poison(T, p.M, p.N, p.ldd);
  const auto guarded = [&](const Bytes& bytes, std::int64_t ld, bool read) {
    return std::make_unique<GuardedArray>(
        device, bytes,
        GuardedArray::Placement{.zone = read ? Zone::nan : Zone::number,
                                .zone_bytes = zone_bytes(p, ld),
                                .shift = static_cast<std::size_t>(gemm.shift * info(T).size),
                                .fenced = read && gemm.shift == 0});
  };
  all.on_device_a = guarded(all.a, p.lda, true);
  all.on_device_b = guarded(all.b, p.ldb, true);
  all.on_device_c = guarded(all.c, p.ldc, true);
  all.on_device_d = guarded(d, p.ldd, false);
  return all;
}

GemmArguments arguments(const GemmCase& gemm, const Operands& operands, DType scalar_type) {
  GemmArguments all{.a = operands.on_device_a->data(),
                    .b = operands.on_device_b->data(),
                    .c = operands.on_device_c->data(),
                    .d = operands.on_device_d->data(),
                    .alpha = scalar(scalar_type, gemm.alpha),
                    .beta = scalar(scalar_type, gemm.beta)};
  if (gemm.place == ResultPlace::left_out) all.d = nullptr;
  if (gemm.place == ResultPlace::d_is_c) all.d = all.c;
  if (gemm.unread_null && gemm.alpha == 0) all.a = all.b = nullptr;
  if (gemm.unread_null && gemm.beta == 0 && gemm.place == ResultPlace::apart) all.c = nullptr;
  return all;
}

// What must not have changed, and did.
std::string changed(const char* name, const GuardedArray::Reading& now, const Bytes& before) {
  if (!now.zones_untouched) return fmt::format("memory beside {} was written; ", name);
  return now.contents == before ? "" : fmt::format("{} was written; ", name);
}

DType accumulator(const PlanInfo& plan, DType T) {
  const Parameters& parameters = plan.launches.front().parameters;
  const auto found = parameters.find("ACC");
  return found == parameters.end() ? info(T).accumulator : found->second.dtype();
}

}  // namespace

std::string describe(const GemmCase& gemm) {
  const GemmProblem p = normalized(gemm.problem);
  constexpr const char* kPlaces[] = {"D apart", "in place", "D is C"};
  return fmt::format("{} alpha={} beta={}, {}{}{}{}{}", tilec::describe(Problem(p)), gemm.alpha,
                     gemm.beta, kPlaces[static_cast<int>(gemm.place)], gemm.ones ? ", ones" : "",
                     gemm.odd_c ? ", odd C" : "", gemm.unread_null ? ", nulls" : "",
                     gemm.shift != 0 ? fmt::format(", {} off", gemm.shift) : "");
}

std::string failure(const Engine& engine, const PlanOptions& options, const GemmCase& gemm) {
  const Gemm plan = engine.plan(gemm.problem, options);
  const GemmProblem& p = plan.problem();
  const DType sums = accumulator(plan.info(), p.a);
  const Operands operands = place(engine.device(), gemm, p);
  plan.run(arguments(gemm, operands, info(sums).scalar));
  engine.device().synchronize();

  const bool apart = gemm.place == ResultPlace::apart;
  const auto c = operands.on_device_c->read(), d = operands.on_device_d->read();
  std::string wrong = changed("A", operands.on_device_a->read(), operands.a) +
                      changed("B", operands.on_device_b->read(), operands.b);
  if (apart) wrong += changed("C", c, operands.c);
  if (!apart) wrong += changed("an array that is no operand", d, poison(p.a, p.M, p.N, p.ldd));

  GemmProblem checked = p;
  if (!apart) checked.ldd = p.ldc;
  const GuardedArray::Reading& result = apart ? d : c;
  if (!result.zones_untouched) wrong += "memory beside D was written; ";
  if (!reference::gaps_untouched(p.a, p.M, p.N, checked.ldd, result.contents.data())) {
    wrong += "a gap between rows of D was written; ";
  }
  const reference::Verdict verdict = reference::check_gemm(
      checked, sums,
      {operands.a.data(), operands.b.data(), operands.c.data(), gemm.alpha, gemm.beta},
      result.contents.data(), {.data_with_mean = gemm.ones, .threads = 1});
  if (!verdict.ok) wrong += verdict.text();
  return wrong;
}

std::vector<GemmCase> shape_cases(DType T, std::int64_t r, std::int64_t c) {
  const std::int64_t k = std::max(r, c);
  const std::int64_t shapes[][3] = {
      {0, 0, 0},
      {0, c, k},
      {r, 0, k},
      {r, c, 0},
      {1, 1, 1},
      {2, 3, 5},
      {7, 11, 15},
      {15, 7, 11},
      {r, c, k},
      {r - 1, c - 1, k - 1},
      {r + 1, c + 1, k + 1},
      {r, c + 1, 2 * k},
      {r + 1, c, k},
      {2 * r + 1, 3 * c - 1, 37},
      {5 * r + 3, 1, k + 1},
      {1, 5 * c + 3, 3},
      {1, 1, 4 * k + 3},
      {13, 2, 1},
  };
  std::vector<GemmCase> cases;
  for (const auto& [M, N, K] : shapes) {
    cases.push_back({.problem = {.M = M, .N = N, .K = K, .a = T}});
  }
  return cases;
}

std::vector<GemmCase> meaning_cases(DType T, std::int64_t r, std::int64_t c) {
  const std::int64_t M = r + 1, N = c + 2, K = std::max(r, c) + 3;
  const GemmProblem tight{.M = M, .N = N, .K = K, .a = T};
  const GemmProblem none{.M = M, .N = N, .K = 0, .a = T};
  const GemmProblem wide{
      .M = M, .N = N, .K = K, .a = T, .lda = K + 1, .ldb = N + 3, .ldc = N + 2, .ldd = N + 5};
  const GemmProblem narrow_d{.M = M, .N = N, .K = K, .a = T, .ldc = N + 7, .ldd = N};
  const GemmProblem one_row{
      .M = 1, .N = N, .K = K, .a = T, .lda = -1, .ldc = 1, .ldd = std::int64_t{1} << 40};
  const GemmProblem one_product{.M = M, .N = N, .K = 1, .a = T, .lda = 3, .ldb = -5};
  const double half = info(T).is_integer() ? -3 : 0.5;
  const ResultPlace left_out = ResultPlace::left_out, d_is_c = ResultPlace::d_is_c;
  std::vector<GemmCase> cases = {
      {.problem = wide},
      {.problem = wide, .alpha = 2, .beta = half},
      {.problem = wide, .alpha = half, .beta = 1, .place = left_out},
      {.problem = narrow_d, .alpha = -1, .beta = 2},
      {.problem = tight, .beta = half, .place = d_is_c},
      {.problem = tight, .place = left_out},
      {.problem = tight, .unread_null = true},
      {.problem = tight, .beta = -1, .shift = 1},
      {.problem = wide, .alpha = 0, .beta = 2},
      {.problem = tight, .alpha = 0, .beta = half, .place = left_out, .unread_null = true},
      {.problem = tight, .alpha = 0},
      {.problem = none},
      {.problem = none, .beta = 2},
      {.problem = none, .place = left_out},
      {.problem = none, .beta = half, .place = left_out},
      {.problem = tight, .ones = true},
      {.problem = wide, .alpha = 2, .ones = true, .shift = 3},
      {.problem = one_row, .beta = 2, .place = d_is_c},
      {.problem = one_row, .alpha = 2, .beta = half},
      {.problem = one_product, .alpha = half, .beta = 1},
      {.problem = wide, .alpha = 0, .beta = 1, .odd_c = true},
      {.problem = tight, .alpha = 0, .beta = 1, .place = left_out, .odd_c = true},
      {.problem = none, .alpha = 2, .beta = 1, .odd_c = true},
      {.problem = none, .beta = 1, .place = d_is_c, .odd_c = true},
  };
  if (info(T).is_integer()) return cases;
  const std::vector<GemmCase> of_floats = {
      {.problem = none, .alpha = HUGE_VAL},
      {.problem = none, .alpha = -HUGE_VAL, .beta = half},
      {.problem = none, .alpha = NAN, .beta = 1, .odd_c = true},
      {.problem = none, .alpha = NAN, .beta = 2, .place = left_out},
      {.problem = none, .beta = NAN},
      {.problem = tight, .alpha = -0.0, .beta = 1, .odd_c = true, .unread_null = true},
      {.problem = tight, .alpha = HUGE_VAL, .beta = -0.0, .ones = true},
      {.problem = tight, .alpha = 0x1p17, .ones = true},  // beyond f16
  };
  cases.insert(cases.end(), of_floats.begin(), of_floats.end());
  return cases;
}

}  // namespace tilec::test

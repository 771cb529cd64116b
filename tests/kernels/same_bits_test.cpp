// What a user may rely on (engine/include/tilec/gemm.h, add.h): the same bits from run to run and
// from thread to thread, and for a row of D whatever the other rows are.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "reference.h"
#include "tests/support/engines.h"
#include "tests/support/skip.h"
#include "tilec/buffer.h"

namespace tilec::test {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::int64_t kRows = 70, N = 37, K = 45;

// A, B and C of the tallest GEMM; shorter ones take some of its rows.
class Rows {
 public:
  Rows(const Device& device, DType T) : device_(device), T_(T) {
    const auto random = [&](std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
      const Bytes bytes = reference::random_matrix(T, rows, columns, columns, seed);
      return DeviceBuffer<std::byte>(device, std::span<const std::byte>(bytes));
    };
    a_ = random(kRows, K, 1);
    b_ = random(K, N, 2);
    c_ = random(kRows, N, 3);
  }

  // `count` rows of D, from the first on.
  Bytes result(const Gemm& plan, std::int64_t first, std::int64_t count) const {
    const std::int64_t size = info(T_).size;
    const DeviceBuffer<std::byte> d(device_, static_cast<std::size_t>(count * N * size));
    device_.fill(d.data(), 0xFF, d.size());
    plan.run({.a = a_.data() + first * K * size,
              .b = b_.data(),
              .c = c_.data() + first * N * size,
              .d = d.data(),
              .alpha = 3,
              .beta = -2});
    device_.synchronize();
    return d.to_host();
  }
  Bytes part(const Bytes& all, std::int64_t first, std::int64_t count) const {
    const std::int64_t row = N * info(T_).size;
    return {all.begin() + first * row, all.begin() + (first + count) * row};
  }

 private:
  const Device& device_;
  DType T_;
  DeviceBuffer<std::byte> a_, b_, c_;
};

// The default parameters and some that differ from them in everything.
std::vector<Parameters> parameter_sets(const KernelTemplate& kernel, DType T,
                                       const Target& target) {
  const std::vector<Parameters> cover = pairwise_samples(kernel, T, target);
  return {{}, cover.front(), cover.back()};
}

// Calls visit(options) for the templates of one operation.
template <class Visit>
void for_each_plan(Operation operation, DType T, const Target& target, Visit visit) {
  int plans = 0;
  for (const KernelTemplate& kernel : catalog()) {
    if (kernel.operation != operation || std::ranges::count(kernel.dtypes, T) == 0) continue;
    for (const Parameters& parameters : parameter_sets(kernel, T, target)) {
      const PlanOptions options{.template_name = kernel.name, .parameters = parameters};
      CAPTURE(kernel.name);
      CAPTURE(describe(parameters));
      visit(options);
      ++plans;
    }
  }
  CHECK(plans > 0);
}

GemmProblem gemm_of(DType T, std::int64_t M) {
  return {.M = M, .N = N, .K = K, .a = T};
}

void expect_rows_alone(const NamedEngine& named, DType T) {
  const Rows rows(named.engine.device(), T);
  for_each_plan(
      Operation::gemm, T, named.engine.device().target(), [&](const PlanOptions& options) {
        const Bytes all = rows.result(named.engine.plan(gemm_of(T, kRows), options), 0, kRows);
        for (const std::int64_t M : {1, 2, 7, 31, 32, 33, 64, 65}) {
          CAPTURE(M);
          const Gemm plan = named.engine.plan(gemm_of(T, M), options);
          for (const std::int64_t first : {std::int64_t{0}, (kRows - M) / 2, kRows - M}) {
            CHECK(rows.result(plan, first, M) == rows.part(all, first, M));
          }
        }
      });
}

// Runs `once` again and again, and from several threads at a time.
void expect_same_bits(const std::function<Bytes()>& once, int times) {
  const Bytes first = once();
  for (int i = 1; i < times; ++i) CHECK(once() == first);
  std::vector<Bytes> results(4);
  std::vector<std::thread> threads;
  for (Bytes& result : results) threads.emplace_back([&] { result = once(); });
  for (std::thread& thread : threads) thread.join();
  for (const Bytes& result : results) CHECK(result == first);
}

void expect_same_bits(const NamedEngine& named, DType T, int times) {
  const Device& device = named.engine.device();
  const Rows rows(device, T);
  for_each_plan(Operation::gemm, T, device.target(), [&](const PlanOptions& options) {
    const Gemm plan = named.engine.plan(gemm_of(T, kRows), options);
    expect_same_bits([&] { return rows.result(plan, 0, kRows); }, times);
  });
  constexpr std::int64_t n = 10007;
  const Bytes a = reference::random_array(T, n, 1), b = reference::random_array(T, n, 2);
  const DeviceBuffer<std::byte> on_a(device, std::span<const std::byte>(a)),
      on_b(device, std::span<const std::byte>(b));
  for_each_plan(Operation::add, T, device.target(), [&](const PlanOptions& options) {
    const Add plan = named.engine.plan(AddProblem{.shape = {n}, .dtype = T}, options);
    const auto once = [&] {
      const DeviceBuffer<std::byte> out(device, a.size());
      plan.run(AddArguments{.a = on_a.data(), .b = on_b.data(), .out = out.data()});
      device.synchronize();
      return out.to_host();
    };
    expect_same_bits(once, times);
  });
}

// In every order in which blocks and threads may run, too.
TEST_SUITE("host") {
  TEST_CASE("a row of D does not depend on the others, on the host device") {
    const std::vector<NamedEngine> engines = host_engines();
    for (const DType T : {f32, f64, f16, bf16, s32}) expect_rows_alone(engines.front(), T);
    expect_rows_alone(engines[2], f32);
  }
  TEST_CASE("every run gives the same bits, on the host device") {
    const std::vector<NamedEngine> engines = host_engines();
    for (const DType T : {f32, f64, f16, bf16, s32}) expect_same_bits(engines.front(), T, 2);
    for (const NamedEngine& named : engines) expect_same_bits(named, f32, 2);
  }
}

TEST_SUITE("gpu") {
  TEST_CASE("a row of D does not depend on the others, on a GPU") {
    const GpuEngines gpu = gpu_engines();
    if (gpu.engines.empty()) return skip(gpu.why);
    for (const DType T : {f32, f64, f16, bf16, s32}) expect_rows_alone(gpu.engines.front(), T);
  }
  TEST_CASE("every run gives the same bits, on a GPU") {
    const GpuEngines gpu = gpu_engines();
    if (gpu.engines.empty()) return skip(gpu.why);
    for (const DType T : {f32, f64, f16, bf16, s32}) {
      expect_same_bits(gpu.engines.front(), T, 30);
    }
  }
}

}  // namespace
}  // namespace tilec::test

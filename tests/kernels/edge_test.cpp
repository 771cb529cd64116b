// What the table does not reach: long sums, grids beyond 65,535 rows of blocks, tiles that need
// opted-in shared memory, matrices beyond 2^31 elements, more blocks than needed.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "reference.h"
#include "tests/kernels/add_case.h"
#include "tests/kernels/gemm_case.h"
#include "tests/support/engines.h"
#include "tests/support/skip.h"
#include "tilec/buffer.h"

namespace tilec::test {
namespace {

struct Row {
  PlanOptions plan;
  GemmCase gemm;
};

PlanOptions regn(Parameters parameters) {
  return {.template_name = "gemm_regn", .parameters = std::move(parameters)};
}
PlanOptions naive(Parameters parameters) {
  return {.template_name = "gemm_naive", .parameters = std::move(parameters)};
}

std::vector<Row> edge_rows() {
  const PlanOptions plain = regn({{"TILE", 16}, {"TN", 4}}), pairs = naive({{"BLOCK_X", 2}});
  const PlanOptions tall = regn({{"TILE", 1}, {"TN", 1}});
  const PlanOptions flat = naive({{"BLOCK_X", 2}, {"BLOCK_Y", 1}});
  const GemmProblem beyond{.M = 70000, .N = 2, .K = 3};
  std::vector<Row> rows = {
      // Tiles that are no power of two.
      {regn({{"TILE", 24}, {"TN", 3}}), {.problem = {.M = 49, .N = 71, .K = 50}, .beta = 2}},
      {regn({{"TILE", 48}, {"TN", 6}}), {.problem = {.M = 97, .N = 47, .K = 101}, .beta = 2}},
      {regn({{"TILE", 5}, {"TN", 5}}), {.problem = {.M = 11, .N = 13, .K = 12}}},
      // Over 48 KB of shared memory: 66,560 bytes.
      {regn({{"TILE", 64}, {"TN", 8}, {"PAD", 1}}),
       {.problem = {.M = 65, .N = 130, .K = 67, .a = f64}, .beta = 2}},
      // More rows of blocks than a grid's y holds: the rest goes to z, which is not full.
      {tall, {.problem = beyond, .beta = 1}},
      {flat, {.problem = beyond, .beta = 1}},
      {tall, {.problem = {.M = 131071, .N = 1, .K = 1}}},
      // Rows far apart.
      {plain, {.problem = {.M = 3, .N = 5, .K = 4, .lda = 70001, .ldb = 3, .ldc = 90001}}},
  };
  rows.back().gemm.problem.ldb = 90001;
  for (const DType T : {f32, f64, f16, bf16, s32}) {
    for (const PlanOptions& plan : {plain, pairs}) {
      rows.push_back({plan, {.problem = {.M = 3, .N = 18, .K = 4096, .a = T}, .ones = true}});
      rows.push_back({plan, {.problem = {.M = 5, .N = 17, .K = 1021, .a = T}, .alpha = 3}});
    }
  }
  return rows;
}

void run_rows(const std::vector<NamedEngine>& engines) {
  for (const Row& row : edge_rows()) {
    for (const NamedEngine& named : engines) {
      const std::string wrong = failure(named.engine, row.plan, row.gemm);
      CHECK_MESSAGE(wrong.empty(), row.plan.template_name, " ", describe(row.plan.parameters), ", ",
                    describe(row.gemm), ", on ", named.name, ": ", wrong);
    }
  }
}

// A template that launches some blocks more than it needs, along each axis.
KernelTemplate with_surplus_blocks(KernelTemplate kernel) {
  kernel.name += "_surplus";
  kernel.entry =
      kernel.entry.empty() ? kernel.name.substr(0, kernel.name.rfind('_')) : kernel.entry;
  kernel.candidates.clear();
  kernel.launch = [launch = kernel.launch](const Problem& problem, const Parameters& parameters) {
    LaunchShape shape = launch(problem, parameters);
    const bool gemm = operation(problem) == Operation::gemm;
    shape.grid = {shape.grid[0] + 2, shape.grid[1] + (gemm ? 1 : 0),
                  shape.grid[2] + (gemm ? 1 : 0)};
    return shape;
  };
  return kernel;
}

void run_with_surplus_blocks(const NamedEngine& named) {
  for (const KernelTemplate& shipped : catalog()) {
    const KernelTemplate kernel = with_surplus_blocks(shipped);
    named.engine.register_template(kernel);
    const PlanOptions plan{.template_name = kernel.name};
    const std::string wrong =
        kernel.operation == Operation::gemm
            ? failure(named.engine, plan, GemmCase{.problem = {.M = 33, .N = 65, .K = 34}})
            : failure(named.engine, plan, AddCase{.problem = {.shape = {5000}}});
    CHECK_MESSAGE(wrong.empty(), kernel.name, ", on ", named.name, ": ", wrong);
  }
}

// The exact number of K ones, whatever the type of the elements, in the default accumulator.
void expect_exact_ones(const NamedEngine& named, DType T) {
  constexpr std::int64_t K = 4096;
  std::vector<std::byte> ones(K * static_cast<std::size_t>(info(T).size));
  for (std::size_t i = 0; i < K; ++i) store_from_double(T, ones.data(), i, 1);
  const Device& device = named.engine.device();
  for (const char* name : {"gemm_naive", "gemm_regn"}) {
    const Gemm plan =
        named.engine.plan(GemmProblem{.M = 1, .N = 1, .K = K, .a = T}, {.template_name = name});
    const DeviceBuffer<std::byte> a(device, std::span<const std::byte>(ones)), d(device, 8);
    plan.run(GemmArguments{.a = a.data(), .b = a.data(), .d = d.data()});
    device.synchronize();
    CHECK(load_as_double(T, d.to_host().data(), 0) == 4096);
  }
}

// In a sum of whole numbers modulo 2^32 the order can't matter: two templates agree on every bit.
void expect_wrapping(const NamedEngine& named) {
  const Device& device = named.engine.device();
  const std::vector<std::int32_t> a{2147483647, 2147483647, -2147483647 - 1, 65536},
      b{2, 3, -1, 65536};
  const DeviceBuffer<std::int32_t> on_device_a(device, std::span<const std::int32_t>(a)),
      on_device_b(device, std::span<const std::int32_t>(b)), d(device, 1);
  for (const char* name : {"gemm_naive", "gemm_regn"}) {
    const Gemm plan =
        named.engine.plan(GemmProblem{.M = 1, .N = 1, .K = 4, .a = s32}, {.template_name = name});
    plan.run(
        GemmArguments{.a = on_device_a.data(), .b = on_device_b.data(), .d = d.data(), .alpha = 3});
    device.synchronize();
    // 2^32 − 2 + 3·2^31 − 3 + 2^31 + 2^32 ≡ −5, times 3.
    CHECK(d.to_host() == std::vector<std::int32_t>{-15});
  }
}

// Rows more than 2^31 elements apart, in memory that is mostly never touched.
void run_far_rows(const NamedEngine& named) {
  constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 7, M = 2, N = 3, K = 2;
  const Device& device = named.engine.device();
  const GemmProblem far{
      .M = M, .N = N, .K = K, .a = f16, .lda = kFar, .ldb = kFar, .ldc = kFar, .ldd = kFar};
  const GemmProblem packed{.M = M, .N = N, .K = K, .a = f16};
  const auto a = reference::random_array(f16, M * K, 1), b = reference::random_array(f16, K * N, 2),
             c = reference::random_array(f16, M * N, 3);
  const auto spread = [&](const std::vector<std::byte>& rows, std::int64_t columns) {
    DeviceBuffer<float16> far_apart(device, kFar + N);
    const std::size_t bytes = static_cast<std::size_t>(columns) * 2;
    device.copy_to_device(far_apart.data(), rows.data(), bytes);
    device.copy_to_device(far_apart.data() + kFar, rows.data() + bytes, bytes);
    return far_apart;
  };
  const DeviceBuffer<float16> on_device_a = spread(a, K), on_device_b = spread(b, N),
                              on_device_c = spread(c, N), d(device, kFar + N);
  for (const char* name : {"gemm_naive", "gemm_regn"}) {
    named.engine.plan(far, {.template_name = name})
        .run(GemmArguments{.a = on_device_a.data(),
                           .b = on_device_b.data(),
                           .c = on_device_c.data(),
                           .d = d.data(),
                           .beta = 1.0f});
    device.synchronize();
    std::vector<std::byte> result(M * N * 2);
    device.copy_to_host(result.data(), d.data(), N * 2);
    device.copy_to_host(result.data() + N * 2, d.data() + kFar, N * 2);
    const reference::Verdict verdict = reference::check_gemm(
        packed, f32, {.a = a.data(), .b = b.data(), .c = c.data(), .beta = 1}, result.data());
    CHECK_MESSAGE(verdict.ok, name, " on ", named.name, ": ", verdict.text());
  }
}

// The bits of signed zeros, which a comparison of values can't see, and of an alpha that f16 can't
// hold.
void expect_bits(const NamedEngine& named) {
  const Device& device = named.engine.device();
  const auto bits_of = [&](const PlanOptions& options, std::int64_t K, float alpha, double product,
                           float beta, double c) {
    std::vector<std::byte> bytes(6);
    for (const auto& [place, value] : {std::pair{0, product}, {1, 1.0}, {2, c}}) {
      store_from_double(f16, bytes.data(), static_cast<std::size_t>(place), value);
    }
    const DeviceBuffer<std::byte> all(device, std::span<const std::byte>(bytes)), d(device, 2);
    const Gemm plan = named.engine.plan(GemmProblem{.M = 1, .N = 1, .K = K, .a = f16}, options);
    plan.run(GemmArguments{.a = all.data(),
                           .b = all.data() + 2,
                           .c = all.data() + 4,
                           .d = d.data(),
                           .alpha = alpha,
                           .beta = beta});
    device.synchronize();
    std::uint16_t bits = 0;
    std::memcpy(&bits, d.to_host().data(), 2);
    return bits;
  };
  for (const char* name : {"gemm_naive", "gemm_regn"}) {
    for (const DType ACC : {f32, f16}) {
      const PlanOptions options{.template_name = name, .parameters = {{"ACC", ACC}}};
      CAPTURE(std::string(name));
      constexpr std::uint16_t kZero = 0, kMinusZero = 0x8000, kOne = 0x3c00;
      // beta·C alone keeps the sign of a zero; a product added to it gives what IEEE's sum gives.
      CHECK(bits_of(options, 0, 1, 1, 2, -0.0) == kMinusZero);
      CHECK(bits_of(options, 0, 1, 1, 1, -0.0) == kMinusZero);
      CHECK(bits_of(options, 1, 0, 1, -3, 0.0) == kMinusZero);
      CHECK(bits_of(options, 1, 1, 0, 1, -0.0) == kZero);
      CHECK(bits_of(options, 1, -1, 0, 1, -0.0) == kMinusZero);
      CHECK(bits_of(options, 1, -1, 0, 0, 1) == kMinusZero);
      CHECK(bits_of(options, 1, -1, 1, 1, 1) == kZero);
      CHECK(bits_of(options, 0, -1, 1, 0, -1) == kZero);
      CHECK(bits_of(options, 0, -1, 1, -0.0f, -1) == kZero);
      CHECK(bits_of(options, 1, 0x1p20f, 0x1p-20, 0, 1) == kOne);
      CHECK(bits_of(options, 0, 1, 1, 0x1p20f, 0x1p-20) == kOne);
    }
  }
}

TEST_SUITE("host") {
  TEST_CASE("edges on the host device") {
    run_rows(host_engines());
  }
  TEST_CASE("whole numbers on the host device") {
    const std::vector<NamedEngine> engines = host_engines();
    for (const DType T : {f32, f64, f16, bf16, s32}) expect_exact_ones(engines.front(), T);
    expect_wrapping(engines.front());
  }
  TEST_CASE("surplus blocks do nothing, on the host device") {
    run_with_surplus_blocks(host_engines().front());
  }
  TEST_CASE("signed zeros and large scalars on the host device") {
    expect_bits(host_engines().front());
  }
  TEST_CASE("rows far apart on the host device") {
    // A sanitizer's shadow of so much memory is not free.
    if (!sanitized) run_far_rows(host_engines().front());
  }
}

// D of 2^31 + 2^17 elements and more, which stays on the device: only its last rows are compared.
void run_large_gemm(const Engine& engine, const PlanOptions& plan_options, std::int64_t M,
                    std::int64_t N) {
  constexpr std::int64_t K = 2;
  const Device& device = engine.device();
  const auto bytes = [&](std::int64_t rows, std::int64_t columns) {
    return reference::random_matrix(s32, rows, columns, columns, 7);
  };
  const std::vector<std::byte> a = bytes(M, K), b = bytes(K, N);
  const DeviceBuffer<std::byte> on_device_a(device, std::span<const std::byte>(a)),
      on_device_b(device, std::span<const std::byte>(b));
  const DeviceBuffer<std::int32_t> d(device, static_cast<std::size_t>(M * N));
  device.fill(d.data(), 0xFF, d.size() * 4);
  const Gemm plan = engine.plan(GemmProblem{.M = M, .N = N, .K = K, .a = s32}, plan_options);
  plan.run(GemmArguments{.a = on_device_a.data(), .b = on_device_b.data(), .d = d.data()});
  device.synchronize();
  const std::int64_t rows = std::min<std::int64_t>(M, 3);
  for (const std::int64_t first : {std::int64_t{0}, (M - rows) / 2, M - rows}) {
    std::vector<std::int32_t> part(static_cast<std::size_t>(rows * N));
    device.copy_to_host(part.data(), d.data() + first * N, part.size() * 4);
    const reference::Verdict verdict =
        reference::check_gemm({.M = rows, .N = N, .K = K, .a = s32}, s32,
                              {.a = a.data() + first * K * 4, .b = b.data()}, part.data());
    CHECK_MESSAGE(verdict.ok, plan_options.template_name, " ", M, "×", N, ", rows from ", first,
                  ": ", verdict.text());
  }
}

// The same for a sum, whose last elements are compared.
void run_large_add(const Engine& engine, const PlanOptions& options) {
  constexpr std::int64_t n = (std::int64_t{1} << 31) + 100003, tail = 1 << 20;
  const Device& device = engine.device();
  const DeviceBuffer<float16> a(device, n), b(device, n), out(device, n);
  device.fill(a.data(), 0x11, n * 2);
  device.fill(b.data(), 0x22, n * 2);
  device.fill(out.data(), 0xFF, n * 2);
  const auto x = reference::random_array(f16, tail, 1), y = reference::random_array(f16, tail, 2);
  device.copy_to_device(a.data() + n - tail, x.data(), x.size());
  device.copy_to_device(b.data() + n - tail, y.data(), y.size());
  engine.plan(AddProblem{.shape = {n}, .dtype = f16}, options).run(a.data(), b.data(), out.data());
  device.synchronize();
  std::vector<std::byte> result(x.size());
  device.copy_to_host(result.data(), out.data() + n - tail, result.size());
  const reference::Verdict verdict =
      reference::check_add({.shape = {tail}, .dtype = f16}, x.data(), y.data(), result.data());
  CHECK_MESSAGE(verdict.ok, options.template_name, ": ", verdict.text());
}

TEST_SUITE("gpu") {
  TEST_CASE("edges on a GPU") {
    const GpuEngines gpu = gpu_engines();
    if (gpu.engines.empty()) return skip(gpu.why);
    run_rows(gpu.engines);
    for (const DType T : {f32, f64, f16, bf16, s32}) expect_exact_ones(gpu.engines.front(), T);
    expect_wrapping(gpu.engines.front());
    run_with_surplus_blocks(gpu.engines.front());
    expect_bits(gpu.engines.front());
  }
  TEST_CASE("more than 2^31 elements on a GPU") {
    const GpuEngines gpu = gpu_engines();
    if (gpu.engines.empty()) return skip(gpu.why);
    const Engine& engine = gpu.engines.front().engine;
    try {
      engine.device().release(engine.device().allocate(std::size_t{20} << 30));
    } catch (const Error& error) {
      return skip(error.what());
    }
    for (const PlanOptions& plan : {naive({}), regn({})}) {
      run_large_gemm(engine, plan, 46400, 46400);
      run_large_gemm(engine, plan, 3, 800000000);
      run_large_gemm(engine, plan, 70000000, 37);
    }
    for (const char* name : {"add_elementwise", "add_tiled", "add_block_tiled"}) {
      run_large_add(engine, {.template_name = name});
    }
    run_far_rows(gpu.engines.front());
  }
}

}  // namespace
}  // namespace tilec::test

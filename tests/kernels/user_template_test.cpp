// A template from a string: a GEMM as somebody else would write it, pasted, with parameters of its
// own names. And the shipped templates, which are nothing but such strings.
#include <doctest/doctest.h>

#include <algorithm>

#include "reference.h"
#include "tests/kernels/gemm_case.h"
#include "tests/support/engines.h"
#include "tests/support/skip.h"
#include "tilec/buffer.h"

namespace tilec::test {
namespace {

constexpr const char* kPastedGemm = R"cuda(
#include "tilec/gemm_result.h"
#include "tilec/shared_memory.h"

// One block: a GEMM_TILE × GEMM_TILE tile of D. One thread: GEMM_TN neighbours of a row.
extern "C" __global__ void pasted_gemm(const tilec::GemmArgs args) {
  tilec::SharedMemory shared;
  auto& As = shared.array<T, GEMM_TILE, GEMM_TILE>();
  auto& Bs = shared.array<T, GEMM_TILE, GEMM_TILE>();
  const T* A = static_cast<const T*>(args.a);
  const T* B = static_cast<const T*>(args.b);
  const T* C = static_cast<const T*>(args.c);
  T* D = static_cast<T*>(args.d);
  const float alpha = args.alpha.f32, beta = args.beta.f32;
  const long long K = tilec::products(args, alpha);
  const int tx = threadIdx.x, ty = threadIdx.y;
  const long long row = static_cast<long long>(blockIdx.y) * GEMM_TILE + ty;
  const long long col0 = static_cast<long long>(blockIdx.x) * GEMM_TILE + tx * GEMM_TN;

  T sum[GEMM_TN] = {};
  for (long long k0 = 0; k0 < K; k0 += GEMM_TILE) {
    for (int j = 0; j < GEMM_TN; ++j) {
      const int kk = tx * GEMM_TN + j;
      As[ty][kk] = row < args.M && k0 + kk < K ? A[row * args.lda + k0 + kk] : T(0);
      Bs[ty][kk] = k0 + ty < K && col0 + j < args.N ? B[(k0 + ty) * args.ldb + col0 + j] : T(0);
    }
    __syncthreads();
    for (int kk = 0; kk < GEMM_TILE; ++kk)
      for (int j = 0; j < GEMM_TN; ++j) sum[j] += As[ty][kk] * Bs[kk][tx * GEMM_TN + j];
    __syncthreads();
  }
  for (int j = 0; j < GEMM_TN && row < args.M && col0 + j < args.N; ++j) {
    D[row * args.ldd + col0 + j] =
        tilec::result(K, alpha, sum[j], beta, C, row * args.ldc + col0 + j);
  }
}
)cuda";

KernelTemplate pasted_gemm() {
  return {.name = "pasted_gemm",
          .operation = Operation::gemm,
          .source = kPastedGemm,
          .parameters = {{"GEMM_TILE", "edge of a tile", Allowed::one_of({8, 16, 32}), always(16)},
                         {"GEMM_TN", "outputs of a thread", Allowed::one_of({1, 2, 4}), always(2)}},
          .dtypes = {f32},
          .launch = [](const Problem& problem, const Parameters& p) -> LaunchShape {
            const auto& gemm = std::get<GemmProblem>(problem);
            const int tile = integer(p, "GEMM_TILE");
            return {.grid = {(gemm.N + tile - 1) / tile, (gemm.M + tile - 1) / tile, 1},
                    .block = {tile / integer(p, "GEMM_TN"), tile, 1},
                    .shared_bytes = 2 * tile * tile * 4};
          }};
}

void run_pasted(const NamedEngine& named) {
  named.engine.register_template(pasted_gemm());
  for (const Parameters& parameters :
       {Parameters{}, {{"GEMM_TILE", 8}, {"GEMM_TN", 1}}, {{"GEMM_TILE", 32}, {"GEMM_TN", 4}}}) {
    const PlanOptions plan{.template_name = "pasted_gemm", .parameters = parameters};
    for (const auto& cases : {shape_cases(f32, 16, 16), meaning_cases(f32, 16, 16)}) {
      for (const GemmCase& gemm : cases) {
        const std::string wrong = failure(named.engine, plan, gemm);
        CHECK_MESSAGE(wrong.empty(), describe(parameters), ", ", describe(gemm), ", on ",
                      named.name, ": ", wrong);
      }
    }
  }
  const PlanInfo plan = named.engine
                            .plan(GemmProblem{.M = 20, .N = 20, .K = 20},
                                  {.template_name = "pasted_gemm", .parameters = {{"GEMM_TN", 4}}})
                            .info();
  CHECK(plan.launches.front().entry == "pasted_gemm");
  CHECK(describe(plan.launches.front().parameters) == "GEMM_TILE=16 GEMM_TN=4");
  CHECK_THROWS_WITH_AS(
      named.engine.plan(GemmProblem{.M = 20, .N = 20, .K = 20},
                        {.template_name = "pasted_gemm", .parameters = {{"GEMM_TILE", 12}}}),
      "pasted_gemm: GEMM_TILE = 12 (edge of a tile) is not allowed; allowed: 8, "
      "16, 32",
      Error);
}

std::vector<float> product(const Engine& engine, const std::string& name) {
  constexpr std::int64_t M = 45, N = 70, K = 33;
  const Device& device = engine.device();
  const auto a = reference::random_array(f32, M * K, 1), b = reference::random_array(f32, K * N, 2);
  const DeviceBuffer<std::byte> on_device_a(device, std::span<const std::byte>(a)),
      on_device_b(device, std::span<const std::byte>(b));
  const DeviceBuffer<float> d(device, M * N);
  engine.plan(GemmProblem{.M = M, .N = N, .K = K}, {.template_name = name})
      .run(GemmArguments{.a = on_device_a.data(), .b = on_device_b.data(), .d = d.data()});
  device.synchronize();
  return d.to_host();
}

// A shipped template's text under another name does the same thing, bit by bit.
void run_copy(const NamedEngine& named) {
  const auto& shipped = *std::ranges::find(catalog(), "gemm_regn", &KernelTemplate::name);
  KernelTemplate copy = shipped;
  copy.name = "my_gemm";
  const std::size_t at = copy.source.find("    gemm_regn(");
  REQUIRE(at != std::string::npos);
  copy.source.replace(at, 14, "    my_gemm(");
  named.engine.register_template(copy);
  CHECK(product(named.engine, "my_gemm") == product(named.engine, "gemm_regn"));

  // Or with its entry's name kept.
  copy = shipped;
  copy.name = "my_other_gemm";
  copy.entry = "gemm_regn";
  named.engine.register_template(copy);
  CHECK(product(named.engine, "my_other_gemm") == product(named.engine, "gemm_regn"));
}

TEST_CASE("the shipped templates are values like a user's" * doctest::test_suite("cpu")) {
  for (const KernelTemplate& shipped : catalog()) {
    CHECK_NOTHROW(check(shipped));
    KernelTemplate copy{.name = "copy_of_" + shipped.name,
                        .operation = shipped.operation,
                        .source = shipped.source,
                        .entry = shipped.entry_point(),
                        .parameters = shipped.parameters,
                        .dtypes = shipped.dtypes,
                        .why_not = shipped.why_not,
                        .launch = shipped.launch};
    CHECK_NOTHROW(check(copy));
    const Target target = Target::parse("sm_90");
    for (const DType T : shipped.dtypes) {
      const Parameters parameters = complete(copy, T, {}, target);
      CHECK(parameters == complete(shipped, T, {}, target));
      const std::string text = render(copy, T, parameters).text;
      CHECK(text.ends_with(shipped.source));
    }
  }
}

TEST_SUITE("host") {
  TEST_CASE("a pasted GEMM on the host device") {
    for (const NamedEngine& named : host_engines()) run_pasted(named);
  }
  TEST_CASE("a shipped template registered again, on the host device") {
    run_copy(host_engines().front());
  }
}

TEST_SUITE("gpu") {
  TEST_CASE("templates from strings on a GPU") {
    const GpuEngines gpu = gpu_engines();
    if (gpu.engines.empty()) return skip(gpu.why);
    run_pasted(gpu.engines.front());
    run_copy(gpu.engines.front());
  }
}

}  // namespace
}  // namespace tilec::test

// A kernel of your own: its text as a string, its parameters under your own names, used like one
// that ships with tilec. Runs it and compares it with gemm_regn.
//   example_own_kernel [cuda | host]
#include <cstdio>
#include <span>
#include <vector>

#include "tilec/buffer.h"
#include "tilec/engine.h"

namespace {

// GEMM_TILE × GEMM_TILE outputs a block, 1 × GEMM_TN a thread, straight from global memory.
constexpr const char* kSource = R"(
#include "tilec/gemm_args.h"

extern "C" __global__ void strip_gemm(const __grid_constant__ tilec::GemmArgs args) {
  const T* A = static_cast<const T*>(args.a);
  const T* B = static_cast<const T*>(args.b);
  T* D = static_cast<T*>(args.d);
  const long long row = blockIdx.y * GEMM_TILE + threadIdx.y;
  const long long col0 = blockIdx.x * GEMM_TILE + threadIdx.x * GEMM_TN;
  float acc[GEMM_TN] = {};
  for (long long k = 0; k < args.K; ++k) {
    for (int j = 0; j < GEMM_TN; ++j) {
      if (row < args.M && col0 + j < args.N) {
        acc[j] += float(A[row * args.lda + k]) * float(B[k * args.ldb + col0 + j]);
      }
    }
  }
  for (int j = 0; j < GEMM_TN; ++j) {
    if (row < args.M && col0 + j < args.N) {
      D[row * args.ldd + col0 + j] = T(args.alpha.f32 * acc[j]);
    }
  }
}
)";

tilec::KernelTemplate strip_gemm() {
  using namespace tilec;
  return {.name = "strip_gemm",
          .operation = Operation::gemm,
          .source = kSource,
          .parameters = {{.name = "GEMM_TILE",
                          .meaning = "edge of a block's tile",
                          .allowed = Allowed::one_of({8, 16, 32}),
                          .default_value = always(16)},
                         {.name = "GEMM_TN",
                          .meaning = "outputs of a thread",
                          .allowed = Allowed::one_of({1, 2, 4, 8}),
                          .default_value = always(4)}},
          .dtypes = {f32, f16},
          .launch = [](const Problem& problem, const Parameters& p) {
            const auto& gemm = std::get<GemmProblem>(problem);
            const int TILE = integer(p, "GEMM_TILE"), TN = integer(p, "GEMM_TN");
            return LaunchShape{.grid = {(gemm.N + TILE - 1) / TILE, (gemm.M + TILE - 1) / TILE, 1},
                               .block = {TILE / TN, TILE, 1}};
          }};
}

}  // namespace

int main(int argc, char** argv) try {
  const tilec::Engine engine(tilec::Device::named(argc > 1 ? argv[1] : "cuda"));
  engine.register_template(strip_gemm());

  const tilec::GemmProblem problem{.M = 65, .N = 33, .K = 17};
  const tilec::Gemm own = engine.plan(
      problem, {.template_name = "strip_gemm", .parameters = {{"GEMM_TILE", 32}, {"GEMM_TN", 8}}});
  const tilec::Gemm theirs = engine.plan(problem, {.template_name = "gemm_regn"});

  std::vector<float> values(65 * 33);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
  const tilec::DeviceBuffer<float> A(engine.device(),
                                     std::span<const float>(values).first(65 * 17));
  const tilec::DeviceBuffer<float> B(engine.device(),
                                     std::span<const float>(values).first(17 * 33));
  const tilec::DeviceBuffer<float> D(engine.device(), 65 * 33), E(engine.device(), 65 * 33);
  own.run(A.data(), B.data(), D.data());
  theirs.run(A.data(), B.data(), E.data());
  // Small integers: both sums are exact, whatever their order.
  const bool equal = D.to_host() == E.to_host();
  std::printf("strip_gemm and gemm_regn %s\n", equal ? "agree" : "differ");
  return equal ? 0 : 1;
} catch (const tilec::Error& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}

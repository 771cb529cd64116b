#include "tests/kernels/fixture_template.h"

namespace tilec::test {
namespace {

constexpr const char* kSource = R"cuda(// fixture: out = a + b, ROWS elements a thread.
#include "fixture/outer.h"
#include <cuda_fp16.h>

extern "C" __global__ void fixture(const tilec::AddArgs args) {
  const long long start = (blockIdx.x * 32ll + threadIdx.x) * ROWS;
  for (int i = 0; i < ROWS && start + i < args.n; ++i) {
    static_cast<T*>(args.out)[start + i] =
        T(SUM(static_cast<const T*>(args.a)[start + i]) + SUM(static_cast<const T*>(args.b)[start + i]));
  }
}
)cuda";

}  // namespace

KernelTemplate fixture_template() {
  return {
      .name = "fixture",
      .operation = Operation::add,
      .source = kSource,
      .parameters = {{"ROWS", "elements of one thread", Allowed::range(1, 64), always(4), {1, 4}},
                     {"SUM",
                      "type of the sums",
                      Allowed::one_of({f32, f64}),
                      [](DType T, const Parameters& before) {
                        return Value(T == f64 || integer(before, "ROWS") > 8 ? f64 : f32);
                      },
                      {f32, f64}},
                     {"MODE", "nothing", Allowed::one_of({1, 2, 7}), always(7), {1, 2, 7}}},
      .dtypes = {f32, f64},
      .least_sm = 80,
      .headers = {{"fixture/outer.h", "#pragma once\n#include \"fixture/inner.h\"\n"},
                  {"fixture/inner.h",
                   "#pragma once\nnamespace tilec { struct AddArgs { const void *a, *b; void* "
                   "out; long long n; }; }\n"},
                  {"fixture/unused.h", "#error never included\n"},
                  {"tilec/numeric.h", "// the fixture's own\n"}},
      .options = {"-DFIXTURE=1"},
      .why_not = [](DType T, const Parameters& p, const Target& target) -> std::string {
        if (T == f64 && p.at("SUM").dtype() == f32) return "SUM = f32 is narrower than T";
        if (target.sm() < 90 && integer(p, "ROWS") > 32) return "ROWS is over 32";
        return {};
      },
      .launch = [](const Problem& problem, const Parameters& p) -> LaunchShape {
        const std::int64_t block = 32 * integer(p, "ROWS");
        const std::int64_t n = std::get<AddProblem>(problem).shape.elements();
        return {.grid = {(n + block - 1) / block, 1, 1}, .block = {32, 1, 1}};
      }};
}

}  // namespace tilec::test

// The shortest program: plan a GEMM, run it, read the result.
//   example_first_gemm            on the first CUDA device
//   example_first_gemm host       on the CPU
#include <cstdio>
#include <span>
#include <vector>

#include "tilec/buffer.h"
#include "tilec/engine.h"

int main(int argc, char** argv) try {
  const tilec::Engine engine(tilec::Device::named(argc > 1 ? argv[1] : "cuda"));
  const int M = 3, N = 2, K = 4;
  const std::vector<float> ones(static_cast<std::size_t>(M * K), 1.0f);
  const tilec::DeviceBuffer<float> A(engine.device(), std::span(ones));
  const tilec::DeviceBuffer<float> B(engine.device(), std::span(ones).first(K * N));
  const tilec::DeviceBuffer<float> C(engine.device(), M * N);

  const tilec::Gemm gemm = engine.plan(M, N, K);
  gemm.run(A.data(), B.data(), C.data());

  for (const float value : C.to_host()) {
    if (value != static_cast<float>(K)) return std::puts("wrong"), 1;
  }
  const tilec::LaunchInfo launch = gemm.info().launches.front();
  std::printf("%s %s on %s: every element is %d\n", launch.template_name.c_str(),
              describe(launch.parameters).c_str(), engine.device().name().c_str(), K);
} catch (const tilec::Error& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}

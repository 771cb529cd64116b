// A program that carries its kernels: compiled when it was built (tilec_embed_kernels in the
// CMakeLists beside this), served from its own memory. It needs no NVRTC, no compiler and no cache
// folder.
//   example_embedded_kernels [cuda | host]
#include "example_embedded_kernels_kernels.h"

#include <cstdio>

#include "tilec/engine.h"

int main(int argc, char** argv) try {
  tilec::Options options;  // not from_env(): no cache folder at all
  options.cache_policy = tilec::CachePolicy::must_hit;
  options.bundles.push_back(example_embedded_kernels_kernels());
  const tilec::Engine engine(tilec::Device::named(argc > 1 ? argv[1] : "cuda"), options);

  for (const std::int64_t M : {1, 64}) {
    for (const tilec::DType type : {tilec::f32, tilec::f16}) {
      const tilec::Gemm gemm =
          engine.plan(tilec::GemmProblem{.M = M, .N = 128, .K = 96, .a = type});
      std::printf("%s: kernel %s from the program itself\n", gemm.info().problem.c_str(),
                  gemm.key().c_str());
    }
  }
  engine.plan(tilec::AddProblem{.shape = {4096}});
  return engine.stats().compiles == 0 ? 0 : 1;
} catch (const tilec::Error& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}

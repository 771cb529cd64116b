// The round trip of a deployment, in one program. Where you develop, record what the program plans;
// build those kernels for every target of the fleet; in production require that they are there.
//
//   TILEC_RECORD=app.jsonl example_record_build_require host      # 1. record
//   tilec build app.jsonl --device host                           # 2. build (--arch sm_80,sm_90 …)
//   TILEC_CACHE_POLICY=must_hit example_record_build_require host # 3. require
//
// Step 3 compiles nothing: a kernel that is missing is an error that says what differs.
#include <cstdio>

#include "tilec/engine.h"

int main(int argc, char** argv) try {
  const tilec::Engine engine(tilec::Device::named(argc > 1 ? argv[1] : "cuda"));
  for (const std::int64_t tokens : {1, 16, 128}) {
    const tilec::Gemm gemm =
        engine.plan(tilec::GemmProblem{.M = tokens, .N = 256, .K = 64, .a = tilec::f16});
    std::printf("%s: kernel %s from %s\n", gemm.info().problem.c_str(), gemm.key().c_str(),
                std::string(to_string(gemm.origin())).c_str());
  }
  const tilec::Stats stats = engine.stats();
  std::printf("compiled %llu kernels\n", static_cast<unsigned long long>(stats.compiles));
} catch (const tilec::Error& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}

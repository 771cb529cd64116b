// An engine on the made-up driver that needs no compiler: it finds all it plans in its cache.
#pragma once

#include "support.h"
#include "tests/support/fake_cuda.h"

namespace tilec::test {

inline Options no_compiler(const fs::path& cache_dir) {
  Options options;
  options.cache_dir = cache_dir;
  options.cache_sync = false;
  options.nvrtc.library = "/nowhere/libnvrtc.so";
  return options;
}

// An engine that finds all it plans in its cache, and a logger that keeps its warnings.
struct Stocked {
  explicit Stocked(Options options = {}) : engine(Device::cuda(0), with_cache(options)) {}

  Gemm plan(const GemmProblem& problem, const PlanOptions& options = {},
            const MadeUp& made_up = {}) const {
    publish_made_up(engine, problem, options, made_up);
    return engine.plan(problem, options);
  }
  Add plan(const AddProblem& problem, const PlanOptions& options = {},
           const MadeUp& made_up = {}) const {
    publish_made_up(engine, problem, options, made_up);
    return engine.plan(problem, options);
  }

  TemporaryFolder folder;
  Messages messages;
  Engine engine;

 private:
  Options with_cache(Options options) const {
    const Options quick = no_compiler(folder / "cache");
    options.cache_dir = quick.cache_dir;
    options.cache_sync = quick.cache_sync;
    if (options.nvrtc.library.empty()) options.nvrtc = quick.nvrtc;
    options.logger = messages.logger();
    return options;
  }
};

// Addresses that nothing reads: the made-up kernels do nothing.
inline void* at(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}
constexpr std::uintptr_t kA = 0x10000000, kB = 0x20000000, kC = 0x30000000, kD = 0x40000000;

inline GemmArguments whole() {
  return {.a = at(kA), .b = at(kB), .c = at(kC), .d = at(kD)};
}

}  // namespace tilec::test

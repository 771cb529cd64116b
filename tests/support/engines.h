// The engines that tests run on. Their cache is the test run's own, so that programs share what
// they compile.
#pragma once

#include <string>
#include <vector>

#include "tilec/engine.h"

namespace tilec::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

struct NamedEngine {
  std::string name;  // "host, reversed"
  Engine engine;
};

// The options of the environment, without waiting for the disk.
Options test_options();

// An engine on a host device for each scheduling order.
std::vector<NamedEngine> host_engines(const Options& options = test_options());

// One on the first CUDA device, or none where there is no driver or no device; `why` tells then.
struct GpuEngines {
  std::vector<NamedEngine> engines;
  std::string why;
};
GpuEngines gpu_engines(const Options& options = test_options());

}  // namespace tilec::test

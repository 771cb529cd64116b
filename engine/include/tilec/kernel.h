// What a plan tells of itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilec/kernel_template.h"

namespace tilec {

enum class Origin : std::uint8_t {
  memory,    // this engine had planned it before
  disk,      // the cache, or one of its read-only roots or bundles
  compiler,  // compiled for this plan
};
std::string_view to_string(Origin origin);

// One kernel launch of a plan.
struct LaunchInfo {
  std::string template_name;
  Parameters parameters;  // complete
  std::string entry;      // the kernel's symbol
  LaunchShape shape;
  int registers = 0;            // a thread; 0 on the host device
  int static_shared_bytes = 0;  // beside shape.shared_bytes
  int spill_bytes = 0;          // local memory of a thread
  double occupancy = 0;         // resident threads of an SM over its most; 0 on the host device
  std::string key;              // 32 hexadecimal digits
  std::string builder;          // the compiler that made it, "nvrtc-13.0.88"
  std::string target;           // "sm_90a"
  double compile_seconds = 0;   // when it was compiled, perhaps long ago
  std::string not_kept;  // a clause: why the cache did not take it when this engine compiled it
};

struct PlanInfo {
  std::string problem;               // "gemm 128x64x32 f16"
  Origin origin = Origin::memory;    // the slowest of its kernels' origins
  std::string origin_path;           // the cache entry's file, for Origin::disk
  std::vector<LaunchInfo> launches;  // in order
  std::size_t workspace_bytes = 0;
};

}  // namespace tilec

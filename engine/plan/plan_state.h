// What a plan holds. Immutable once made; shared by all copies of the plan.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device/backend.h"
#include "plan/kernel_table.h"

namespace tilec {

struct PlannedLaunch {
  std::shared_ptr<const Kernel> kernel;
  LaunchShape shape;
  LaunchInfo info;
};

struct PlanState {
  Problem problem;  // normalized
  std::shared_ptr<DeviceBackend> backend;
  std::vector<PlannedLaunch> launches;  // in order
  std::size_t workspace_bytes = 0;
  DType scalar = f32;  // of alpha and beta
};

// On the way of run(): each launch with the same argument struct.
inline void launch_all(const PlanState& state, const void* arguments, Stream stream) {
  for (const PlannedLaunch& launch : state.launches) {
    const auto& [x, y, z] = launch.shape.grid;
    if (x == 0 || y == 0 || z == 0) continue;  // nothing to launch
    state.backend->launch(*launch.kernel->loaded, launch.shape, arguments, stream);
  }
}

// Throws Error{unsupported} for the plan of an offline device.
void expect_runnable(const PlanState& state);
PlanInfo plan_info(const PlanState& state, Origin origin);

}  // namespace tilec

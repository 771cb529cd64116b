// What a plan holds. Immutable once made; shared by all copies of the plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/backend.h"
#include "plan/kernel_table.h"

namespace tilec {

// What is known of one launch; `run` does not come here.
struct PlannedLaunch {
  std::shared_ptr<const Kernel> kernel;
  LaunchShape shape;
  LaunchInfo info;
};

// What `run` needs of one launch.
struct ReadyLaunch {
  const LoadedKernel* kernel = nullptr;  // held by PlannedLaunch::kernel
  LaunchShape shape;
};

// A driver's launch leaves little of ours in the processor's caches, so that run() pays for every
// line it touches: what it reads stands together, and first.
struct alignas(64) PlanState {
  static constexpr std::size_t kMostLaunches = 3;  // repack, multiply, reduce

  const DeviceBackend* device = nullptr;
  int launch_count = 0;                             // with a grid that is not empty
  bool runnable = false;                            // false: of an offline device
  DType scalar = f32;                               // of alpha and beta
  std::uint8_t size_a = 0, size_b = 0, size_d = 0;  // bytes of an element
  Problem problem;                                  // normalized
  std::array<ReadyLaunch, kMostLaunches> ready;

  std::size_t workspace_bytes = 0;
  std::shared_ptr<DeviceBackend> backend;
  std::vector<PlannedLaunch> launches;  // in order
};

// Appends a launch. Not once the plan is shared.
void add_launch(PlanState& state, PlannedLaunch launch);

// On the way of run(): each launch with the same argument struct.
inline void launch_all(const PlanState& state, const void* arguments, Stream stream) {
  for (int i = 0; i < state.launch_count; ++i) {
    const ReadyLaunch& launch = state.ready[static_cast<std::size_t>(i)];
    state.device->launch(*launch.kernel, launch.shape, arguments, stream);
  }
}

// Throws Error{unsupported} for the plan of an offline device.
[[noreturn]] void refuse_to_run(const PlanState& state);
inline void expect_runnable(const PlanState& state) {
  if (!state.runnable) [[unlikely]]
    refuse_to_run(state);
}

PlanInfo plan_info(const PlanState& state, Origin origin);

}  // namespace tilec

// What a plan tells of itself, for every operation alike.
#include "plan/plan_state.h"

#include <spdlog/fmt/fmt.h>

namespace tilec {

void add_launch(PlanState& state, PlannedLaunch launch) {
  const auto& [x, y, z] = launch.shape.grid;
  if (x > 0 && y > 0 && z > 0) {
    const auto next = static_cast<std::size_t>(state.launch_count++);
    state.ready.at(next) = {launch.kernel->loaded.get(), launch.shape};
  }
  state.launches.push_back(std::move(launch));
}

void refuse_to_run(const PlanState& state) {
  throw Error(ErrorKind::unsupported,
              fmt::format("this plan was made for {}, which is a target and no device; plan with "
                          "Device::cuda(i) or Device::host() to run",
                          state.backend->name()));
}

PlanInfo plan_info(const PlanState& state, Origin origin) {
  PlanInfo info{.problem = describe(state.problem),
                .origin = origin,
                .origin_path = {},
                .launches = {},
                .workspace_bytes = state.workspace_bytes};
  for (const PlannedLaunch& launch : state.launches) {
    info.launches.push_back(launch.info);
    if (origin == Origin::disk) info.origin_path = launch.kernel->origin_path;
  }
  return info;
}

}  // namespace tilec

// Engines without a device that plan one small Add: what the tests of obtaining kernels share.
#pragma once

#include "support.h"

namespace tilec::test {

inline const AddProblem kProblem{.shape = {100}};

inline PlanOptions small(int number = 1, const std::string& name = "small_add") {
  return {.template_name = name, .parameters = {{"NUMBER", number}}};
}

inline Engine engine_for(const char* target, const Options& options,
                         const KernelTemplate& kernel = small_add()) {
  Engine engine(offline(target), options);
  engine.register_template(kernel);
  return engine;
}

inline Options with(Options options, CachePolicy policy) {
  options.cache_policy = policy;
  return options;
}

inline Options without_nvrtc(Options options) {
  options.nvrtc.library = "/nowhere/libnvrtc.so";
  return options;
}

inline const LaunchInfo& launch_of(const PlanInfo& info) {
  return info.launches.at(0);
}

}  // namespace tilec::test

#include "tests/support/engines.h"

namespace tilec::test {

Options test_options() {
  Options options = Options::from_env();
  options.cache_sync = false;
  return options;
}

std::vector<NamedEngine> host_engines(const Options& options) {
  const std::vector<std::pair<std::string, HostOptions>> orders = {
      {"in order", {.order = HostOrder::in_order}},
      {"reversed", {.order = HostOrder::reversed}},
      {"random", {.order = HostOrder::random, .seed = 20}},
      {"warp-greedy", {.order = HostOrder::warp_greedy}},
  };
  std::vector<NamedEngine> engines;
  for (const auto& [order, host] : orders) {
    engines.push_back({"host, " + order, Engine(Device::host(host), options)});
  }
  return engines;
}

GpuEngines gpu_engines(const Options& options) {
  GpuEngines gpu;
  try {
    gpu.engines.push_back({"GPU", Engine(Device::first_cuda(), options)});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::driver) throw;
    gpu.why = error.what();
  }
  return gpu;
}

}  // namespace tilec::test

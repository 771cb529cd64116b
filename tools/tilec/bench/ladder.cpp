// The lesson as figures: naive → shared tile → register tile, TILE × TN, for float at 2048³; and
// the adds, TILE × W, at three sizes.
#include <spdlog/fmt/fmt.h>

#include "bench/contestants.h"
#include "bench/sections.h"
#include "tilec/engine.h"

namespace tilec::bench {
namespace {

Json row(const LaunchInfo& launch, double seconds) {
  Json parameters = Json::object();
  for (const auto& [name, value] : launch.parameters) {
    if (!value.is_dtype()) parameters[name] = value.integer();
  }
  return {{"template", launch.template_name}, {"parameters", parameters},
          {"registers", launch.registers},    {"shared_bytes", launch.shape.shared_bytes},
          {"occupancy", launch.occupancy},    {"us", seconds * 1e6}};
}

std::vector<PlanOptions> gemm_rungs() {
  std::vector<PlanOptions> rungs{{.template_name = "gemm_naive"}};
  for (int TILE : {8, 16, 24, 32, 48, 64}) {
    for (int TN : {1, 2, 4, 8, 16}) {
      if (TILE % TN != 0 || TILE / TN * TILE > 1024) continue;
      for (int PAD : TN == 1 || TILE == 32 ? std::vector{0, 1} : std::vector{1}) {
        rungs.push_back({.template_name = "gemm_regn",
                         .parameters = {{"TILE", TILE}, {"TN", TN}, {"PAD", PAD}}});
      }
    }
  }
  return rungs;
}

Json gemm_ladder(const Settings& settings, const Cuda& cuda, const Engine& engine) {
  constexpr std::int64_t kSize = 2048;
  const Operands operands(engine.device(), f32, kSize * kSize, kSize * kSize, kSize * kSize);
  std::vector<Gemm> plans;
  std::vector<Contestant> contestants;
  for (const PlanOptions& rung : gemm_rungs()) {
    plans.push_back(engine.plan(GemmProblem{.M = kSize, .N = kSize, .K = kSize}, rung));
    contestants.push_back(gemm_contestant(cuda, rung.template_name, plans.back(), operands));
  }
  const auto times = interleave(contestants, settings.rounds, 2);
  Json rows = Json::array();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const LaunchInfo launch = plans[i].info().launches.front();
    rows.push_back(row(launch, times[i].median));
    rows.back()["tflops"] = 2.0 * kSize * kSize * kSize / times[i].median / 1e12;
    if (!settings.quiet) {
      command::print_text(fmt::format(
          "  {:11} {:42} {:4} registers {:6} B shared {:4.0f}% {:6.2f} TFLOP/s\n",
          launch.template_name, describe(launch.parameters), launch.registers,
          launch.shape.shared_bytes, launch.occupancy * 100, rows.back()["tflops"].get<double>()));
    }
  }
  return rows;
}

std::vector<PlanOptions> add_rungs() {
  std::vector<PlanOptions> rungs;
  for (int TILE : {1, 4, 8, 16, 32, 64, 128}) {
    for (int W : {1, 2, 4}) {
      if (TILE % W != 0) continue;
      rungs.push_back({.template_name = "add_tiled", .parameters = {{"TILE", TILE}, {"W", W}}});
    }
  }
  for (int W : {1, 4})
    rungs.push_back({.template_name = "add_elementwise", .parameters = {{"W", W}}});
  for (int UNROLL : {1, 2, 4, 8}) {
    rungs.push_back({.template_name = "add_block_tiled", .parameters = {{"UNROLL", UNROLL}}});
  }
  return rungs;
}

Json add_ladder(const Settings& settings, const Cuda& cuda, const Engine& engine,
                std::int64_t elements) {
  const Operands operands(engine.device(), f32, elements, elements, elements);
  std::vector<Add> plans;
  std::vector<Contestant> contestants;
  for (const PlanOptions& rung : add_rungs()) {
    plans.push_back(engine.plan(AddProblem{.shape = {elements}}, rung));
    contestants.push_back(add_contestant(cuda, rung.template_name, plans.back(), operands));
  }
  const auto times = interleave(contestants, settings.rounds, 2);
  Json rows = Json::array();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const LaunchInfo launch = plans[i].info().launches.front();
    rows.push_back(row(launch, times[i].median));
    rows.back()["elements"] = elements;
    rows.back()["gb_s"] = 12.0 * static_cast<double>(elements) / times[i].median / 1e9;
    if (!settings.quiet) {
      command::print_text(fmt::format("  {:15} {:26} n = {:<10} {:9.2f} µs {:8.1f} GB/s\n",
                                      launch.template_name, describe(launch.parameters), elements,
                                      times[i].median * 1e6, rows.back()["gb_s"].get<double>()));
    }
  }
  return rows;
}

}  // namespace

Json bench_ladder(const Settings& settings) {
  const Cuda cuda;
  const Engine engine(Device::first_cuda(), settings.options);
  Json adds = Json::array();
  const Json gemms = gemm_ladder(settings, cuda, engine);
  for (int log2 : {10, 20, 28}) {
    for (Json& one : add_ladder(settings, cuda, engine, std::int64_t{1} << log2)) {
      adds.push_back(std::move(one));
    }
  }
  return {{"device", engine.device().name()}, {"gemm", gemms}, {"add", adds}};
}

}  // namespace tilec::bench

// The three adds at 2^28 floats, the tiled one with steps of one element and of four.
#include <spdlog/fmt/fmt.h>

#include "bench/contestants.h"
#include "bench/sections.h"
#include "tilec/engine.h"

namespace tilec::bench {

Json bench_add(const Settings& settings) {
  constexpr std::int64_t kElements = std::int64_t{1} << 28;
  struct Entry {
    const char* template_name;
    Parameters parameters;
  };
  const std::vector<Entry> entries{{"add_tiled", {{"TILE", 32}, {"W", 1}}},
                                   {"add_tiled", {{"TILE", 32}, {"W", 4}}},
                                   {"add_elementwise", {{"W", 1}}},
                                   {"add_elementwise", {{"W", 4}}},
                                   {"add_block_tiled", {}}};
  const Cuda cuda;
  const Engine engine(Device::first_cuda(), settings.options);
  const Operands operands(engine.device(), f32, kElements, kElements, kElements);
  std::vector<Contestant> contestants;
  std::vector<Add> plans;
  for (const Entry& entry : entries) {
    plans.push_back(
        engine.plan(AddProblem{.shape = {kElements}},
                    {.template_name = entry.template_name, .parameters = entry.parameters}));
    contestants.push_back(add_contestant(cuda, entry.template_name, plans.back(), operands));
  }
  const auto times = interleave(contestants, settings.rounds, 3);
  Json figures = Json::array();
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double tb_s = 3.0 * 4 * kElements / times[i].median / 1e12;
    const std::string parameters = describe(plans[i].info().launches.front().parameters);
    figures.push_back({{"template", contestants[i].name},
                       {"parameters", parameters},
                       {"elements", kElements},
                       {"tb_s", tb_s},
                       {"us", times[i].median * 1e6}});
    if (!settings.quiet) {
      command::print_text(
          fmt::format("  {:16} {:28} {:6.3f} TB/s\n", contestants[i].name, parameters, tb_s));
    }
  }
  return figures;
}

}  // namespace tilec::bench

// `tilec bench`: the figures that tilec is held to, on the first CUDA device.
#include <CLI/CLI.hpp>
#include <map>

#include "bench/sections.h"
#include "command.h"
#include "tilec/device.h"

namespace tilec::command {
namespace {

using Section = Json (*)(const bench::Settings&);
const std::vector<std::pair<std::string, Section>> kSections{{"nvcc", bench::bench_nvcc},
                                                             {"add", bench::bench_add},
                                                             {"plan", bench::bench_plan},
                                                             {"launch", bench::bench_launch},
                                                             {"ladder", bench::bench_ladder}};

struct Flags {
  std::vector<std::string> sections;
  std::string probe;
  std::string nvcc = "nvcc";
  int rounds = 15;
};

int run(const GlobalFlags& global, const Flags& flags) {
  const bench::Settings settings{.options = global.options(),
                                 .rounds = flags.rounds,
                                 .nvcc = flags.nvcc,
                                 .quiet = global.json};
  if (!flags.probe.empty()) {
    print_json(bench::probe_disk_hit(settings));
    return kExitOk;
  }
  Json all{{"device", Device::first_cuda().name()}};
  for (const auto& [name, section] : kSections) {
    const bool named =
        std::find(flags.sections.begin(), flags.sections.end(), name) != flags.sections.end();
    // The ladder takes longest and is asked for by name.
    if (!named && !(flags.sections.empty() && name != "ladder")) continue;
    if (!global.json) print_text(name + "\n");
    all[name] = section(settings);
  }
  if (global.json) print_json(all);
  return kExitOk;
}

}  // namespace

void register_bench(CLI::App& root, Invocation& invocation) {
  CLI::App* bench = root.add_subcommand(
      "bench", "Measure on the first CUDA device: ratios of interleaved medians, in one run");
  auto flags = std::make_shared<Flags>();
  std::vector<std::string> names;
  for (const auto& section : kSections) names.push_back(section.first);
  bench
      ->add_option(
          "section", flags->sections,
          "nvcc: gemm_regn against nvcc. add: the adds at 2^28 floats. plan: cold, from disk, "
          "warm. launch: run() against a bare launch. ladder: every rung of the tiling "
          "lesson. Without: all but ladder")
      ->check(CLI::IsMember(names));
  bench->add_option("--rounds", flags->rounds, "interleaved measurements of each contestant")
      ->check(CLI::Range(3, 1000))
      ->capture_default_str();
  bench->add_option("--nvcc", flags->nvcc, "the compiler to compare with")->capture_default_str();
  bench->add_option("--probe", flags->probe)->check(CLI::IsMember({"disk-hit"}))->group("");
  bench->callback([&invocation, flags] {
    invocation.run = [flags](const GlobalFlags& global) { return run(global, *flags); };
  });
}

}  // namespace tilec::command

// What `plan` costs: cold against NVRTC alone, from the disk, and warm.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "bench/contestants.h"
#include "bench/nvrtc_alone.h"
#include "bench/sections.h"
#include "tilec/engine.h"

namespace tilec::bench {
namespace {

namespace fs = std::filesystem;

const GemmProblem kProblem{.M = 512, .N = 512, .K = 512};
const PlanOptions kChoice{.template_name = "gemm_regn", .parameters = {{"TILE", 32}, {"TN", 4}}};

Json cold(const Settings& settings, const fs::path& cache) {
  Options options = settings.options;
  options.cache_dir = cache;
  const Device device = Device::first_cuda();
  const auto plan = [&] {
    fs::remove_all(cache);
    const Engine engine(device, options);
    const double seconds = seconds_each(1, [&] { engine.plan(kProblem, kChoice); });
    engine.trim();
    return seconds;
  };
  const Engine engine(device, options);
  const Source source = engine.source(kProblem, kChoice);
  const NvrtcAlone nvrtc(options.nvrtc);
  const std::string target = device.target().plain().name();
  const auto alone = [&] { return seconds_each(1, [&] { nvrtc.compile(source, target); }); };
  const auto times = interleave({{"plan", plan}, {"nvrtc", alone}}, settings.rounds, 2);
  return {{"plan_ms", times[0].median * 1e3},
          {"nvrtc_ms", times[1].median * 1e3},
          {"ratio", times[0].median / times[1].median},
          {"goal", 1.1},
          {"floor", 1.15}};
}

// A fresh process each time: nothing of the kernel is loaded yet.
Json from_disk(const Settings& settings, const fs::path& cache) {
  std::vector<double> plans, engines;
  bool nvrtc_opened = false;
  for (int i = 0; i < settings.rounds; ++i) {
    const std::string command =
        fmt::format("'{}' --json --cache-dir '{}' bench --probe disk-hit",
                    fs::read_symlink("/proc/self/exe").string(), cache.string());
    FILE* pipe = popen(command.c_str(), "r");
    std::string output;
    for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;)
      output += static_cast<char>(c);
    if (pipe == nullptr || pclose(pipe) != 0) throw command::Failure("failed: " + command);
    const Json probe = Json::parse(output);
    if (i == 0) continue;  // builds the entry
    if (probe["origin"] != "disk") throw command::Failure("not a disk hit: " + output);
    plans.push_back(probe["plan_us"].get<double>());
    engines.push_back(probe["engine_us"].get<double>());
    nvrtc_opened = nvrtc_opened || probe["nvrtc_opened"].get<bool>();
  }
  const Spread plan = spread(plans);
  return {{"plan_us", plan.median},
          {"least_us", plan.least},
          {"most_us", plan.most},
          {"engine_us", spread(engines).median},
          {"nvrtc_opened", nvrtc_opened},
          {"goal_us", 300},
          {"floor_us", 1000}};
}

Json warm(const Settings& settings) {
  const Engine engine(Device::first_cuda(), settings.options);
  engine.plan(512, 512, 512);
  const auto plan = [&] { return seconds_each(100000, [&] { engine.plan(512, 512, 512); }); };
  const auto times = interleave({{"plan", plan}}, settings.rounds, 2);
  return {{"plan_ns", times[0].median * 1e9}, {"goal_ns", 200}, {"floor_ns", 1000}};
}

bool nvrtc_is_open() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("libnvrtc") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Json probe_disk_hit(const Settings& settings) {
  const Cuda cuda;  // the context is up
  cuda.synchronize();
  const auto start = std::chrono::steady_clock::now();
  const Engine engine(Device::first_cuda(), settings.options);
  const std::chrono::duration<double> engine_time = std::chrono::steady_clock::now() - start;
  std::string origin;
  const double seconds =
      seconds_each(1, [&] { origin = to_string(engine.plan(kProblem, kChoice).origin()); });
  return {{"origin", origin},
          {"plan_us", seconds * 1e6},
          {"engine_us", engine_time.count() * 1e6},
          {"nvrtc_opened", nvrtc_is_open()}};
}

Json bench_plan(const Settings& settings) {
  const fs::path cache = fs::temp_directory_path() / fmt::format("tilec-bench-cache-{}", getpid());
  const Json figures{{"cold", cold(settings, cache)},
                     {"disk", from_disk(settings, cache)},
                     {"warm", warm(settings)}};
  fs::remove_all(cache);
  if (!settings.quiet) {
    const Json &c = figures["cold"], &d = figures["disk"], &w = figures["warm"];
    command::print_text(fmt::format(
        "  cold   {:8.1f} ms, NVRTC alone {:.1f} ms, ratio {:.3f}  (goal 1.1, floor 1.15)\n"
        "  disk   {:8.0f} µs [{:.0f} to {:.0f}], NVRTC {}  (goal 300 µs, floor 1 ms); Engine() "
        "{:.0f} µs\n"
        "  warm   {:8.0f} ns  (goal 200 ns, floor 1 µs)\n",
        c["plan_ms"].get<double>(), c["nvrtc_ms"].get<double>(), c["ratio"].get<double>(),
        d["plan_us"].get<double>(), d["least_us"].get<double>(), d["most_us"].get<double>(),
        d["nvrtc_opened"].get<bool>() ? "OPENED" : "not opened", d["engine_us"].get<double>(),
        w["plan_ns"].get<double>()));
  }
  return figures;
}

}  // namespace tilec::bench

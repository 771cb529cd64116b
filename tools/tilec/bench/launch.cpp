// Host time of `run` against a bare launch of the same kernel with the same argument.
#include <spdlog/fmt/fmt.h>

#include <array>
#include <fstream>
#include <iterator>

#include "bench/contestants.h"
#include "bench/sections.h"
#include "tilec/add_args.h"
#include "tilec/engine.h"
#include "tilec/gemm_args.h"

namespace tilec::bench {
namespace {

constexpr int kCalls = 200;  // fewer than the driver queues before a launch waits

// The bytes that the engine loaded: its dump of them.
std::vector<std::byte> dumped_cubin(const Options& options, const std::string& key) {
  std::ifstream file(options.dump_dir / (key + ".cubin"), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) throw command::Failure("no cubin in " + options.dump_dir.string());
  const auto* start = reinterpret_cast<const std::byte*>(bytes.data());
  return {start, start + bytes.size()};
}

Json compare(const Settings& settings, const Cuda& cuda, const char* name,
             const std::function<void()>& run, const std::function<void()>& bare) {
  const auto timed = [&](const std::function<void()>& call) {
    return [&cuda, call] {
      const double seconds = seconds_each(kCalls, call);
      cuda.synchronize();
      return seconds;
    };
  };
  const auto times =
      interleave({{"run", timed(run)}, {"bare", timed(bare)}}, settings.rounds * 10, 20);
  Json figures{{"kernel", name},
               {"run_ns", times[0].median * 1e9},
               {"bare_ns", times[1].median * 1e9},
               {"difference_ns", (times[0].median - times[1].median) * 1e9},
               {"ratio", times[0].median / times[1].median}};
  if (!settings.quiet) {
    command::print_text(fmt::format(
        "  {:16} run {:7.0f} ns, bare launch {:7.0f} ns, ratio {:.3f}, difference {:4.0f} ns\n",
        name, figures["run_ns"].get<double>(), figures["bare_ns"].get<double>(),
        figures["ratio"].get<double>(), figures["difference_ns"].get<double>()));
  }
  return figures;
}

}  // namespace

Json bench_launch(const Settings& settings) {
  constexpr std::int64_t kElements = 1024, kSize = 32;
  Options options = settings.options;
  options.dump_dir = std::filesystem::temp_directory_path() / "tilec-bench-dump";
  const Cuda cuda;
  const Engine engine(Device::first_cuda(), options);
  const DeviceBuffer<float> a(engine.device(), kElements), b(engine.device(), kElements),
      out(engine.device(), kElements);

  const Add add = engine.plan(AddProblem{.shape = {kElements}});
  const LaunchInfo add_launch = add.info().launches.front();
  const CUfunction add_function = cuda.load(dumped_cubin(options, add.key()), add_launch.entry, 0);
  const Gemm gemm = engine.plan(kSize, kSize, kSize);
  const LaunchInfo gemm_launch = gemm.info().launches.front();
  const CUfunction gemm_function = cuda.load(dumped_cubin(options, gemm.key()), gemm_launch.entry,
                                             static_cast<int>(gemm_launch.shape.shared_bytes));
  AddArgs add_args{.a = a.data(), .b = b.data(), .out = out.data(), .n = kElements};
  GemmArgs gemm_args{.a = a.data(),
                     .b = b.data(),
                     .c = nullptr,
                     .d = out.data(),
                     .M = kSize,
                     .N = kSize,
                     .K = kSize,
                     .lda = kSize,
                     .ldb = kSize,
                     .ldc = kSize,
                     .ldd = kSize,
                     .alpha = {.f32 = 1},
                     .beta = {.f32 = 0}};

  Json figures = Json::array();
  figures.push_back(compare(
      settings, cuda, "add 1024", [&] { add.run(a.data(), b.data(), out.data(), cuda.stream()); },
      [&] { cuda.launch(add_function, add_launch.shape, &add_args); }));
  figures.push_back(compare(
      settings, cuda, "gemm 32x32x32",
      [&] { gemm.run(a.data(), b.data(), out.data(), cuda.stream()); },
      [&] { cuda.launch(gemm_function, gemm_launch.shape, &gemm_args); }));
  std::error_code ignored;
  std::filesystem::remove_all(options.dump_dir, ignored);
  return figures;
}

}  // namespace tilec::bench

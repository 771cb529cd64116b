// gemm_regn as the engine compiles it, against the same text compiled by nvcc.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "bench/contestants.h"
#include "bench/sections.h"
#include "tilec/engine.h"
#include "tilec/gemm_args.h"

namespace tilec::bench {
namespace {

namespace fs = std::filesystem;

// A folder that goes when this does.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "tilec-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw command::Failure("can't make " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

std::vector<std::byte> compile_with_nvcc(const std::string& nvcc, const Source& source,
                                         const std::string& target) {
  const TemporaryFolder folder;
  write(folder.path() / "kernel.cu", source.text);
  for (const Header& header : source.headers) write(folder.path() / header.name, header.text);
  const fs::path cubin = folder.path() / "kernel.cubin";
  const std::string command =
      fmt::format("'{}' -cubin -arch={} -std=c++20 -I'{}' -o '{}' '{}'", nvcc, target,
                  folder.path().string(), cubin.string(), (folder.path() / "kernel.cu").string());
  if (std::system(command.c_str()) != 0) {
    throw command::Failure("this comparison needs nvcc, and this failed: " + command +
                           "; name it with --nvcc");
  }
  std::ifstream file(cubin, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto* start = reinterpret_cast<const std::byte*>(bytes.data());
  return {start, start + bytes.size()};
}

}  // namespace

Json bench_nvcc(const Settings& settings) {
  constexpr std::int64_t kSize = 4096;
  const Cuda cuda;
  const Engine engine(Device::first_cuda(), settings.options);
  const GemmProblem problem{.M = kSize, .N = kSize, .K = kSize};
  const PlanOptions choice{.template_name = "gemm_regn", .parameters = {{"TILE", 32}, {"TN", 4}}};
  const Gemm gemm = engine.plan(problem, choice);
  const LaunchInfo launch = gemm.info().launches.front();
  const Operands operands(engine.device(), f32, kSize * kSize, kSize * kSize, kSize * kSize);

  const Source source = engine.source(problem, choice);
  const CUfunction theirs = cuda.load(compile_with_nvcc(settings.nvcc, source, launch.target),
                                      source.entry, static_cast<int>(launch.shape.shared_bytes));
  const auto bare = [&](int i) {
    GemmArgs args{.a = operands.a(i),
                  .b = operands.b(i),
                  .c = nullptr,
                  .d = operands.out(i),
                  .M = kSize,
                  .N = kSize,
                  .K = kSize,
                  .lda = kSize,
                  .ldb = kSize,
                  .ldc = kSize,
                  .ldd = kSize,
                  .alpha = {.f32 = 1},
                  .beta = {.f32 = 0}};
    cuda.launch(theirs, launch.shape, &args);
  };
  const auto times =
      interleave({gemm_contestant(cuda, "tilec", gemm, operands), replayed(cuda, "nvcc", bare)},
                 settings.rounds, 3);
  const double flops = 2.0 * kSize * kSize * kSize;
  Json figures{{"problem", "gemm 4096x4096x4096 f32, gemm_regn TILE=32 TN=4"},
               {"tilec_tflops", flops / times[0].median / 1e12},
               {"nvcc_tflops", flops / times[1].median / 1e12},
               {"ratio", times[1].median / times[0].median},
               {"bar", 0.98}};
  if (!settings.quiet) {
    command::print_text(
        fmt::format("{}\n  NVRTC, planned   {:6.2f} TFLOP/s\n  nvcc, bare       {:6.2f} TFLOP/s\n  "
                    "ratio            "
                    "{:6.3f}  (bar: 0.98)\n",
                    figures["problem"].get<std::string>(), figures["tilec_tflops"].get<double>(),
                    figures["nvcc_tflops"].get<double>(), figures["ratio"].get<double>()));
  }
  return figures;
}

}  // namespace tilec::bench

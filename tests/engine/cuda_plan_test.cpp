// Engines and plans on the CUDA device over a made-up driver, with kernels that no compiler made:
// what run() checks and hands to the driver, which image is loaded, what lives how long.
#include <cmath>
#include <cstring>
#include <thread>

#include "support.h"
#include "tests/support/fake_cuda.h"
#include "tilec/add_args.h"
#include "tilec/gemm_args.h"

namespace tilec::test {
namespace {

Options no_compiler(const fs::path& cache_dir) {
  Options options;
  options.cache_dir = cache_dir;
  options.cache_sync = false;
  options.nvrtc.library = "/nowhere/libnvrtc.so";
  return options;
}

// An engine that finds all it plans in its cache, and a logger that keeps its warnings.
struct Stocked {
  explicit Stocked(Options options = {}) : engine(Device::cuda(0), with_cache(options)) {}

  Gemm plan(const GemmProblem& problem, const PlanOptions& options = {},
            const MadeUp& made_up = {}) const {
    publish_made_up(engine, problem, options, made_up);
    return engine.plan(problem, options);
  }
  Add plan(const AddProblem& problem, const PlanOptions& options = {},
           const MadeUp& made_up = {}) const {
    publish_made_up(engine, problem, options, made_up);
    return engine.plan(problem, options);
  }

  TemporaryFolder folder;
  Messages messages;
  Engine engine;

 private:
  Options with_cache(Options options) const {
    const Options quick = no_compiler(folder / "cache");
    options.cache_dir = quick.cache_dir;
    options.cache_sync = quick.cache_sync;
    if (options.nvrtc.library.empty()) options.nvrtc = quick.nvrtc;
    options.logger = messages.logger();
    return options;
  }
};

template <class Args>
Args last_arguments() {
  Args args;
  const fake_cuda::Launch launch = fake_cuda::launches().back();
  REQUIRE(launch.arguments.size() == sizeof args);
  std::memcpy(&args, launch.arguments.data(), sizeof args);
  return args;
}

// Addresses that nothing reads: the made-up kernels do nothing.
void* at(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}
constexpr std::uintptr_t kA = 0x10000000, kB = 0x20000000, kC = 0x30000000, kD = 0x40000000;

GemmArguments whole() {
  return {.a = at(kA), .b = at(kB), .c = at(kC), .d = at(kD)};
}

TEST_SUITE("cpu tsan") {
  TEST_CASE("cuda plan: a GEMM hands the kernel its arguments and shape") {
    const Stocked stocked;
    const Gemm gemm =
        stocked.plan({.M = 100, .N = 70, .K = 50, .lda = 51, .ldb = 72, .ldc = 73, .ldd = 74},
                     {.template_name = "gemm_regn", .parameters = {{"TILE", 64}, {"TN", 8}}});
    fake_cuda::reset();
    fake_cuda::set_argument_bytes(sizeof(GemmArgs));
    const Stream stream = fake_cuda::create_stream(fake_cuda::primary(0));
    GemmArguments arguments = whole();
    arguments.alpha = 0.5f;
    arguments.beta = 2;
    gemm.run(arguments, stream);
    const GemmArgs args = last_arguments<GemmArgs>();
    CHECK(args.a == at(kA));
    CHECK(args.b == at(kB));
    CHECK(args.c == at(kC));
    CHECK(args.d == at(kD));
    CHECK(args.M == 100);
    CHECK(args.N == 70);
    CHECK(args.K == 50);
    CHECK(args.lda == 51);
    CHECK(args.ldb == 72);
    CHECK(args.ldc == 73);
    CHECK(args.ldd == 74);
    CHECK(args.alpha.f32 == 0.5f);
    CHECK(args.beta.f32 == 2.0f);
    const fake_cuda::Launch launch = fake_cuda::launches().back();
    CHECK(launch.kernel == "gemm_regn");
    CHECK(launch.stream == stream);
    CHECK(launch.grid == std::array<unsigned, 3>{2, 2, 1});
    CHECK(launch.block == std::array<unsigned, 3>{8, 64, 1});
    CHECK(launch.shared_bytes == 2 * 64 * 65 * 4);

    arguments.d = nullptr;  // in place
    gemm.run(arguments, stream);
    CHECK(last_arguments<GemmArgs>().d == at(kC));
    CHECK(last_arguments<GemmArgs>().ldd == 73);
  }

  TEST_CASE("cuda plan: alpha and beta in the accumulator's type") {
    const Stocked stocked;
    fake_cuda::set_argument_bytes(sizeof(GemmArgs));
    const auto planned = [&](DType type, const Parameters& parameters = {}) {
      return stocked.plan({.M = 8, .N = 8, .K = 8, .a = type},
                          {.template_name = "gemm_naive", .parameters = parameters});
    };
    GemmArguments arguments = whole();
    arguments.alpha = 0.1;
    planned(f64).run(arguments);
    CHECK(last_arguments<GemmArgs>().alpha.f64 == 0.1);
    arguments.alpha = -3;
    planned(s32).run(arguments);
    CHECK(last_arguments<GemmArgs>().alpha.s32 == -3);
    arguments.alpha = 0.1f;
    planned(f16).run(arguments);
    CHECK(last_arguments<GemmArgs>().alpha.f32 == 0.1f);
    planned(bf16, {{"ACC", bf16}}).run(arguments);
    CHECK(last_arguments<GemmArgs>().alpha.f32 == 0.1f);
    arguments.alpha = std::nanf("");
    planned(f32).run(arguments);
    CHECK(std::isnan(last_arguments<GemmArgs>().alpha.f32));
  }

  TEST_CASE("cuda plan: scalars that a plan can't hold are refused") {
    const Stocked stocked;
    const struct {
      DType type;
      Scalar scalar;
      std::vector<std::string> parts;
    } rows[] = {
        {f32, 0.1, {"0.1 (f64)", "f32", "pass a float"}}, {f16, 0.1, {"0.1 (f64)", "f32"}},
        {f32, (1 << 24) + 1, {"16777217 (s32)", "f32"}},  {s32, 0.5f, {"0.5 (f32)", "s32"}},
        {s32, 1e10, {"10000000000 (f64)", "s32"}},
    };
    for (const auto& row : rows) {
      const Gemm gemm = stocked.plan({.M = 4, .N = 4, .K = 4, .a = row.type});
      for (const bool alpha : {true, false}) {
        fake_cuda::reset();
        GemmArguments arguments = whole();
        (alpha ? arguments.alpha : arguments.beta) = row.scalar;
        if (alpha) arguments.beta = 0;
        const Error error = error_of([&] { gemm.run(arguments); });
        CHECK(error.kind() == ErrorKind::invalid_argument);
        CHECK(contains(error.what(), alpha ? "alpha = " : "beta = "));
        for (const std::string& part : row.parts)
          CHECK_MESSAGE(contains(error.what(), part), error.what());
        CHECK(fake_cuda::calls().empty());
      }
    }
  }

  TEST_CASE("cuda plan: pointers that a GEMM can't take") {
    const Stocked stocked;
    const Gemm gemm = stocked.plan({.M = 16, .N = 8, .K = 4});  // A 256, B 128, C and D 512 bytes
    struct Row {
      const char* what;
      GemmArguments arguments;
      std::vector<std::string> parts;  // of the error; none: it runs
    };
    std::vector<Row> rows;
    const auto add = [&](const char* what, auto change, std::vector<std::string> parts) {
      GemmArguments arguments = whole();
      change(arguments);
      rows.push_back({what, arguments, std::move(parts)});
    };
    using G = GemmArguments&;
    add("all there", [](G) {}, {});
    add("no A", [](G g) { g.a = nullptr; }, {"A is a null pointer"});
    add("no B", [](G g) { g.b = nullptr; }, {"B is a null pointer"});
    add("no C, and beta 0", [](G g) { g.c = nullptr; }, {});
    add("no C, and beta 1", [](G g) { g.c = nullptr, g.beta = 1; }, {"C", "beta", "null pointer"});
    add("no D", [](G g) { g.d = nullptr; }, {});
    add("neither", [](G g) { g.c = g.d = nullptr; }, {"D is a null pointer"});
    add("alpha 0 reads no A, B", [](G g) { g.a = g.b = nullptr, g.alpha = 0; }, {});
    add("odd A", [](G g) { g.a = at(kA + 2); }, {"A is not aligned", "f32", "4 bytes"});
    add("odd B", [](G g) { g.b = at(kB + 1); }, {"B is not aligned"});
    add("odd D", [](G g) { g.d = at(kD + 3); }, {"D is not aligned"});
    add("odd C unread", [](G g) { g.c = at(kC + 1); }, {});
    add("odd C read", [](G g) { g.c = at(kC + 1), g.beta = 1; }, {"C", "not aligned"});
    add("an element off is fine", [](G g) { g.a = at(kA + 4), g.b = at(kB + 4); }, {});
    add("D is A", [](G g) { g.d = at(kA); }, {"D and A share elements"});
    add("D meets A's end", [](G g) { g.d = at(kA + 252); }, {"D and A share elements"});
    add("D behind A", [](G g) { g.d = at(kA + 256); }, {});
    add("D before A", [](G g) { g.d = at(kA - 512); }, {});
    add("D's end meets B", [](G g) { g.d = at(kB - 508); }, {"D and B share elements"});
    add("D is B, unread", [](G g) { g.d = at(kB), g.alpha = 0; }, {});
    add("D is C", [](G g) { g.d = at(kC), g.beta = 1; }, {});
    add("D within C", [](G g) { g.d = at(kC + 4), g.beta = 1; }, {"D and C share elements"});
    add("D within C, unread", [](G g) { g.d = at(kC + 4); }, {});
    add("in place, C within A", [](G g) { g.d = nullptr, g.c = at(kA); }, {"share elements"});
    for (const Row& row : rows) {
      CAPTURE(std::string(row.what));
      fake_cuda::reset();
      if (row.parts.empty()) {
        gemm.run(row.arguments);
        CHECK(fake_cuda::launches().size() == 1);
        continue;
      }
      const Error error = error_of([&] { gemm.run(row.arguments); });
      CHECK(error.kind() == ErrorKind::invalid_argument);
      for (const std::string& part : row.parts) {
        CHECK_MESSAGE(contains(error.what(), part), error.what());
      }
      CHECK(fake_cuda::calls().empty());
    }
  }

  TEST_CASE("cuda plan: D that is C needs the same leading dimension") {
    const Stocked stocked;
    const Gemm gemm = stocked.plan({.M = 4, .N = 4, .K = 4, .ldc = 8, .ldd = 4});
    GemmArguments arguments = whole();
    arguments.d = arguments.c;
    arguments.beta = 1;
    const Error error = error_of([&] { gemm.run(arguments); });
    CHECK(contains(error.what(), "ldd = 4 and ldc = 8"));
    arguments.beta = 0;
    gemm.run(arguments);
    arguments.beta = 1;
    arguments.d = nullptr;  // then c's own counts
    gemm.run(arguments);
  }

  TEST_CASE("cuda plan: the blocks of one matrix multiply into each other, as in blocked LU") {
    const Stocked stocked;
    const std::int64_t n = 64, ld = 4 * n;  // A22 -= A21·A12
    const Gemm gemm =
        stocked.plan({.M = n, .N = n, .K = n, .lda = ld, .ldb = ld, .ldc = ld, .ldd = ld});
    const auto block = [&](std::int64_t i, std::int64_t j) {
      return at(kA + static_cast<std::uintptr_t>((i * n * ld + j * n) * 4));
    };
    fake_cuda::reset();
    for (int i = 1; i < 4; ++i) {
      for (int j = 1; j < 4; ++j) {
        gemm.run({.a = block(i, 0), .b = block(0, j), .c = block(i, j), .alpha = -1, .beta = 1});
      }
    }
    CHECK(fake_cuda::launches().size() == 9);
    error_of([&] { gemm.run({.a = block(1, 0), .b = block(0, 1), .c = block(1, 0), .beta = 1}); });
  }

  TEST_CASE("cuda plan: an Add's arguments") {
    const Stocked stocked;
    const Add add = stocked.plan({.shape = {10, 10}, .dtype = f64});
    fake_cuda::set_argument_bytes(sizeof(AddArgs));
    struct Row {
      const char* what;
      AddArguments arguments;
      std::vector<std::string> parts;
    };
    const Row rows[] = {
        {"apart", {at(kA), at(kB), at(kC)}, {}},
        {"in place of a", {at(kA), at(kB), at(kA)}, {}},
        {"in place of b", {at(kA), at(kB), at(kB)}, {}},
        {"all the same", {at(kA), at(kA), at(kA)}, {}},
        {"a and b may overlap", {at(kA), at(kA + 8), at(kC)}, {}},
        {"no a", {nullptr, at(kB), at(kC)}, {"a is a null pointer"}},
        {"no b", {at(kA), nullptr, at(kC)}, {"b is a null pointer"}},
        {"no out", {at(kA), at(kB), nullptr}, {"out is a null pointer"}},
        {"odd a", {at(kA + 4), at(kB), at(kC)}, {"a is not aligned", "f64", "8 bytes"}},
        {"odd out", {at(kA), at(kB), at(kC + 1)}, {"out is not aligned"}},
        {"within a", {at(kA), at(kB), at(kA + 8)}, {"out overlaps a in part"}},
        {"at b's end", {at(kA), at(kB), at(kB + 99 * 8)}, {"out overlaps b in part"}},
        {"behind b", {at(kA), at(kB), at(kB + 100 * 8)}, {}},
        {"before b", {at(kA), at(kB), at(kB - 100 * 8)}, {}},
        {"over b's start", {at(kA), at(kB), at(kB - 99 * 8)}, {"out overlaps b in part"}},
    };
    for (const Row& row : rows) {
      CAPTURE(std::string(row.what));
      fake_cuda::reset();
      if (row.parts.empty()) {
        add.run(row.arguments);
        const AddArgs args = last_arguments<AddArgs>();
        CHECK(args.a == row.arguments.a);
        CHECK(args.b == row.arguments.b);
        CHECK(args.out == row.arguments.out);
        CHECK(args.n == 100);
        continue;
      }
      const Error error = error_of([&] { add.run(row.arguments); });
      CHECK(error.kind() == ErrorKind::invalid_argument);
      for (const std::string& part : row.parts) {
        CHECK_MESSAGE(contains(error.what(), part), error.what());
      }
      CHECK(fake_cuda::calls().empty());
    }
  }

  TEST_CASE("cuda plan: typed pointers are checked against the plan") {
    const Stocked stocked;
    fake_cuda::reset();
    const Gemm halves = stocked.plan({.M = 4, .N = 4, .K = 4, .a = f16});
    const auto* f = static_cast<const float*>(at(kA));
    Error error = error_of([&] { halves.run(f, f, static_cast<float*>(at(kC))); });
    CHECK(error.kind() == ErrorKind::invalid_argument);
    CHECK(contains(error.what(), "pointers to f32 for a plan of f16"));
    const auto* h = static_cast<const float16*>(at(kA));
    halves.run(h, h, static_cast<float16*>(at(kC)));
    const Add ints = stocked.plan({.shape = {4}, .dtype = s32});
    error = error_of([&] { ints.run(f, f, static_cast<float*>(at(kC))); });
    CHECK(contains(error.what(), "pointers to f32 for a plan of s32"));
    const auto* i = static_cast<const std::int32_t*>(at(kA));
    ints.run(i, i, static_cast<std::int32_t*>(at(kC)));
    CHECK(fake_cuda::launches().size() == 2);
  }

  TEST_CASE("cuda plan: problems of no size are done at once, with null pointers") {
    const Stocked stocked;
    const GemmProblem problems[] = {
        {.M = 0, .N = 4, .K = 4}, {.M = 4, .N = 0, .K = 4}, {.M = 0, .N = 0, .K = 0}};
    fake_cuda::reset();
    for (const GemmProblem& problem : problems) {
      stocked.plan(problem).run({});
      stocked.plan(problem).run({.beta = 2});
    }
    stocked.plan(AddProblem{.shape = {0}}).run({});
    stocked.plan(AddProblem{.shape = {5, 0, 3}}).run({});
    CHECK(fake_cuda::launches().empty());
    // K = 0 is work: D = beta·C.
    stocked.plan({.M = 4, .N = 4, .K = 0}).run({.c = at(kC), .beta = 2});
    CHECK(fake_cuda::launches().size() == 1);
  }

  TEST_CASE("cuda plan: a grid with a zero is not launched") {
    const Stocked stocked;
    KernelTemplate kernel = small_add();
    kernel.launch = [](const Problem&, const Parameters&) {
      return LaunchShape{.grid = {0, 1, 1}};
    };
    stocked.engine.register_template(kernel);
    const Add add = stocked.plan(AddProblem{.shape = {8}}, {.template_name = "small_add"});
    fake_cuda::reset();
    add.run({at(kA), at(kB), at(kC)});
    CHECK(fake_cuda::launches().empty());
  }

  TEST_CASE("cuda plan: tall and wide problems stay within CUDA's grid") {
    const Stocked stocked;
    const std::int64_t most = std::int64_t{1} << 31;
    const Gemm tall = stocked.plan({.M = 5'000'000, .N = 1, .K = 1},
                                   {.template_name = "gemm_regn", .parameters = {{"TILE", 8}}});
    GemmArguments arguments = whole();
    arguments.d = at(kD + (std::uintptr_t{1} << 40));
    fake_cuda::reset();
    tall.run(arguments);
    const auto grid = fake_cuda::launches().back().grid;
    CHECK(std::uint64_t{grid[1]} * grid[2] * 8 >= 5'000'000);
    const auto unsupported = [&](const Problem& problem, const PlanOptions& options) {
      const Error error = error_of(
          [&] { std::visit([&](const auto& p) { stocked.engine.plan(p, options); }, problem); });
      CHECK(error.kind() == ErrorKind::unsupported);
      return std::string(error.what());
    };
    CHECK(contains(unsupported(GemmProblem{.M = 1, .N = most * 8, .K = 1},
                               {.template_name = "gemm_regn", .parameters = {{"TILE", 8}}}),
                   "2147483648×1×1 blocks"));
    CHECK(contains(
        unsupported(AddProblem{.shape = {most}},
                    {.template_name = "add_elementwise", .parameters = {{"W", 1}, {"BLOCK", 1}}}),
        "2147483648×1×1 blocks"));
  }

  TEST_CASE("cuda plan: launches that no device can make are refused when planned") {
    const Stocked stocked;
    const auto refused = [&](const LaunchShape& shape) {
      KernelTemplate kernel = small_add();
      kernel.launch = [shape](const Problem&, const Parameters&) { return shape; };
      stocked.engine.register_template(kernel);
      const Error error = error_of(
          [&] { stocked.engine.plan(AddProblem{.shape = {8}}, {.template_name = "small_add"}); });
      CHECK(error.kind() == ErrorKind::unsupported);
      return std::string(error.what());
    };
    CHECK(contains(refused({.block = {1025, 1, 1}}), "1025×1×1 threads"));
    CHECK(contains(refused({.block = {32, 33, 1}}), "32×33×1 threads"));
    CHECK(contains(refused({.block = {1, 1, 65}}), "1×1×65 threads"));
    CHECK(contains(refused({.block = {0, 1, 1}}), "0×1×1 threads"));
    const std::string shared = refused({.shared_bytes = 300000});
    CHECK(contains(shared, "300000 bytes of shared memory"));
    CHECK(contains(shared, "has 232448"));
  }

  TEST_CASE("cuda plan: what info() tells") {
    const Stocked stocked;
    const GemmProblem problem{.M = 100, .N = 70, .K = 50, .a = f16};
    const PlanOptions options{.template_name = "gemm_regn",
                              .parameters = {{"TILE", 32}, {"TN", 4}}};
    const Gemm gemm = stocked.plan(problem, options, {.builder = "nvrtc-99.1.0", .registers = 40});
    const PlanInfo info = gemm.info();
    CHECK(info.problem == "gemm 100x70x50 f16");
    CHECK(info.origin == Origin::disk);
    CHECK(gemm.origin() == Origin::disk);
    CHECK(contains(info.origin_path, stocked.folder.path().string()));
    CHECK(contains(info.origin_path, gemm.key() + ".nvrtc-99.1.0"));
    CHECK(info.workspace_bytes == 0);
    CHECK(gemm.workspace_bytes() == 0);
    CHECK(gemm.problem().ldd == 70);
    REQUIRE(info.launches.size() == 1);
    const LaunchInfo& launch = info.launches[0];
    CHECK(launch.template_name == "gemm_regn");
    CHECK(describe(launch.parameters) == "ACC=f32 PAD=1 TILE=32 TN=4 UNROLL_K=32");
    CHECK(launch.entry == "gemm_regn");
    CHECK(launch.shape.grid == std::array<std::int64_t, 3>{3, 4, 1});
    CHECK(launch.shape.block == std::array<int, 3>{8, 32, 1});
    CHECK(launch.shape.shared_bytes == 2 * 32 * 33 * 2);
    CHECK(launch.registers == 40);
    CHECK(launch.occupancy == 0.75);  // 6 blocks of 256 threads: 40 registers each
    CHECK(launch.key == gemm.key());
    CHECK(launch.key.size() == 32);
    CHECK(launch.builder == "nvrtc-99.1.0");
    CHECK(launch.target == "sm_90");

    const Gemm again = stocked.engine.plan(problem, options);
    CHECK(again.origin() == Origin::memory);
    CHECK(again.info().origin_path.empty());
    // Another shape, the same kernel: it is in memory.
    const Gemm other = stocked.engine.plan(GemmProblem{.M = 7, .N = 7, .K = 7, .a = f16}, options);
    CHECK(other.key() == gemm.key());
    CHECK(other.origin() == Origin::memory);
    const Stats stats = stocked.engine.stats();
    CHECK(stats.memory_hits == 2);
    CHECK(stats.hits.at("own") == 1);
    CHECK(stats.compiles == 0);
    CHECK(stats.bytes_read > 0);
  }

  TEST_CASE("cuda plan: plans outlive their engine, and serve any thread") {
    std::optional<Gemm> gemm;
    {
      const Stocked stocked;
      gemm = stocked.plan({.M = 8, .N = 8, .K = 8});
    }
    fake_cuda::reset();
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([copy = *gemm] {
        for (int run = 0; run < 50; ++run) copy.run(whole());
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(fake_cuda::launches().size() == 400);
    CHECK(gemm->info().launches.size() == 1);
  }

  TEST_CASE("cuda plan: a warm plan is the same plan, from any thread") {
    const Stocked stocked;
    publish_made_up(stocked.engine, GemmProblem{.M = 8, .N = 8, .K = 8});
    const int loaded = fake_cuda::loaded_libraries();
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int plan = 0; plan < 50; ++plan) {
          stocked.engine.plan(8, 8, 8).run(whole());
          stocked.engine.plan(GemmProblem{.M = 8 + plan, .N = 8, .K = 8}).run(whole());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(fake_cuda::loaded_libraries() == loaded + 1);
    CHECK(stocked.engine.stats().hits.at("own") == 1);
  }

  TEST_CASE("cuda plan: trim beside plans being made and run") {
    const Stocked stocked;
    const GemmProblem small{.M = 8, .N = 8, .K = 8}, large{.M = 999, .N = 999, .K = 8};
    publish_made_up(stocked.engine, small);
    publish_made_up(stocked.engine, large);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int plan = 0; plan < 100; ++plan) {
          stocked.engine.plan(plan % 2 == 0 ? small : large).run(whole());
        }
      });
    }
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) stocked.engine.trim();
    });
    for (std::thread& thread : threads) thread.join();
  }

  TEST_CASE("cuda plan: trim unloads what no plan holds, and only that") {
    const Stocked stocked;
    stocked.engine.trim();
    const int loaded = fake_cuda::loaded_libraries();
    const Gemm held = stocked.plan({.M = 8, .N = 8, .K = 8});
    stocked.plan({.M = 999, .N = 999, .K = 8});
    CHECK(fake_cuda::loaded_libraries() == loaded + 2);
    stocked.engine.trim();
    CHECK(fake_cuda::loaded_libraries() == loaded + 1);
    held.run(whole());
    CHECK(stocked.engine.plan(8, 8, 8).origin() == Origin::disk);
    CHECK(fake_cuda::loaded_libraries() == loaded + 1);
  }

  TEST_CASE("cuda plan: nothing unloads a kernel but trim") {
    const int loaded = [] {
      const Stocked stocked;
      stocked.plan({.M = 8, .N = 8, .K = 8});
      return fake_cuda::loaded_libraries();
    }();
    CHECK(fake_cuda::loaded_libraries() == loaded);
  }

  TEST_CASE("cuda plan: one kernel, more shared memory for a later shape") {
    const Stocked stocked;
    KernelTemplate kernel = small_add("growing");
    kernel.launch = [](const Problem& problem, const Parameters&) {
      return LaunchShape{.shared_bytes = std::get<AddProblem>(problem).shape.elements()};
    };
    stocked.engine.register_template(kernel);
    const PlanOptions named{.template_name = "growing"};
    for (const std::int64_t bytes : {10'000, 60'000, 50'000, 200'000}) {
      const Add add = stocked.plan(AddProblem{.shape = {bytes}}, named);
      add.run({at(kA), at(kB), at(kC)});
      CHECK(fake_cuda::max_dynamic_shared_bytes("growing", 0) >= bytes);
    }
    CHECK(stocked.engine.stats().hits.at("own") == 1);
  }

  TEST_CASE("cuda plan: a rejected image gives way to the next builder's") {
    const Stocked stocked;
    const GemmProblem problem{.M = 8, .N = 8, .K = 8};
    publish_made_up(stocked.engine, problem, {}, {.builder = "nvrtc-12.8.93", .tag = "old one"});
    publish_made_up(stocked.engine, problem, {}, {.builder = "nvrtc-13.9.1", .tag = "too new"});
    fake_cuda::reject("too new", CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    const Gemm gemm = stocked.engine.plan(problem);
    CHECK(gemm.info().launches[0].builder == "nvrtc-12.8.93");
    const std::string warnings = stocked.messages.all_warnings();
    CHECK(contains(warnings, "the CUDA driver (13.0) does not take"));
    CHECK(contains(warnings, "built by nvrtc-13.9.1"));
    CHECK(entries_in(stocked.folder / "cache").size() == 2);  // another driver may take it

    fake_cuda::reject("old one", CUDA_ERROR_NO_BINARY_FOR_GPU);
    stocked.engine.trim();
    const Gemm kept = gemm;
    const Engine other(Device::cuda(0), stocked.engine.options());
    fake_cuda::reset();
    CHECK(other.plan(problem).info().launches[0].builder == "nvrtc-13.9.1");
  }

  TEST_CASE("cuda plan: every image rejected, and nothing to compile with") {
    for (const CachePolicy policy : {CachePolicy::normal, CachePolicy::must_hit}) {
      Options options;
      options.cache_policy = policy;
      const Stocked stocked(options);
      const GemmProblem problem{.M = 8, .N = 8, .K = 8};
      publish_made_up(stocked.engine, problem, {}, {.tag = "bad"});
      fake_cuda::reject("bad", CUDA_ERROR_INVALID_IMAGE);
      const Error error = error_of([&] { stocked.engine.plan(problem); });
      if (policy == CachePolicy::normal) {
        CHECK(error.kind() == ErrorKind::unsupported);
        CHECK(contains(error.what(), "/nowhere/libnvrtc.so"));
      } else {
        CHECK(error.kind() == ErrorKind::cache_miss);
      }
      CHECK(contains(stocked.messages.all_warnings(), "CUDA_ERROR_INVALID_IMAGE"));
      fake_cuda::reset();
      stocked.engine.plan(problem);  // the failure was not kept
    }
  }

  TEST_CASE("cuda plan: PTX of the same builder stands in for a cubin that is rejected") {
    Options options;
    options.cache_policy = CachePolicy::must_hit;
    const Stocked stocked(options);
    const GemmProblem problem{.M = 8, .N = 8, .K = 8};
    publish_made_up(stocked.engine, problem, {}, {.tag = "cubin"});
    const Engine for_ptx(offline("compute_80"), stocked.engine.options());
    publish_made_up(for_ptx, problem, {}, {.tag = "ptx", .registers = 0});
    fake_cuda::reject("cubin", CUDA_ERROR_NO_BINARY_FOR_GPU);
    const Gemm gemm = stocked.engine.plan(problem);
    fake_cuda::reset();
    CHECK(gemm.info().launches[0].target == "compute_80");
    CHECK(gemm.key() == for_ptx.preview(problem).key);
    CHECK(gemm.info().launches[0].registers == 48);  // asked of the driver
    CHECK(gemm.info().launches[0].static_shared_bytes == 1024);
    gemm.run(whole());
  }

  TEST_CASE("cuda plan: under must_hit the best that is present is the choice") {
    Options options;
    options.cache_policy = CachePolicy::must_hit;
    const Stocked stocked(options);
    KernelTemplate kernel = small_gemm("choosy");
    for (int number = 1; number <= 4; ++number) {
      kernel.candidates.push_back({.shape = ShapeClass::tiny,
                                   .parameters = {{"NUMBER", number}},
                                   .preference = 100 + number});
    }
    stocked.engine.register_template(kernel);
    const GemmProblem problem{.M = 8, .N = 8, .K = 8};
    const Error error = error_of([&] { stocked.engine.plan(problem); });
    CHECK(error.kind() == ErrorKind::cache_miss);
    CHECK_MESSAGE(contains(error.what(), "NUMBER=4"), error.what());  // what it wanted most
    CHECK(contains(error.what(), "nothing of this template was ever built here"));
    const auto named = [](int number) {
      return PlanOptions{.template_name = "choosy", .parameters = {{"NUMBER", number}}};
    };
    publish_made_up(stocked.engine, problem, named(1));
    publish_made_up(stocked.engine, problem, named(3));
    CHECK(describe(stocked.engine.plan(problem).info().launches[0].parameters) == "NUMBER=3");
    CHECK(error_of([&] { stocked.engine.plan(problem, named(2)); }).kind() ==
          ErrorKind::cache_miss);
  }

  TEST_CASE("cuda plan: a plan of one GPU refuses the other's stream") {
    const Stocked stocked;
    const Gemm gemm = stocked.plan({.M = 8, .N = 8, .K = 8});
    const Stream stream = fake_cuda::create_stream(fake_cuda::primary(1));
    fake_cuda::reset();
    const Error error = error_of([&] { gemm.run(whole(), stream); });
    CHECK(error.kind() == ErrorKind::invalid_argument);
    CHECK(fake_cuda::launches().empty());
  }

  TEST_CASE("cuda plan: planned and run in a forked child") {
    const Stocked stocked;
    const Gemm gemm = stocked.plan({.M = 8, .N = 8, .K = 8});
    publish_made_up(stocked.engine, GemmProblem{.M = 999, .N = 999, .K = 9});
    CHECK(in_child([&] {
            int wrong = 0;
            for (const std::function<void()>& call : std::vector<std::function<void()>>{
                     [&] { gemm.run(whole()); },
                     [&] { stocked.engine.plan(999, 999, 9); },
                     [&] { Engine again(Device::cuda(0), stocked.engine.options()); },
                 }) {
              try {
                call();
                ++wrong;
              } catch (const Error& error) {
                wrong += error.kind() != ErrorKind::driver || !contains(error.what(), "forked");
              }
            }
            return wrong;
          }) == 0);
    gemm.run(whole());
    stocked.engine.plan(999, 999, 9);
  }

  TEST_CASE("cuda plan: a template replaced while others plan with it") {
    const Stocked stocked;
    const AddProblem problem{.shape = {8}};
    const PlanOptions named{.template_name = "small_add"};
    const KernelTemplate versions[] = {small_add("small_add", "// 0"),
                                       small_add("small_add", "// 1")};
    std::vector<std::string> keys;
    for (const KernelTemplate& version : versions) {
      stocked.engine.register_template(version);
      keys.push_back(stocked.plan(problem, named).key());
    }
    std::vector<std::thread> threads;
    std::atomic<bool> stop{false};
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        while (!stop) stocked.engine.plan(problem, named).run({at(kA), at(kB), at(kC)});
      });
    }
    for (std::size_t i = 0; i < 50; ++i) {
      stocked.engine.register_template(versions[i % 2]);
      // From now on, whatever the others were planning meanwhile.
      for (int plan = 0; plan < 5; ++plan) {
        CHECK(stocked.engine.plan(problem, named).key() == keys[i % 2]);
      }
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }

  TEST_CASE("cuda plan: a template replaced under its name serves new plans") {
    const Stocked stocked;
    const PlanOptions named{.template_name = "small_add"};
    const AddProblem problem{.shape = {8}};
    stocked.engine.register_template(small_add("small_add", "// first"));
    const Add first = stocked.plan(problem, named);
    stocked.engine.register_template(small_add("small_add", "// second"));
    const Add second = stocked.plan(problem, named);
    CHECK(first.key() != second.key());
    CHECK(second.origin() == Origin::disk);
    first.run({at(kA), at(kB), at(kC)});  // goes on as it was
    std::size_t count = 0;
    for (const KernelTemplate& kernel : stocked.engine.templates()) {
      count += kernel.name == "small_add";
    }
    CHECK(count == 1);
    CHECK(stocked.engine.templates().size() == catalog().size() + 1);
  }
}

TEST_SUITE("cpu") {
  TEST_CASE("cuda plan: a program that never repeats a shape") {
    const Stocked stocked;
    const PlanOptions named{.template_name = "gemm_naive"};
    const Gemm first = stocked.plan({.M = 1, .N = 8, .K = 8}, named);
    for (std::int64_t M = 2; M < 70000; ++M) {
      stocked.engine.plan(GemmProblem{.M = M, .N = 8, .K = 8}, named);
    }
    CHECK(stocked.engine.plan(GemmProblem{.M = 1, .N = 8, .K = 8}, named).key() == first.key());
    CHECK(stocked.engine.stats().hits.at("own") == 1);
  }
}

TEST_SUITE("nvrtc") {
  TEST_CASE("cuda plan: compiled by NVRTC, which finds the same driver") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    Options options = options_in(folder.path());
    const Engine engine(Device::cuda(0), options);
    fake_cuda::begin_capture();  // in the midst of a capture, too
    const Add add = engine.plan(AddProblem{.shape = {100}});
    CHECK(fake_cuda::end_capture());
    CHECK(add.origin() == Origin::compiler);
    CHECK(add.info().launches[0].target == "sm_90");
    fake_cuda::reset();
    add.run({at(kA), at(kB), at(kC)});
    CHECK(fake_cuda::launches().size() == 1);
  }

  TEST_CASE("cuda plan: what was compiled here and is rejected names both versions") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Engine engine(Device::cuda(0), options_in(folder.path()));
    fake_cuda::fail("cuLibraryLoadData", CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    const PlanOptions named{.template_name = "add_tiled", .parameters = {{"TILE", 4}}};
    const Error error = error_of([&] { engine.plan(AddProblem{.shape = {100}}, named); });
    fake_cuda::reset();
    CHECK(error.kind() == ErrorKind::driver);
    CHECK(contains(error.what(), "the CUDA driver (13.0) does not take add_tiled"));
    CHECK(contains(error.what(), "built by nvrtc-1"));
    CHECK(contains(error.what(), "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"));
    CHECK(engine.stats().compiles == 1);
    engine.plan(AddProblem{.shape = {100}}, named);
    CHECK(engine.stats().compiles == 1);  // it is in the cache; another driver may take it
  }
}

}  // namespace
}  // namespace tilec::test

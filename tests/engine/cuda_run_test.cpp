// run() on the CUDA device over a made-up driver: what it checks, and what it hands to the driver.
#include <cmath>
#include <cstring>

#include "stocked.h"
#include "tilec/add_args.h"
#include "tilec/gemm_args.h"

namespace tilec::test {
namespace {

template <class Args>
Args last_arguments() {
  Args args;
  const fake_cuda::Launch launch = fake_cuda::launches().back();
  REQUIRE(launch.arguments.size() == sizeof args);
  std::memcpy(&args, launch.arguments.data(), sizeof args);
  return args;
}

TEST_SUITE("cpu tsan") {
  TEST_CASE("cuda run: a GEMM hands the kernel its arguments and shape") {
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

  TEST_CASE("cuda run: alpha and beta in the accumulator's type") {
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

  TEST_CASE("cuda run: scalars that a plan can't hold are refused") {
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

  TEST_CASE("cuda run: pointers that a GEMM can't take") {
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

  TEST_CASE("cuda run: D that is C needs the same leading dimension") {
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

  TEST_CASE("cuda run: a leading dimension given for C or D alone is both's") {
    const Stocked stocked;
    fake_cuda::set_argument_bytes(sizeof(GemmArgs));
    for (const GemmProblem& problem : {GemmProblem{.M = 4, .N = 4, .K = 4, .ldc = 8},
                                       GemmProblem{.M = 4, .N = 4, .K = 4, .ldd = 8}}) {
      const Gemm gemm = stocked.plan(problem);
      CHECK(gemm.info().problem == "gemm 4x4x4 f32 ldc=8 ldd=8");
      const auto* const a = static_cast<const float*>(at(kA));
      gemm.run(a, a, static_cast<float*>(at(kD)));
      CHECK(last_arguments<GemmArgs>().ldd == 8);
      GemmArguments in_place = whole();
      in_place.d = in_place.c;
      in_place.beta = 1;
      gemm.run(in_place);
      CHECK(last_arguments<GemmArgs>().ldc == 8);
      CHECK(last_arguments<GemmArgs>().ldd == 8);
    }
  }

  TEST_CASE("cuda run: of one row, every leading dimension is as good as another") {
    const Stocked stocked;
    fake_cuda::set_argument_bytes(sizeof(GemmArgs));
    const Gemm gemm =
        stocked.plan({.M = 1, .N = 8, .K = 4, .lda = -1, .ldc = 3, .ldd = std::int64_t{1} << 62});
    GemmArguments arguments = whole();
    arguments.d = arguments.c;
    arguments.beta = 1;
    gemm.run(arguments);
    CHECK(last_arguments<GemmArgs>().lda == 4);
    CHECK(last_arguments<GemmArgs>().ldc == 8);
    CHECK(last_arguments<GemmArgs>().ldd == 8);
    arguments.d = at(kC + 28);  // the row's last element
    CHECK(contains(error_of([&] { gemm.run(arguments); }).what(), "D and C share elements"));
    arguments.d = at(kC + 32);
    gemm.run(arguments);
  }

  TEST_CASE("cuda run: no product reads A, B or alpha") {
    const Stocked stocked;
    const Gemm gemm = stocked.plan({.M = 4, .N = 4, .K = 0});
    fake_cuda::reset();
    for (const float alpha : {1.0f, 0.0f, INFINITY, NAN}) {
      gemm.run({.c = at(kC), .alpha = alpha, .beta = 1});
      gemm.run({.d = at(kD), .alpha = alpha});
    }
    CHECK(fake_cuda::launches().size() == 8);
  }

  TEST_CASE("cuda run: the blocks of one matrix multiply into each other, as in blocked LU") {
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

  TEST_CASE("cuda run: an Add's arguments") {
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

  TEST_CASE("cuda run: typed pointers are checked against the plan") {
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

  TEST_CASE("cuda run: problems of no size are done at once, with null pointers") {
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

  TEST_CASE("cuda run: a grid with a zero is not launched") {
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

  TEST_CASE("cuda run: tall and wide problems stay within CUDA's grid") {
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

  TEST_CASE("cuda run: launches that no device can make are refused when planned") {
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
}

}  // namespace
}  // namespace tilec::test

// select: what is chosen for which problem, and what can't be chosen.
#include "plan/select.h"

#include <random>
#include <set>

#include "support.h"

namespace tilec::test {
namespace {

Templates shipped() {
  Templates list;
  for (const KernelTemplate& kernel : catalog()) {
    list.push_back(std::make_shared<const KernelTemplate>(kernel));
  }
  return list;
}

Templates with(const KernelTemplate& kernel) {
  Templates list = shipped();
  list.push_back(std::make_shared<const KernelTemplate>(kernel));
  return list;
}

GemmProblem gemm(std::int64_t M, std::int64_t N, std::int64_t K, DType type = f32) {
  return normalized({.M = M, .N = N, .K = K, .a = type});
}

const Target sm_80 = Target::parse("sm_80");

Choice best(const Problem& problem, const PlanOptions& options = {}, const Target& target = sm_80) {
  return select(problem, options, target, shipped()).front();
}

std::string refusal(const Problem& problem, const PlanOptions& options, ErrorKind kind,
                    const Target& target = sm_80, const Templates& templates = shipped()) {
  const Error error = error_of([&] { select(problem, options, target, templates); });
  CHECK(error.kind() == kind);
  return error.what();
}

// The identity of what is compiled.
std::string text(const Choice& choice) {
  return choice.kernel->name + " " + std::string(info(choice.T).name) + " " +
         describe(choice.parameters) + " " + choice.target.name();
}

TEST_SUITE("cpu") {
  TEST_CASE("select: tiny, narrow, tall, wide and large GEMMs are told apart") {
    const struct {
      const char* what;
      GemmProblem problem;
      ShapeClass shape;
      const char* chosen;
    } rows[] = {
        {"tiny", gemm(64, 64, 64), ShapeClass::tiny, "PAD=0 TILE=16 TN=1 UNROLL_K=16"},
        {"one output", gemm(1, 1, 1 << 20), ShapeClass::tiny, "PAD=0 TILE=16 TN=1 UNROLL_K=16"},
        {"few rows", gemm(16, 4096, 4096), ShapeClass::narrow, "PAD=0 TILE=16 TN=1 UNROLL_K=16"},
        {"few columns", gemm(4096, 8, 64), ShapeClass::narrow, "PAD=0 TILE=16 TN=1 UNROLL_K=16"},
        {"tall", gemm(1 << 20, 64, 128), ShapeClass::tall, "PAD=2 TILE=32 TN=4 UNROLL_K=4"},
        {"wide", gemm(64, 1 << 20, 128), ShapeClass::wide, "PAD=2 TILE=32 TN=4 UNROLL_K=8"},
        {"large", gemm(4096, 4096, 4096), ShapeClass::large, "PAD=2 TILE=32 TN=4 UNROLL_K=8"},
        {"large, 16 bits", gemm(4096, 4096, 4096, f16), ShapeClass::large,
         "PAD=2 TILE=64 TN=8 UNROLL_K=16"},
        {"large, 64 bits", gemm(4096, 4096, 4096, f64), ShapeClass::large,
         "PAD=1 TILE=16 TN=2 UNROLL_K=8"},
    };
    for (const auto& row : rows) {
      CAPTURE(row.what);
      CHECK(shape_class(row.problem) == row.shape);
      Parameters parameters = best(row.problem).parameters;
      parameters.erase("ACC");
      CHECK(describe(parameters) == row.chosen);
    }
  }

  TEST_CASE("select: small and large Adds differ") {
    const Choice small = best(AddProblem{.shape = {1000}});
    const Choice large = best(AddProblem{.shape = {1 << 28}});
    CHECK(small.kernel->name != large.kernel->name);
    CHECK(text(best(AddProblem{.shape = {10, 10, 10}})) == text(small));
  }

  TEST_CASE("select: it is pure") {
    for (const Problem& problem :
         {Problem(gemm(512, 512, 512)), Problem(AddProblem{.shape = {77}})}) {
      CHECK(text(best(problem)) == text(best(problem)));
    }
  }

  TEST_CASE("select: a named template is taken, with its defaults") {
    const Choice naive = best(gemm(4096, 4096, 4096), {.template_name = "gemm_naive"});
    CHECK(naive.kernel->name == "gemm_naive");
    CHECK(describe(naive.parameters) == "ACC=f32 BLOCK_X=32 BLOCK_Y=8");
    const Choice regn = best(gemm(4096, 4096, 4096), {.template_name = "gemm_regn"});
    CHECK(regn.kernel->name == "gemm_regn");
    CHECK(regn.parameters == best(gemm(4096, 4096, 4096)).parameters);
    CHECK(best(AddProblem{.shape = {8}}, {.template_name = "add_tiled"}).kernel->name ==
          "add_tiled");
  }

  TEST_CASE("select: given parameters are kept, the others follow from them") {
    const GemmProblem problem = gemm(4096, 4096, 4096);
    const Choice given = best(problem, {.parameters = {{"TILE", 24}, {"TN", 3}}});
    CHECK(given.kernel->name == "gemm_regn");
    CHECK(describe(given.parameters) == "ACC=f32 PAD=1 TILE=24 TN=3 UNROLL_K=24");
    const Choice one = best(problem, {.parameters = {{"TILE", 48}}});
    CHECK(integer(one.parameters, "TILE") == 48);
    CHECK(integer(one.parameters, "UNROLL_K") == 8);
    const Choice accumulator =
        best(gemm(64, 64, 64, f16), {.template_name = "gemm_naive", .parameters = {{"ACC", f16}}});
    CHECK(accumulator.parameters.at("ACC").dtype() == f16);
  }

  TEST_CASE("select: what can't be is refused in words") {
    const GemmProblem problem = gemm(64, 64, 64);
    const auto invalid = ErrorKind::invalid_argument;
    const auto refused = [&](const PlanOptions& options, std::initializer_list<const char*> parts) {
      const std::string message = refusal(problem, options, invalid);
      for (const char* part : parts) CHECK_MESSAGE(contains(message, part), message);
    };
    refused({.template_name = "gemm_regm"}, {"gemm_regm", "gemm_naive, gemm_regn"});
    refused({.template_name = "add_tiled"}, {"add_tiled", "is for add, not for gemm", "gemm_regn"});
    refused({.template_name = "gemm_regn", .parameters = {{"TILES", 32}}}, {"TILES", "TILE", "TN"});
    refused({.parameters = {{"TILES", 32}}}, {"TILES=32", "gemm_regn"});
    refused({.parameters = {{"TILE", 32}, {"TN", 5}}}, {"TN = 5", "TILE = 32"});
    refused({.parameters = {{"TILE", 0}}}, {"TILE = 0", "1 to 1024"});
    refused({.parameters = {{"TILE", 64}, {"TN", 1}}}, {"4096", "1024"});
    refused({.parameters = {{"TILE", 256}, {"TN", 64}}}, {"526336", "166912"});
    refused({.parameters = {{"TILE", f32}}}, {"TILE = f32", "1 to 1024"});
    refused({.template_name = "gemm_naive", .parameters = {{"ACC", f64}}}, {"ACC = f64", "f32"});
    CHECK(contains(refusal(AddProblem{.shape = {4}}, {.template_name = "gemm_regn"}, invalid),
                   "add_tiled"));
  }

  TEST_CASE("select: a dtype or target without a template is unsupported") {
    const auto unsupported = ErrorKind::unsupported;
    KernelTemplate only = small_gemm("only_f64_on_90");
    only.dtypes = {f64};
    only.least_sm = 90;
    const Templates templates = with(only);
    const PlanOptions named{.template_name = "only_f64_on_90"};
    const Target sm_90 = Target::parse("sm_90a");
    CHECK(select(gemm(8, 8, 8, f64), named, sm_90, templates).front().kernel->name == only.name);
    std::string message = refusal(gemm(8, 8, 8, f32), named, unsupported, sm_90, templates);
    CHECK_MESSAGE(contains(message, "it supports f64"), message);
    message = refusal(gemm(8, 8, 8, f64), named, unsupported, sm_80, templates);
    CHECK_MESSAGE(contains(message, "sm_90 or later, not sm_80"), message);
    message = refusal(gemm(8, 8, 8), {}, unsupported, Target::parse("sm_70"));
    CHECK_MESSAGE(contains(message, "sm_70; the least target they serve is sm_75"), message);
    CHECK(contains(message, "gemm"));
    CHECK(contains(message, "f32"));
  }

  TEST_CASE("select: plain targets, but for templates of one architecture") {
    const Target sm_90a = Target::parse("sm_90a");
    CHECK(best(gemm(8, 8, 8), {}, sm_90a).target.name() == "sm_90");
    KernelTemplate specific = small_gemm("specific");
    specific.arch_specific = true;
    CHECK(select(gemm(8, 8, 8), {.template_name = "specific"}, sm_90a, with(specific))
              .front()
              .target == sm_90a);
  }

  TEST_CASE("select: preference, dtype and target of candidates") {
    KernelTemplate kernel = small_gemm("candidates");
    kernel.candidates = {
        {.shape = ShapeClass::tiny, .parameters = {{"NUMBER", 1}}, .preference = 20},
        {.shape = ShapeClass::tiny,
         .parameters = {{"NUMBER", 2}},
         .preference = 30,
         .dtypes = {f16}},
        {.shape = ShapeClass::tiny,
         .parameters = {{"NUMBER", 3}},
         .preference = 40,
         .least_sm = 90},
    };
    const auto number = [&](DType type, const char* target) {
      const auto choices = select(gemm(8, 8, 8, type), {}, Target::parse(target), with(kernel));
      CHECK(choices.size() >= 2);  // gemm_regn's own candidate comes last
      CHECK(choices.back().kernel->name == "gemm_regn");
      return integer(choices.front().parameters, "NUMBER");
    };
    CHECK(number(f32, "sm_80") == 1);
    CHECK(number(f16, "sm_80") == 2);
    CHECK(number(f16, "sm_90") == 3);
    CHECK(number(f32, "sm_90") == 3);
  }

  TEST_CASE("select: a candidate that a target can't have is passed over") {
    const GemmProblem problem = gemm(4096, 4096, 4096, f64);
    KernelTemplate roomy = small_gemm("roomy");
    roomy.why_not = [](DType, const Parameters& parameters, const Target& target) {
      const int needed = integer(parameters, "NUMBER");
      return needed <= target.max_shared_bytes() ? "" : std::to_string(needed) + " bytes";
    };
    roomy.candidates = {
        {.shape = ShapeClass::large, .parameters = {{"NUMBER", 100000}}, .preference = 20},
        {.shape = ShapeClass::large, .parameters = {{"NUMBER", 50000}}, .preference = 10}};
    Templates only{std::make_shared<const KernelTemplate>(roomy)};
    const auto number = [&](const char* target) {
      return integer(select(problem, {}, Target::parse(target), only).front().parameters, "NUMBER");
    };
    CHECK(number("sm_80") == 100000);
    CHECK(number("sm_75") == 50000);
    KernelTemplate kernel = small_gemm("picky");
    kernel.candidates = {{.shape = ShapeClass::large, .parameters = {{"NUMBER", -1}}}};
    Templates alone{std::make_shared<const KernelTemplate>(kernel)};
    CHECK(describe(select(problem, {}, sm_80, alone).front().parameters) == "NUMBER=1");
    CHECK(text(selectable(sm_80, alone).front()) == "picky f32 NUMBER=1 sm_80");
  }

  TEST_CASE("select: of several templates with the parameters, those that can take them") {
    KernelTemplate first = small_gemm("first"), second = small_gemm("second");
    first.candidates = second.candidates = {{.shape = ShapeClass::tiny, .parameters = {}}};
    first.why_not = [](DType, const Parameters&, const Target&) { return "never"; };
    Templates both{std::make_shared<const KernelTemplate>(first),
                   std::make_shared<const KernelTemplate>(second)};
    const PlanOptions two{.parameters = {{"NUMBER", 2}}};
    CHECK(select(gemm(8, 8, 8), two, sm_80, both).front().kernel->name == "second");
    const PlanOptions less{.parameters = {{"NUMBER", -2}}};
    const std::string message =
        refusal(gemm(8, 8, 8), less, ErrorKind::invalid_argument, sm_80, both);
    CHECK_MESSAGE(contains(message, "first: NUMBER = -2"), message);
  }

  TEST_CASE("selectable: covers whatever select returns") {
    std::mt19937_64 random(20250101);
    const auto extent = [&] {
      const int bits = static_cast<int>(random() % 22);
      return static_cast<std::int64_t>(random() % ((std::uint64_t{1} << bits) + 1));
    };
    const Templates templates = shipped();
    for (const char* name : {"sm_75", "sm_80", "sm_86", "sm_90a", "sm_120a"}) {
      const Target target = Target::parse(name);
      std::set<std::string> known;
      for (const Choice& choice : selectable(target, templates)) known.insert(text(choice));
      std::set<std::string> seen;
      for (int i = 0; i < 3000; ++i) {
        const DType type = dtypes()[random() % dtypes().size()].dtype;
        Problem problem = AddProblem{.shape = {extent()}, .dtype = type};
        if (random() % 4 != 0) problem = gemm(extent(), extent(), extent(), type);
        for (const Choice& choice : select(problem, {}, target, templates)) {
          INFO(describe(problem), " ", text(choice));
          REQUIRE(known.contains(text(choice)));
          seen.insert(text(choice));
        }
      }
      CHECK(seen == known);  // and holds nothing that is never chosen
    }
  }

  TEST_CASE("selectable: the engine lists each kernel once") {
    const Engine engine(offline("sm_90a"), Options{});
    const auto list = engine.selectable();
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(list[i] == list[j]);
    }
    std::set<std::string> all;
    for (const Choice& choice : selectable(Target::parse("sm_90a"), shipped())) {
      all.insert(text(choice));
    }
    CHECK(list.size() == all.size());
  }
}

}  // namespace
}  // namespace tilec::test

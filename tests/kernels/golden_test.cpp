// Golden texts and keys over a template that never changes. A change here makes every cache cold:
// make it on purpose, and say so.
#include <doctest/doctest.h>

#include <algorithm>

#include "compile/key.h"
#include "tests/kernels/fixture_template.h"

namespace tilec::test {
namespace {

constexpr const char* kPrologue = R"cuda(// fixture: T=f64 MODE=7 ROWS=16 SUM=f64
#include "tilec/numeric.h"

using T = double;
[[maybe_unused]] constexpr int ROWS = 16;
using SUM = double;
[[maybe_unused]] constexpr int MODE = 7;

#line 1 "/tilec/fixture.cu"
)cuda";

// Options that stay, so that keys depend on nothing else.
class FrozenCompiler final : public Compiler {
 public:
  std::vector<std::string> options(const Target& target) const override {
    return {"--gpu-architecture=" + target.name(), "--frozen"};
  }
  std::string builder(const CompileRequest&) const override { return "frozen-1.0"; }
  Artifact compile(const CompileRequest&) const override {
    throw Error(ErrorKind::compile, "frozen");
  }
};

CompileRequest request(const char* target, DType T, const Parameters& given) {
  const KernelTemplate kernel = fixture_template();
  const Target parsed = Target::parse(target);
  return {.source = render(kernel, T, complete(kernel, T, given, parsed)),
          .target = parsed,
          .options = kernel.options,
          .name = "fixture"};
}

std::string key_of(const CompileRequest& one) {
  return key(one, FrozenCompiler()).hex();
}

TEST_SUITE("cpu") {
  TEST_CASE("golden: a rendered source") {
    const KernelTemplate kernel = fixture_template();
    const Parameters all = complete(kernel, f64, {{"ROWS", 16}}, Target::parse("sm_90"));
    CHECK(render(kernel, f64, all).text == kPrologue + kernel.source);
  }

  TEST_CASE("golden: how types are spelled") {
    const struct {
      DType type;
      const char* line;
    } table[] = {{f32, "using T = float;\n"},
                 {f64, "using T = double;\n"},
                 {f16, "using T = tilec::half;\n"},
                 {bf16, "using T = tilec::bfloat16;\n"},
                 {s32, "using T = int;\n"}};
    for (const auto& [type, line] : table) {
      const std::string text =
          render(fixture_template(), type, {{"ROWS", 1}, {"SUM", type}, {"MODE", 1}}).text;
      CHECK(text.find(line) != std::string::npos);
    }
  }

  TEST_CASE("golden: keys") {
    const struct {
      const char* target;
      DType T;
      Parameters given;
      const char* key;
    } table[] = {
        {"sm_90", f32, {}, "559f043a3ade4e8a4c62660abd6a31d8"},
        {"sm_90a", f32, {}, "fa1fb871c97292437bed6ec88e0ad5e2"},
        {"compute_90", f32, {}, "d3c1894a1403366b4c124747cd8d6b9e"},
        {"sm_90", f64, {}, "4fe022a09b74c0b5df0a82c1e88591f8"},
        {"sm_90", f32, {{"ROWS", 16}}, "d198a1fb66035853bbd9557411602328"},
    };
    for (const auto& row : table) CHECK(key_of(request(row.target, row.T, row.given)) == row.key);
  }

  TEST_CASE("keys: what they depend on") {
    const CompileRequest base = request("sm_90", f32, {});
    CompileRequest same = base;
    same.name = "called otherwise";
    same.source.toolkit_headers = {"other.h"};  // of the builder's identity
    CHECK(key_of(same) == key_of(base));

    std::vector<CompileRequest> others(8, base);
    others[0].source.text += " ";
    others[1].source.entry = "fixture2";
    others[2].source.headers[0].text += "\n";
    others[3].source.headers[0].name += "x";
    others[4].options = {"-DFIXTURE=2"};
    others[5].options.push_back("-G");
    others[6].source.headers.pop_back();
    others[7].target = Target::parse("sm_80");
    std::vector<std::string> keys{key_of(base)};
    for (const CompileRequest& other : others) keys.push_back(key_of(other));
    std::sort(keys.begin(), keys.end());
    CHECK(std::unique(keys.begin(), keys.end()) == keys.end());
  }
}

}  // namespace
}  // namespace tilec::test

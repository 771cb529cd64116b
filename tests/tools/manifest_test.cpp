// Manifests: what their lists and ranges expand to, and that a mistake is named with its place.
#include "manifest.h"

#include <doctest/doctest.h>

#include <set>

#include "facts_json.h"

namespace tilec::command {
namespace {

std::vector<std::string> described(const std::string& text) {
  std::vector<std::string> list;
  for (const ManifestRequest& one : parse_manifest(text, "m.json").requests) {
    const PlanOptions& options = one.request.options;
    std::string line = describe(one.request.problem);
    if (!options.template_name.empty()) line += " " + options.template_name;
    if (!options.parameters.empty()) line += " " + describe(options.parameters);
    list.push_back(line);
  }
  return list;
}

std::string refusal(const std::string& text) {
  try {
    parse_manifest(text, "m.json");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("lists and ranges expand in order, each value once") {
  CHECK(described(R"({"problems": [{"op": "gemm", "M": [1, 2, 1], "N": 8, "K": 4}]})") ==
        Lines{"gemm 1x8x4 f32", "gemm 2x8x4 f32"});
  CHECK(
      described(R"([{"op": "gemm", "M": 1, "N": 1, "K": {"from": 64, "to": 250, "step": 64}}])") ==
      Lines{"gemm 1x1x64 f32", "gemm 1x1x128 f32", "gemm 1x1x192 f32"});
  CHECK(described(R"([{"op": "add", "n": [5, {"from": 1, "to": 20, "factor": 4}]}])") ==
        Lines{"add 5 f32", "add 1 f32", "add 4 f32", "add 16 f32"});
  CHECK(described(R"([{"op": "add", "n": 1, "parameters": {"W": {"from": 1,
                      "to": 9223372036854775807, "step": 9223372036854775806}}}])") ==
        Lines{"add 1 f32 W=1", "add 1 f32 W=9223372036854775807"});
  CHECK(described(R"([{"op": "add", "shape": [[1024], [4, 4]], "dtype": ["f16", "s32"]}])") ==
        Lines{"add 1024 f16", "add 4x4 f16", "add 1024 s32", "add 4x4 s32"});
  CHECK(described(R"([{"op": "add", "shape": [4, 5, 6]}])") == Lines{"add 4x5x6 f32"});
}

TEST_CASE("templates and parameters expand too") {
  const Lines lines = described(
      R"([{"op": "gemm", "M": 1, "N": 1, "K": 1, "template": ["gemm_regn", "mine"],
           "parameters": {"TILE": [16, 32], "ACC": ["f32", "f16"]}}])");
  CHECK(std::set<std::string>(lines.begin(), lines.end()) ==
        std::set<std::string>{
            "gemm 1x1x1 f32 gemm_regn ACC=f32 TILE=16", "gemm 1x1x1 f32 gemm_regn ACC=f16 TILE=16",
            "gemm 1x1x1 f32 gemm_regn ACC=f32 TILE=32", "gemm 1x1x1 f32 gemm_regn ACC=f16 TILE=32",
            "gemm 1x1x1 f32 mine ACC=f32 TILE=16", "gemm 1x1x1 f32 mine ACC=f16 TILE=16",
            "gemm 1x1x1 f32 mine ACC=f32 TILE=32", "gemm 1x1x1 f32 mine ACC=f16 TILE=32"});
}

TEST_CASE("all of a problem arrives") {
  const Manifest manifest = parse_manifest(
      R"({"archs": ["sm_80"], "devices": "h200", "problems": [
           {"op": "gemm", "M": 2, "N": 3, "K": 4, "dtype": "f16", "dtype_b": "bf16", "dtype_d": "f32",
            "lda": 5, "ldb": 6, "ldc": 7, "ldd": 8, "max_workspace": 9, "skip_impossible": true}]})",
      "m.json");
  CHECK(manifest.archs == Lines{"sm_80"});
  CHECK(manifest.devices == Lines{"h200"});
  REQUIRE(manifest.requests.size() == 1);
  const ManifestRequest& one = manifest.requests.front();
  CHECK(std::get<GemmProblem>(one.request.problem) == GemmProblem{.M = 2,
                                                                  .N = 3,
                                                                  .K = 4,
                                                                  .a = f16,
                                                                  .b = bf16,
                                                                  .d = f32,
                                                                  .lda = 5,
                                                                  .ldb = 6,
                                                                  .ldc = 7,
                                                                  .ldd = 8});
  CHECK(one.request.options.max_workspace == 9);
  CHECK(one.skip_impossible);
}

TEST_CASE("problems one a line, as a recording has them") {
  CHECK(
      described("{\"op\": \"add\", \"n\": 1}\n\n{\"op\": \"add\", \"shape\": [[2, 3]], \"dtype\": "
                "\"f16\"}\n") == Lines{"add 1 f32", "add 2x3 f16"});
  CHECK(described("{\"op\": \"add\", \"n\": 1}") == Lines{"add 1 f32"});
  const std::string bad = refusal("{\"op\": \"add\", \"n\": 1}\n{\"op\": \"add\", \"n\": -1}\n");
  CHECK(bad.find("m.json, line 2: n: ") == 0);
}

TEST_CASE("mistakes are named with file, place and what is allowed") {
  struct Row {
    const char* text;
    const char* place;
    const char* says;
  };
  for (const Row& row : std::vector<Row>{
           {"", "m.json", "not valid JSON"},
           {"{", "m.json", "line 1, column"},
           {"3", "m.json", "an object is expected"},
           {R"({"problem": []})", "m.json", "allowed: problems, archs, devices"},
           {R"({"problems": {}})", "m.json: problems", "a list of problems"},
           {R"({"problems": [7]})", "m.json: problems[0]", "a problem is an object"},
           {R"([{"M": 1}])", "m.json: [0]", "'op' is missing"},
           {R"([{"op": "mul"}])", "m.json: [0].op", "operations are gemm, add"},
           {R"([{"op": "gemm", "M": 1, "N": 1}])", "m.json: [0]", "'K' is missing"},
           {R"([{"op": "gemm", "M": 1.5, "N": 1, "K": 1}])", "m.json: [0].M", "an integer"},
           {R"([{"op": "gemm", "M": "1", "N": 1, "K": 1}])", "m.json: [0].M", "an integer"},
           {R"([{"op": "gemm", "M": -1, "N": 1, "K": 1}])", "m.json: [0].M", "of 0 or more"},
           {R"([{"op": "gemm", "M": 1e30, "N": 1, "K": 1}])", "m.json: [0].M", "an integer"},
           {R"([{"op": "gemm", "M": 18446744073709551615, "N": 1, "K": 1}])", "m.json: [0].M",
            "an integer"},
           {R"([{"op": "gemm", "M": [], "N": 1, "K": 1}])", "m.json: [0].M", "the list is empty"},
           {R"([{"op": "gemm", "M": 1, "N": 1, "K": 1, "n": 3}])", "m.json: [0]",
            "'n' is not known"},
           {R"([{"op": "gemm", "M": 1, "N": 1, "K": 1, "dtype": "f8"}])", "m.json: [0].dtype",
            "dtypes are"},
           {R"([{"op": "gemm", "M": 2, "N": 1, "K": 8, "lda": 4}])", "m.json: [0]", "lda = 4"},
           {R"([{"op": "gemm", "M": {"form": 1}, "N": 1, "K": 8}])", "m.json: [0].M",
            "allowed: from, to, step, factor"},
           {R"([{"op": "add", "n": {"from": 1}}])", "m.json: [0].n", "'to' is missing"},
           {R"([{"op": "add", "n": {"from": 9, "to": 1}}])", "m.json: [0].n.to", "of 9 or more"},
           {R"([{"op": "add", "n": {"from": 1, "to": 5, "step": 0}}])", "m.json: [0].n.step",
            "integer"},
           {R"([{"op": "add", "n": {"from": 0, "to": 5, "factor": 2}}])", "m.json: [0].n.from",
            "1 or more"},
           {R"([{"op": "add", "n": {"from": 1, "to": 5, "step": 1, "factor": 2}}])",
            "m.json: [0].n", "not both"},
           {R"([{"op": "add", "n": {"from": 1, "to": 9000000}}])", "m.json: [0].n", "a million"},
           {R"([{"op": "add"}])", "m.json: [0]", "either 'n'"},
           {R"([{"op": "add", "n": 4611686018427387905}])", "m.json: [0].n", "over 2^59 elements"},
           {R"([{"op": "add", "n": 1, "shape": [1]}])", "m.json: [0]", "either 'n'"},
           {R"([{"op": "add", "shape": 3}])", "m.json: [0].shape", "a shape such as"},
           {R"([{"op": "add", "shape": [1, 2, 3, 4, 5]}])", "m.json: [0].shape", "one to four"},
           {R"([{"op": "add", "shape": [[1], 2]}, 3])", "m.json: [1]", "a problem is an object"},
           {R"([{"op": "add", "n": 1, "n": 2}])", "m.json", "'n' appears twice"},
           {R"([{"op": "add", "n": 1, "parameters": [1]}])", "m.json: [0].parameters", "an object"},
           {R"([{"op": "add", "n": 1, "parameters": {"W": "x"}}])", "m.json: [0].parameters.W",
            "dtypes are"},
           {R"([{"op": "add", "n": 1, "skip_impossible": 1}])", "m.json: [0].skip_impossible",
            "true or false"},
           {R"([{"op": "gemm", "M": {"from": 1, "to": 1000}, "N": {"from": 1, "to": 1000},
                 "K": {"from": 1, "to": 1000}}])",
            "m.json: [0]", "a million"},
       }) {
    CAPTURE(row.text);
    const std::string said = refusal(row.text);
    CAPTURE(said);
    CHECK(said.find(row.place) == 0);
    CHECK(said.find(row.says) != std::string::npos);
  }
}

TEST_CASE("facts of devices survive the way through JSON") {
  for (const DeviceFacts& facts : shipped_device_facts()) {
    const Json json = to_json(facts);
    CHECK(facts_from_json(Node(json, "f.json")) == facts);
  }
}

TEST_CASE("facts that are left out are those of a common device; wrong ones are refused") {
  const Json least{{"name", "mine"}, {"target", "sm_80"}, {"sm_count", 7}};
  DeviceFacts expected = typical_facts(Target::parse("sm_80"));
  expected.name = "mine";
  expected.sm_count = 7;
  CHECK(facts_from_json(Node(least, "f.json")) == expected);
  for (const char* text :
       {R"({"target": "sm_80"})", R"({"name": "x"})", R"({"name": "x", "target": "sm_1"})",
        R"({"name": "x", "target": "sm_80", "sms": 1})",
        R"({"name": "x", "target": "sm_80", "sm_count": 0})",
        R"({"name": "x", "target": "sm_80", "memory_gb_s": -1})", R"([1])"}) {
    CAPTURE(text);
    const Json json = Json::parse(text);
    CHECK_THROWS_AS(facts_from_json(Node(json, "f.json")), UsageError);
  }
}

}  // namespace tilec::command

// tilec build and its targets: what it can't make kernels for, what it makes in place of what was
// asked for, and where there is no NVRTC.
#include <doctest/doctest.h>

#include "process.h"
#include "tests/support/skip.h"

namespace tilec::test {
namespace {

using nlohmann::json;

bool has_nvrtc(const Sandbox& sandbox) {
  return sandbox.json({"info"})["nvrtc"]["available"].get<bool>();
}

}  // namespace

TEST_SUITE("nvrtc") {
  TEST_CASE("a target that NVRTC does not know is an error that lists those it knows") {
    const Sandbox sandbox;
    if (!has_nvrtc(sandbox)) return skip("no NVRTC");
    const std::string facts = sandbox.file("gpu.json", R"({"name": "mine", "target": "sm_999"})");
    const std::string manifest =
        sandbox.file("m.json", R"({"problems": [{"op": "add", "n": 9}], "archs": ["sm_999"]})");
    for (const std::vector<std::string>& asked :
         {std::vector<std::string>{"--arch", "sm_80,sm_999", "--add", "9"},
          {"--arch", "sm_81"},
          {"--arch", "sm_91", "--add", "9", "--dry-run"},
          {"--arch", "compute_999"},
          {"--device", facts},
          {manifest}}) {
      std::vector<std::string> arguments{"build"};
      arguments.insert(arguments.end(), asked.begin(), asked.end());
      const Ran ran = sandbox.tilec(arguments);
      CAPTURE(ran.err);
      CHECK(ran.status == 2);
      CHECK(ran.out.empty());
      CHECK(contains(ran.err, "knows sm_75"));
      CHECK(contains(ran.err, "--arch compute_"));
      CHECK(sandbox.entries().empty());
    }
    CHECK(sandbox.tilec({"build", "--arch", "sm_81"}).err.starts_with("tilec: sm_81 can't be"));
    CHECK(sandbox.tilec({"build", "--device", facts})
              .err.starts_with("tilec: mine (sm_999): sm_999 "));
    const Ran old = sandbox.tilec({"build", "--arch", "sm_80,sm_70"});
    CHECK(old.status == 2);
    CHECK(contains(old.err, "serve is sm_75"));
    CHECK(contains(old.err, "knows sm_75"));
    CHECK(sandbox.entries().empty());
  }

  TEST_CASE("PTX is made where it is asked for") {
    const Sandbox sandbox;
    if (!has_nvrtc(sandbox)) return skip("no NVRTC");
    const json built = sandbox.json({"build", "--arch", "compute_80", "--add", "9"});
    CHECK(built["built"] == 1);
    CHECK(built["kernels"][0]["target"] == "compute_80");
    CHECK(built["notes"].empty());
    const json entry = sandbox.json({"cache", "ls"})["entries"][0];
    CHECK(entry["kind"] == "ptx");
    CHECK(entry["target"] == "compute_80");
    CHECK(sandbox.json({"build", "--arch", "compute_80", "--add", "9"})["present"] == 1);
  }

  TEST_CASE("what is stored for another target than the one asked for is said") {
    const Sandbox sandbox;
    if (!has_nvrtc(sandbox)) return skip("no NVRTC");
    const json built = sandbox.json({"build", "--arch", "sm_90a", "--add", "9"});
    CHECK(built["built"] == 1);
    CHECK(built["kernels"][0]["target"] == "sm_90");
    REQUIRE(built["notes"].size() == 1);
    CHECK(contains(built["notes"][0].get<std::string>(), "made for sm_90"));
    CHECK(contains(sandbox.tilec({"build", "--arch", "sm_90a", "--add", "9"}).out, "sm_90a: "));
    CHECK(sandbox.json({"build", "--arch", "sm_90a", "--add", "9"})["present"] == 1);
  }

  TEST_CASE("without NVRTC, only what has to be compiled is an error") {
    Sandbox sandbox;
    if (!has_nvrtc(sandbox)) return skip("no NVRTC");
    CHECK(sandbox.json({"build", "--arch", "sm_80", "--add", "9"})["built"] == 1);
    sandbox.set("TILEC_NVRTC", "/nonexistent/libnvrtc.so");
    CHECK(sandbox.json({"build", "--arch", "sm_80", "--add", "9"})["present"] == 1);
    const json dry = sandbox.json({"build", "--arch", "sm_86", "--add", "9", "--dry-run"});
    CHECK(dry["kernels"][0]["status"] == "missing");
    const Ran ran = sandbox.tilec({"build", "--arch", "sm_80,sm_86", "--add", "9"});
    CHECK(ran.status == 1);
    CHECK(ran.out.empty());
    CHECK(contains(ran.err, "1 of the kernels"));
    CHECK(contains(ran.err, "/nonexistent/libnvrtc.so"));
  }
}

}  // namespace tilec::test

// tilec info on machines with GPUs that can't all be had, over a made-up driver.
#include <doctest/doctest.h>

#include "process.h"

namespace tilec::test {
namespace {

using nlohmann::json;

TEST_SUITE("cpu") {
  TEST_CASE("info lists GPUs without a context on any") {
    Sandbox sandbox;
    sandbox.set("LD_LIBRARY_PATH", TILEC_FAKE_CUDA_DIR);
    sandbox.set("FAKE_CUDA", "fail=cuDevicePrimaryCtxRetain:46 mode=3");
    const json cuda = sandbox.json({"info"})["cuda"];
    CHECK(cuda["available"] == true);
    REQUIRE(cuda["devices"].size() == 2);
    CHECK(cuda["devices"][0]["name"] == "cuda:0 (Fake GPU)");
    CHECK(cuda["devices"][1]["name"] == "cuda:1 (Fake GPU, the other)");
    CHECK(cuda["devices"][1]["facts"]["target"] == "sm_80");
    CHECK(cuda["devices"][1]["note"] == "its compute mode lets in one process at a time");
    CHECK(contains(sandbox.tilec({"info"}).out, "\n              its compute mode lets in one"));
  }

  TEST_CASE("info goes on behind a GPU that can't be told of") {
    Sandbox sandbox;
    sandbox.set("LD_LIBRARY_PATH", TILEC_FAKE_CUDA_DIR);
    for (const int after : {0, 1}) {
      sandbox.set("FAKE_CUDA",
                  after == 0 ? "fail=cuDeviceGetName:999" : "fail=cuDeviceGetName:999:1");
      const json cuda = sandbox.json({"info"})["cuda"];
      CHECK(cuda["available"] == (after == 1));
      REQUIRE(cuda["devices"].size() == 2);
      CHECK(cuda["devices"][0].contains("facts") == (after == 1));
      CHECK(contains(cuda["devices"][1]["reason"], "cuDeviceGetName failed: CUDA_ERROR_UNKNOWN"));
      CHECK(contains(sandbox.tilec({"info"}).out, "cuda          cuda:1: cuDeviceGetName failed"));
    }
  }

  TEST_CASE("info says why there is no GPU") {
    Sandbox sandbox;
    sandbox.set("LD_LIBRARY_PATH", TILEC_FAKE_CUDA_DIR);
    for (const char* absence : {"devices=0", "init=802"}) {
      sandbox.set("FAKE_CUDA", absence);
      const json cuda = sandbox.json({"info"})["cuda"];
      CHECK(cuda["available"] == false);
      CHECK(cuda["devices"].empty());
      CHECK(contains(cuda["reason"], "--device host"));
      CHECK(contains(sandbox.tilec({"info"}).out, "cuda          none: "));
    }
  }
}

}  // namespace
}  // namespace tilec::test

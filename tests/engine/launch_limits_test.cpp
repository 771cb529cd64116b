// What a launch may ask for, checked when it is planned.
#include "plan/launch_limits.h"

#include <limits>

#include "small_engine.h"

namespace tilec::test {
namespace {

Choice choice() {
  return {.kernel = std::make_shared<const KernelTemplate>(small_add()),
          .parameters = {{"NUMBER", 1}},
          .target = Target::parse("sm_80")};
}

const DeviceFacts kFacts = typical_facts(Target::parse("sm_80"));

std::string refusal(const LaunchShape& shape) {
  const Error error = error_of([&] { expect_launchable(choice(), shape, kFacts); });
  CHECK(error.kind() == ErrorKind::unsupported);
  return error.what();
}

std::string misfit(const cache::EntryPoint& entry, const LaunchShape& shape) {
  const Error error = error_of([&] { expect_fits(entry, shape, kFacts, "the kernel"); });
  CHECK(error.kind() == ErrorKind::unsupported);
  return error.what();
}

TEST_SUITE("cpu") {
  TEST_CASE("launch limits: the threads of a block are counted in 64 bits") {
    CHECK(LaunchShape{.block = {65536, 65536, 1}}.threads() == std::int64_t{1} << 32);
    constexpr int most = std::numeric_limits<int>::max();
    CHECK(LaunchShape{.block = {most, most, most}}.threads() ==
          std::numeric_limits<std::int64_t>::max());
    for (const std::array<int, 3> block : std::vector<std::array<int, 3>>{{65536, 65536, 1},
                                                                          {65536, 65537, 1},
                                                                          {65536, 1, 65536},
                                                                          {4096, 1024, 1024},
                                                                          {most, most, 64},
                                                                          {1025, 1, 1},
                                                                          {1, 1025, 1},
                                                                          {1, 1, 65},
                                                                          {33, 32, 1},
                                                                          {0, 1, 1},
                                                                          {-32, -32, 1},
                                                                          {1 << 16, 1 << 16, 0}}) {
      CHECK(contains(refusal({.block = block}), "CUDA's limit is 1024"));
    }
    expect_launchable(choice(), {.block = {1024, 1, 1}}, kFacts);
    expect_launchable(choice(), {.block = {4, 4, 64}}, kFacts);
  }

  TEST_CASE("launch limits: grids and shared memory") {
    CHECK(contains(refusal({.grid = {1, 65536, 1}}), "1×65536×1"));
    CHECK(contains(refusal({.grid = {std::int64_t{1} << 32, 1, 1}}), "4294967296"));
    CHECK(contains(refusal({.grid = {-1, 1, 1}}), "-1×1×1"));
    CHECK(contains(refusal({.shared_bytes = kFacts.shared_bytes_block + 1}), "shared memory"));
    CHECK(contains(refusal({.shared_bytes = std::int64_t{1} << 40}), "shared memory"));
    CHECK(contains(refusal({.shared_bytes = -1}), "shared memory"));
    expect_launchable(
        choice(), {.grid = {0x7fffffff, 65535, 65535}, .shared_bytes = kFacts.shared_bytes_block},
        kFacts);
    expect_launchable(choice(), {.grid = {0, 1, 1}}, kFacts);
  }

  TEST_CASE("launch limits: what the code adds") {
    const int most = kFacts.shared_bytes_block;
    expect_fits({.static_shared_bytes = 1024}, {.shared_bytes = most - 1024}, kFacts, "");
    const std::string shared = misfit({.static_shared_bytes = 1024}, {.shared_bytes = most - 1023});
    CHECK_MESSAGE(contains(shared, std::to_string(most + 1) + " bytes"), shared);
    CHECK(contains(shared, "1024 static"));
    CHECK(contains(shared, "the device has " + std::to_string(most)));

    expect_fits({.max_threads = 128}, {.block = {64, 2, 1}}, kFacts, "");
    CHECK(contains(misfit({.max_threads = 128}, {.block = {129, 1, 1}}), "launch bounds"));

    expect_fits({.registers = 64}, {.block = {1024, 1, 1}}, kFacts, "");
    expect_fits({.registers = 255}, {.block = {256, 1, 1}}, kFacts, "");
    CHECK(contains(misfit({.registers = 65}, {.block = {1024, 1, 1}}), "65 registers"));
    // Registers are given out in units: 31 warps of 66 a thread would fit if they weren't.
    CHECK(contains(misfit({.registers = 66}, {.block = {992, 1, 1}}), "992 threads"));
  }

  TEST_CASE("launch limits: a plan is refused before anything is launched") {
    const TemporaryFolder folder;
    const Options options = without_nvrtc(options_in(folder.path()));
    KernelTemplate kernel = small_add();
    kernel.launch = [](const Problem&, const Parameters&) {
      return LaunchShape{.block = {512, 1, 1}, .shared_bytes = kFacts.shared_bytes_block - 2000};
    };
    const Engine engine = engine_for("sm_80", options, kernel);
    const auto plan = [&](int number, const MadeUp& made_up) {
      publish_made_up(engine, kProblem, small(number), made_up);
      engine.plan(kProblem, small(number));
    };
    plan(1, {.static_shared_bytes = 2000, .max_threads = 512});
    const MadeUp bad[] = {{.static_shared_bytes = 2001}, {.max_threads = 511}, {.registers = 200}};
    for (int number = 2; const MadeUp& made_up : bad) {
      const Error error = error_of([&] { plan(number++, made_up); });
      CHECK(error.kind() == ErrorKind::unsupported);
      CHECK(contains(error.what(), "small_add"));
    }
  }
}

}  // namespace
}  // namespace tilec::test

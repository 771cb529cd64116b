// The life of engines and plans on the CUDA device over a made-up driver, with kernels that no
// compiler made: what they tell, what they share between threads, what lives how long.
#include <thread>

#include "stocked.h"

namespace tilec::test {
namespace {

TEST_SUITE("cpu tsan") {
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

  TEST_CASE("cuda plan: a template replaced in the midst of a plan with it") {
    const Stocked stocked;
    const AddProblem problem{.shape = {8}};
    const PlanOptions named{.template_name = "small_add"};
    const KernelTemplate second = small_add("small_add", "// second");
    KernelTemplate first = small_add("small_add", "// first");
    stocked.engine.register_template(second);
    publish_made_up(stocked.engine, problem, named);
    stocked.engine.register_template(first);
    publish_made_up(stocked.engine, problem, named);
    first.launch = [&](const Problem&, const Parameters&) {
      stocked.engine.register_template(second);
      return LaunchShape{};
    };
    stocked.engine.register_template(first);
    const Add in_the_midst = stocked.engine.plan(problem, named);
    const Add later = stocked.engine.plan(problem, named);
    CHECK(later.key() != in_the_midst.key());
    CHECK(later.key() == stocked.engine.preview(problem, named).key);
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

}  // namespace
}  // namespace tilec::test

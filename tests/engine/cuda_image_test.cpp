// Which image of a kernel is loaded where the driver rejects some. Over a made-up driver.
#include "stocked.h"

namespace tilec::test {
namespace {

TEST_SUITE("cpu tsan") {
  TEST_CASE("cuda image: a rejected image gives way to the next builder's") {
    const Stocked stocked;
    const GemmProblem problem{.M = 8, .N = 8, .K = 8};
    publish_made_up(stocked.engine, problem, {}, {.builder = "nvrtc-12.8.93", .tag = "old one"});
    publish_made_up(stocked.engine, problem, {}, {.builder = "nvrtc-13.9.1", .tag = "too new"});
    fake_cuda::reject("too new", CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    publish_made_up(stocked.engine, problem, {}, {.builder = "nvrtc-13.1.5", .tag = "too new"});
    const Gemm gemm = stocked.engine.plan(problem);
    CHECK(gemm.info().launches[0].builder == "nvrtc-12.8.93");
    const std::string warnings = stocked.messages.all_warnings();
    CHECK(contains(warnings, "the CUDA driver (13.0) does not take"));
    CHECK(contains(warnings, "built by nvrtc-13.9.1"));
    CHECK(entries_in(stocked.folder / "cache").size() == 3);  // another driver may take it

    fake_cuda::reject("old one", CUDA_ERROR_NO_BINARY_FOR_GPU);
    stocked.engine.trim();
    const Gemm kept = gemm;
    const Engine other(Device::cuda(0), stocked.engine.options());
    fake_cuda::reset();
    CHECK(other.plan(problem).info().launches[0].builder == "nvrtc-13.9.1");
  }

  TEST_CASE("cuda image: every image rejected, and nothing to compile with") {
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

  TEST_CASE("cuda image: the required builder's image is rejected: both versions are named") {
    for (const CachePolicy policy : {CachePolicy::normal, CachePolicy::must_hit}) {
      const std::string builder = unheard_of_builder();
      Options options;
      options.cache_policy = policy;
      options.require_builder = builder;
      const Stocked stocked(options);
      const GemmProblem problem{.M = 8, .N = 8, .K = 8};
      const PlanOptions named{.template_name = "gemm_naive", .parameters = {{"BLOCK_X", 16}}};
      publish_made_up(stocked.engine, problem, named, {.builder = builder, .tag = "required"});
      publish_made_up(stocked.engine, problem, named, {.tag = "another's"});
      fake_cuda::reject("required", CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
      const Error error = error_of([&] { stocked.engine.plan(problem, named); });
      fake_cuda::reset();
      CHECK_MESSAGE(contains(error.what(), "built by " + builder), error.what());
      CHECK(contains(error.what(), "the CUDA driver (13.0) does not take"));
      CHECK(stocked.engine.plan(problem, named).info().launches[0].builder == builder);
    }
  }

  TEST_CASE("cuda image: where the first choice can't be here, the next one serves") {
    const Stocked stocked;
    KernelTemplate kernel = small_gemm("choosy");
    for (int number = 1; number <= 4; ++number) {
      kernel.candidates.push_back({.shape = ShapeClass::tiny,
                                   .parameters = {{"NUMBER", number}},
                                   .preference = 100 + number});
    }
    kernel.launch = [](const Problem&, const Parameters& parameters) {
      return LaunchShape{.block = {integer(parameters, "NUMBER") == 4 ? 65536 : 32, 1, 1}};
    };
    stocked.engine.register_template(kernel);
    const GemmProblem problem{.M = 8, .N = 8, .K = 8};
    const auto publish = [&](int number, const MadeUp& made_up) {
      publish_made_up(stocked.engine, problem,
                      {.template_name = "choosy", .parameters = {{"NUMBER", number}}}, made_up);
    };
    publish(3, {.tag = "bad", .registers = 31});
    publish(2, {.static_shared_bytes = 1 << 20});
    fake_cuda::reject("bad", CUDA_ERROR_NO_BINARY_FOR_GPU);
    const Error error =
        error_of([&] { stocked.engine.plan(problem, {.template_name = "choosy"}); });
    CHECK(error.kind() == ErrorKind::unsupported);
    CHECK_MESSAGE(contains(error.what(), "choosy NUMBER=4 would need blocks of 65536"),
                  error.what());
    CHECK(contains(error.what(), "3 other choices were tried"));
    const std::string reasons = stocked.messages.all_warnings();
    CHECK_MESSAGE(contains(reasons, "choosy NUMBER=2 does not serve: "), reasons);

    publish(1, {});
    const Gemm gemm = stocked.engine.plan(problem);
    fake_cuda::reset();
    CHECK(describe(gemm.info().launches[0].parameters) == "NUMBER=1");
    const std::string warnings = stocked.messages.all_warnings();
    CHECK_MESSAGE(contains(warnings, "in place of choosy NUMBER=4: "), warnings);
    CHECK(contains(warnings, "in place of choosy NUMBER=3: "));
    CHECK(contains(warnings, "in place of choosy NUMBER=2: "));
    CHECK(contains(warnings, "65536"));
    CHECK(contains(warnings, "CUDA_ERROR_NO_BINARY_FOR_GPU"));
    CHECK(contains(warnings, "1048576 static"));
  }

  TEST_CASE("cuda image: launch bounds that only the driver knows are minded when it is planned") {
    const Stocked stocked;
    const GemmProblem problem{.M = 8, .N = 8, .K = 8};
    const PlanOptions named{.template_name = "gemm_regn", .parameters = {{"TILE", 16}}};
    publish_made_up(stocked.engine, problem, named, {.tag = "bounded"});
    fake_cuda::reset();
    fake_cuda::set_max_threads(1);
    const Error error = error_of([&] { stocked.engine.plan(problem, named); });
    fake_cuda::reset();
    CHECK(error.kind() == ErrorKind::unsupported);
    CHECK_MESSAGE(contains(error.what(), "its code is made for 1 at most"), error.what());
  }

  TEST_CASE("cuda image: a fault of the driver is no reason to try the next choice") {
    const Stocked stocked;
    KernelTemplate kernel = small_gemm("faulty");
    for (int number = 1; number <= 2; ++number) {
      kernel.candidates.push_back({.shape = ShapeClass::tiny,
                                   .parameters = {{"NUMBER", number}},
                                   .preference = 100 + number});
    }
    kernel.candidates.push_back(
        {.shape = ShapeClass::tiny, .parameters = {{"NUMBER", 3}}, .preference = 103});
    kernel.launch = [](const Problem&, const Parameters& parameters) {
      return LaunchShape{.block = {integer(parameters, "NUMBER") == 3 ? 65536 : 32, 1, 1}};
    };
    stocked.engine.register_template(kernel);
    const GemmProblem problem{.M = 8, .N = 8, .K = 8};
    for (const int number : {1, 2}) {
      publish_made_up(stocked.engine, problem,
                      {.template_name = "faulty", .parameters = {{"NUMBER", number}}});
    }
    fake_cuda::reset();
    fake_cuda::fail("cuLibraryLoadData", CUDA_ERROR_OUT_OF_MEMORY);
    const Error error = error_of([&] { stocked.engine.plan(problem); });
    CHECK(error.kind() == ErrorKind::driver);
    CHECK(contains(error.what(), "CUDA_ERROR_OUT_OF_MEMORY"));
    CHECK(fake_cuda::count("cuLibraryLoadData") == 1);
    // What was passed over before is told all the same.
    CHECK(contains(stocked.messages.all_warnings(), "faulty NUMBER=3 does not serve: "));
    fake_cuda::reset();
  }

  TEST_CASE("cuda image: PTX of the same builder stands in for a cubin that is rejected") {
    Options options;
    options.cache_policy = CachePolicy::must_hit;
    const Stocked stocked(options);
    const GemmProblem problem{.M = 8, .N = 8, .K = 8};
    publish_made_up(stocked.engine, problem, {}, {.builder = "nvrtc-99.7.0", .tag = "cubin"});
    const Engine for_ptx(offline("compute_80"), stocked.engine.options());
    publish_made_up(for_ptx, problem, {},
                    {.builder = "nvrtc-99.7.0", .tag = "ptx", .registers = 0});
    fake_cuda::reject("cubin", CUDA_ERROR_NO_BINARY_FOR_GPU);
    const Gemm gemm = stocked.engine.plan(problem);
    fake_cuda::reset();
    CHECK(gemm.info().launches[0].target == "compute_80");
    CHECK(gemm.key() == for_ptx.preview(problem).key);
    CHECK(gemm.info().launches[0].registers == 48);  // asked of the driver
    CHECK(gemm.info().launches[0].static_shared_bytes == 1024);
    gemm.run(whole());
  }

  TEST_CASE("cuda image: under must_hit the best that is present is the choice") {
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
}

TEST_SUITE("nvrtc") {
  TEST_CASE("cuda image: compiled by NVRTC, which finds the same driver") {
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

  TEST_CASE("cuda image: what was compiled here and is rejected names both versions") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Engine engine(Device::cuda(0), options_in(folder.path()));
    fake_cuda::fail("cuLibraryLoadData", CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 2);  // and its PTX
    const PlanOptions named{.template_name = "add_tiled", .parameters = {{"TILE", 4}}};
    const Error error = error_of([&] { engine.plan(AddProblem{.shape = {100}}, named); });
    fake_cuda::reset();
    CHECK(error.kind() == ErrorKind::driver);
    CHECK(contains(error.what(), "the CUDA driver (13.0) does not take add_tiled"));
    CHECK(contains(error.what(), "built by nvrtc-1"));
    CHECK(contains(error.what(), "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"));
    CHECK(contains(error.what(), "Nor does its PTX serve"));
    CHECK(engine.stats().compiles == 2);
    engine.plan(AddProblem{.shape = {100}}, named);
    CHECK(engine.stats().compiles == 2);  // it is in the cache; another driver may take it
  }

  TEST_CASE("cuda image: what the driver goes on rejecting is compiled once") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const PlanOptions named{.template_name = "add_tiled", .parameters = {{"TILE", 16}}};
    for (const bool ptx_too : {false, true}) {
      const Options options = options_in(folder / (ptx_too ? "both" : "cubin"));
      for (int process = 0; process < 3; ++process) {
        const Engine engine(Device::cuda(0), options);
        engine.trim();
        fake_cuda::reset();
        fake_cuda::fail("cuLibraryLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU, ptx_too ? 2 : 1);
        const auto plan = [&] {
          return engine.plan(AddProblem{.shape = {100}}, named).info().launches[0].target;
        };
        if (ptx_too) {
          CHECK(contains(error_of(plan).what(), "Nor does its PTX serve"));
        } else {
          CHECK(plan() == "compute_90");
        }
        fake_cuda::reset();
        CHECK(engine.stats().compiles == (process == 0 ? 2 : 0));
      }
    }
  }

  TEST_CASE("cuda image: what was compiled here and is rejected gives way to its PTX") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Messages messages;
    Options options = options_in(folder.path());
    options.logger = messages.logger();
    const Engine engine(Device::cuda(0), options);
    fake_cuda::fail("cuLibraryLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU);
    const PlanOptions named{.template_name = "add_tiled", .parameters = {{"TILE", 8}}};
    const Add add = engine.plan(AddProblem{.shape = {100}}, named);
    fake_cuda::reset();
    CHECK(add.info().launches[0].target == "compute_90");
    CHECK(add.key() != engine.preview(AddProblem{.shape = {100}}, named).key);
    CHECK(entries_in(folder.path()).size() == 2);
    CHECK(contains(messages.all_warnings(), "trying PTX (compute_90)"));
  }

  TEST_CASE(
      "cuda image: a fault of the driver beside the PTX is no rejection, and ends the search") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Engine engine(Device::cuda(0), options_in(folder.path()));
    engine.trim();  // another test's kernel of the same name
    fake_cuda::fail("cuLibraryLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU);
    fake_cuda::fail("cuKernelGetFunction", CUDA_ERROR_OUT_OF_MEMORY);
    const Error error = error_of([&] { engine.plan(AddProblem{.shape = {100}}); });
    fake_cuda::reset();
    CHECK(contains(error.what(), "cuKernelGetFunction failed: CUDA_ERROR_OUT_OF_MEMORY"));
    CHECK_FALSE(contains(error.what(), "Nor does its PTX serve"));
    CHECK(engine.stats().compiles == 2);  // a cubin and its PTX, of the first choice alone
  }
}

}  // namespace
}  // namespace tilec::test

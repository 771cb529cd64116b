// From a problem to an artifact, within one process: policies, keys, stand-ins, roots, builders.
#include <thread>

#include "plan/record.h"
#include "small_engine.h"

namespace tilec::test {
namespace {

// What a process prints that plans for a GPU, which the made-up driver shows.
std::string plan_on_gpu(int sm, const fs::path& cache, Environment environment = {}) {
  environment["LD_LIBRARY_PATH"] = TILEC_FAKE_CUDA_DIR;
  environment["FAKE_CUDA"] = "sm=" + std::to_string(sm);
  environment["TILEC_CACHE_DIR"] = cache.string();
  return run({.arguments = {"plan", "device=cuda:0"}, .environment = environment}).output;
}

TEST_SUITE("nvrtc") {
  TEST_CASE("obtain: the compiler, then memory, then the disk") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder("cache with spaces, äöü and 日本語");
    const Options options = options_in(folder.path());
    std::string key;
    {
      const Engine engine = engine_for("sm_80", options);
      const Add add = engine.plan(kProblem, small());
      key = add.key();
      const PlanInfo info = add.info();
      CHECK(info.origin == Origin::compiler);
      CHECK(info.origin_path.empty());
      CHECK(launch_of(info).builder.starts_with("nvrtc-1"));
      CHECK(launch_of(info).target == "sm_80");
      CHECK(launch_of(info).registers > 0);
      CHECK(launch_of(info).occupancy > 0);
      CHECK(launch_of(info).compile_seconds > 0);
      CHECK(launch_of(info).entry == "small_add");
      CHECK(launch_of(info).not_kept.empty());
      CHECK(engine.plan(kProblem, small()).origin() == Origin::memory);
      CHECK(engine.preview(kProblem, small()).key == key);
      const Stats stats = engine.stats();
      CHECK(stats.compiles == 1);
      CHECK(stats.failed_compiles == 0);
      CHECK(stats.memory_hits == 1);
      CHECK(stats.misses == std::map<std::string, std::uint64_t>{{"never built", 1}});
      CHECK(stats.bytes_written > 0);
      CHECK(stats.compile_seconds > 0);
    }
    REQUIRE(entries_in(folder.path()).size() == 1);
    const Engine engine = engine_for("sm_80", without_nvrtc(options));
    const PlanInfo info = engine.plan(kProblem, small()).info();
    CHECK(info.origin == Origin::disk);
    CHECK(fs::path(info.origin_path) == entries_in(folder.path())[0]);
    CHECK(launch_of(info).key == key);
    CHECK(launch_of(info).registers > 0);
    CHECK(launch_of(info).compile_seconds > 0);
    CHECK(engine.stats().compiles == 0);
    CHECK(engine.stats().hits.at("own") == 1);
    CHECK(engine.cache_problems().empty());
  }

  TEST_CASE("obtain: what every shipped kernel tells of itself") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Engine engine(offline("sm_90a"), options_in(folder.path()));
    const GemmProblem gemm{.M = 300, .N = 200, .K = 100};
    for (const char* name : {"gemm_naive", "gemm_regn"}) {
      const PlanInfo info = engine.plan(gemm, {.template_name = name}).info();
      CAPTURE(std::string(name));
      CHECK(launch_of(info).entry == name);
      CHECK(launch_of(info).target == "sm_90");
      CHECK(launch_of(info).registers >= 16);
      CHECK(launch_of(info).spill_bytes == 0);
      CHECK(launch_of(info).static_shared_bytes == 0);
      CHECK(launch_of(info).occupancy > 0);
      CHECK(launch_of(info).occupancy <= 1);
    }
    const std::string body =
        "__shared__ int numbers[256]; numbers[threadIdx.x] = NUMBER;"
        "__syncthreads(); if (args.n < 0) *(int*)args.out = numbers[0];";
    engine.register_template(small_add("has_static", body));
    const PlanInfo info = engine.plan(kProblem, {.template_name = "has_static"}).info();
    CHECK(launch_of(info).static_shared_bytes >= 1024);
  }

  TEST_CASE("obtain: refresh replaces, off leaves the disk alone") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Options options = options_in(folder / "cache");
    const auto origin = [&](CachePolicy policy) {
      const Engine engine = engine_for("sm_80", with(options, policy));
      return engine.plan(kProblem, small()).origin();
    };
    CHECK(origin(CachePolicy::off) == Origin::compiler);
    CHECK_FALSE(fs::exists(folder / "cache"));
    CHECK(origin(CachePolicy::refresh) == Origin::compiler);
    CHECK(origin(CachePolicy::normal) == Origin::disk);
    CHECK(origin(CachePolicy::must_hit) == Origin::disk);

    const fs::path entry = entries_in(folder / "cache").at(0);
    const std::string before = read_text(entry);
    write_text(entry, "damage");
    CHECK(origin(CachePolicy::off) == Origin::compiler);
    CHECK(read_text(entry) == "damage");
    CHECK(origin(CachePolicy::refresh) == Origin::compiler);
    CHECK(read_text(entry).size() > before.size() / 2);
    CHECK(origin(CachePolicy::must_hit) == Origin::disk);

    // Refreshing without a compiler is an error, not what the cache holds.
    const Engine engine = engine_for("sm_80", without_nvrtc(with(options, CachePolicy::refresh)));
    CHECK(error_of([&] { engine.plan(kProblem, small()); }).kind() == ErrorKind::unsupported);
  }

  TEST_CASE("obtain: a miss under must_hit says what differs") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Options options = options_in(folder.path());
    const Options must = with(without_nvrtc(options), CachePolicy::must_hit);
    const auto miss = [&](const char* target, const Options& how, const PlanOptions& what,
                          const KernelTemplate& kernel = small_add()) {
      const Engine engine = engine_for(target, how, kernel);
      const Error error = error_of([&] { engine.plan(kProblem, what); });
      CHECK(error.kind() == ErrorKind::cache_miss);
      CHECK(contains(error.what(), "small_add T=f32 NUMBER="));
      CHECK(contains(error.what(), "tilec build"));
      return std::string(error.what());
    };
    CHECK(contains(miss("sm_80", must, small()), "nothing of this template was ever built here"));
    const Add built = engine_for("sm_80", options).plan(kProblem, small());

    std::string message = miss("sm_80", must, small(2));
    CHECK_MESSAGE(contains(message, "parameter NUMBER (2 wanted, 1 there)"), message);
    CHECK(contains(message, built.key()));
    message = miss("sm_75", must, small());
    CHECK_MESSAGE(contains(message, "target (sm_75 wanted, sm_80 there)"), message);
    message = miss("sm_75", must, small(3));
    CHECK_MESSAGE(contains(message, "parameter NUMBER (3 wanted, 1 there)"), message);
    CHECK_MESSAGE(contains(message, "target (sm_75 wanted, sm_80 there)"), message);
    message = miss("sm_80", must, small(), small_add("small_add", "// changed"));
    CHECK_MESSAGE(contains(message, "source, headers or options"), message);
    Options pinned = must;
    pinned.require_builder = "nvrtc-1.2.3";
    message = miss("sm_80", pinned, small());
    CHECK_MESSAGE(contains(message, "builder (nvrtc-1.2.3 wanted"), message);
    CHECK(engine_for("sm_80", must).stats().compiles == 0);
  }

  TEST_CASE("obtain: under must_hit an older cubin of the same family stands in on a GPU") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Options options = options_in(folder.path());
    const Environment must{{"TILEC_CACHE_POLICY", "must_hit"}, {"TILEC_NVRTC", "/nowhere/nvrtc"}};
    const auto planned = [&](int sm) { return plan_on_gpu(sm, folder.path(), must); };
    const Add built = engine_for("sm_80", options).plan(kProblem, small());
    for (const int sm : {86, 89}) {
      const std::string told = planned(sm);
      CHECK_MESSAGE(contains(told, "origin=disk"), told);
      CHECK(contains(told, "target=sm_80"));
      CHECK(contains(told, "key=" + built.key()));
    }
    for (const int sm : {75, 90, 120}) CHECK(contains(planned(sm), "cache_miss"));
    // PTX serves every later GPU.
    engine_for("compute_75", options).plan(kProblem, small());
    for (const int sm : {75, 90, 120}) CHECK(contains(planned(sm), "target=compute_75"));
    CHECK(contains(planned(86), "target=sm_80"));
    // With a compiler and no policy against it, the right code is made.
    CHECK(contains(plan_on_gpu(86, folder.path()), "target=sm_86"));
  }

  TEST_CASE("obtain: nothing stands in for what is compiled to be kept") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Options options = options_in(folder.path());
    engine_for("compute_75", options).plan(kProblem, small());
    engine_for("sm_80", options).plan(kProblem, small());
    for (const CachePolicy policy : {CachePolicy::normal, CachePolicy::must_hit}) {
      const Engine engine = engine_for("sm_86", with(without_nvrtc(options), policy));
      const Error error = error_of([&] { engine.plan(kProblem, small()); });
      CHECK(error.kind() ==
            (policy == CachePolicy::normal ? ErrorKind::unsupported : ErrorKind::cache_miss));
    }
  }

  TEST_CASE("obtain: a GPU newer than the compiler gets PTX under a key of its own") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Options options = options_in(folder.path());
    const auto plan = [&](const std::string& nvrtc) {
      return plan_on_gpu(199, folder.path(),
                         nvrtc.empty() ? Environment{} : Environment{{"TILEC_NVRTC", nvrtc}});
    };
    const std::string first = plan({});
    REQUIRE_MESSAGE(contains(first, "origin=compiler"), first);
    const std::size_t at = first.find("target=compute_1");
    REQUIRE(at != std::string::npos);
    const std::string target = first.substr(at + 7, first.find('\n', at) - at - 7);
    const std::string key = engine_for(target.c_str(), options).preview(kProblem, small()).key;
    CHECK(contains(first, "key=" + key));
    const cache::Store store({.root = folder.path()});
    const cache::LookUp found = store.look_up(*cache::Key::parse(key));
    REQUIRE(found);
    CHECK(found.entry->metadata.kind == "ptx");
    CHECK(found.entry->metadata.target == target);
    CHECK(found.entry->payload.back() == std::byte{0});

    // Also where no compiler tells what the highest PTX is.
    for (const char* nvrtc : {"", "/nowhere/libnvrtc.so"}) {
      const std::string again = plan(nvrtc);
      CHECK_MESSAGE(contains(again, "origin=disk"), again);
      CHECK(contains(again, "key=" + key));
    }
    // A GPU older than the compiler's oldest can't be served at all.
    const Engine old = engine_for("sm_80", options);
    KernelTemplate any = small_add();
    any.least_sm = 50;
    const Error error =
        error_of([&] { engine_for("sm_52", options, any).plan(kProblem, small()); });
    CHECK(error.kind() == ErrorKind::unsupported);
    CHECK_MESSAGE(contains(error.what(), "sm_52 can't be compiled for"), error.what());
    CHECK(contains(error.what(), "sm_90"));
  }

  TEST_CASE("obtain: without NVRTC, what stands in, else an error that says where it looked") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Options options = options_in(folder.path());
    engine_for("sm_80", options).plan(kProblem, small());
    const std::string told =
        plan_on_gpu(86, folder.path(), {{"TILEC_NVRTC", "/nowhere/libnvrtc.so"}});
    CHECK_MESSAGE(contains(told, "target=sm_80"), told);
    const Engine deployed = engine_for("sm_80", without_nvrtc(options));
    const Error error = error_of([&] { deployed.plan(kProblem, small(2)); });
    CHECK(error.kind() == ErrorKind::unsupported);
    CHECK(contains(error.what(), "NVRTC"));
    CHECK(contains(error.what(), "/nowhere/libnvrtc.so"));
    CHECK(contains(error.what(), "TILEC_NVRTC"));
    CHECK(contains(error.what(), "nvidia-cuda-nvrtc"));
    // Installed later, it is found then.
  }

  TEST_CASE("obtain: distinct entries for whatever differs in the code") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    std::map<std::string, std::string> keys;  // to what they are for
    const auto planned = [&](const std::string& what, const char* target,
                             const KernelTemplate& kernel, DType type, int number) {
      const Engine engine = engine_for(target, options_in(folder.path()), kernel);
      const Add add = engine.plan(AddProblem{.shape = {100}, .dtype = type}, small(number));
      CHECK(add.origin() == Origin::compiler);
      CHECK_MESSAGE(keys.emplace(add.key(), what).second, what, " and ", keys[add.key()]);
    };
    const KernelTemplate plain = small_add();
    planned("plain", "sm_80", plain, f32, 1);
    planned("parameter", "sm_80", plain, f32, 2);
    planned("dtype", "sm_80", plain, f16, 1);
    planned("target", "sm_90", plain, f32, 1);
    planned("ptx", "compute_80", plain, f32, 1);
    planned("body", "sm_80", small_add("small_add", ";"), f32, 1);
    KernelTemplate option = plain;
    option.options = {"--maxrregcount=32"};
    planned("option", "sm_80", option, f32, 1);
    option.options = {"-lineinfo"};
    planned("another option", "sm_80", option, f32, 1);
    KernelTemplate header = plain;
    header.source = "#include \"mine.h\"\n" + header.source;
    header.headers = {{"mine.h", "#include \"deeper/yours.h\"\n"}, {"deeper/yours.h", "// 1\n"}};
    planned("header", "sm_80", header, f32, 1);
    header.headers[1].text = "// 2\n";
    planned("a header's header", "sm_80", header, f32, 1);
    header.headers.push_back({"unused.h", "// not reached"});
    const Engine engine = engine_for("sm_80", options_in(folder.path()), header);
    CHECK(engine.plan(kProblem, small()).origin() == Origin::disk);
    CHECK(entries_in(folder.path()).size() == keys.size());
  }

  TEST_CASE("obtain: shapes and scalars are no part of the key") {
    const TemporaryFolder folder;
    const Engine engine(offline(), options_in(folder.path()));
    const PlanOptions named{.template_name = "gemm_regn", .parameters = {{"TILE", 16}}};
    const auto key = [&](const GemmProblem& problem) { return engine.preview(problem, named).key; };
    CHECK(key({.M = 1, .N = 2, .K = 3}) == key({.M = 1000, .N = 2000, .K = 0, .lda = 7}));
  }

  TEST_CASE("obtain: a pinned builder") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    Options options = options_in(folder.path());
    const std::string builder =
        launch_of(engine_for("sm_80", options).plan(kProblem, small()).info()).builder;
    options.require_builder = builder;
    CHECK(engine_for("sm_80", options).plan(kProblem, small()).origin() == Origin::disk);
    CHECK(engine_for("sm_80", options).plan(kProblem, small(2)).origin() == Origin::compiler);
    // This compiler isn't it: what it makes is not served, nor kept.
    options.require_builder = "nvrtc-1.2.3";
    Messages messages;
    options.logger = messages.logger();
    const Engine engine = engine_for("sm_80", options);
    const Error error = error_of([&] { engine.plan(kProblem, small()); });
    CHECK(error.kind() == ErrorKind::unsupported);
    CHECK(contains(error.what(), "nvrtc-1.2.3"));
    CHECK(contains(error.what(), builder));
    CHECK(engine.stats().failed_compiles == 0);  // nor made at all
    CHECK(entries_in(folder.path()).size() == 2);
    CHECK(messages.warnings().empty());
    // An entry of that builder serves.
    publish_made_up(engine, kProblem, small(), {.builder = "nvrtc-1.2.3"});
    CHECK(launch_of(engine.plan(kProblem, small()).info()).builder == "nvrtc-1.2.3");
  }

  TEST_CASE("obtain: read-only roots and bundles serve, in that order, and are never written") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Add built = engine_for("sm_80", options_in(folder / "filled")).plan(kProblem, small());
    const cache::Store store({.root = folder / "filled"});
    const fs::path bundle = folder / "fleet.bundle";
    REQUIRE(store.export_bundle(bundle).ok);
    const std::string bytes = read_text(bundle);
    struct Row {
      const char* what;
      std::function<void(Options&)> set;
      std::string path, root;
    };
    const Row rows[] = {
        {"root", [&](Options& o) { o.read_only_roots = {folder / "filled"}; }, "filled",
         (folder / "filled").string()},
        {"bundle", [&](Options& o) { o.bundle_files = {bundle}; }, "fleet.bundle", bundle.string()},
        {"embedded",
         [&](Options& o) { o.bundles = {std::as_bytes(std::span(bytes.data(), bytes.size()))}; },
         "", "embedded"},
        {"both",
         [&](Options& o) {
           o.read_only_roots = {folder / "filled"};
           o.bundle_files = {bundle};
         },
         "filled", (folder / "filled").string()},
    };
    for (const Row& row : rows) {
      CAPTURE(std::string(row.what));
      for (const bool own : {true, false}) {
        Options options = with(without_nvrtc(options_in({})), CachePolicy::must_hit);
        if (own) options.cache_dir = folder / "own";
        row.set(options);
        const Engine engine = engine_for("sm_80", options);
        const Add add = engine.plan(kProblem, small());
        CHECK(add.origin() == Origin::disk);
        CHECK(add.key() == built.key());
        CHECK(contains(add.info().origin_path, row.path));
        CHECK(engine.stats().hits.size() == 1);
        CHECK(engine.stats().hits.begin()->first == row.root);
        CHECK(engine.cache_problems().empty());
      }
    }
    CHECK(entries_in(folder / "own").empty());
    CHECK(entries_in(folder / "filled").size() == 1);
  }

  TEST_CASE("obtain: offline plans describe, and can't be run") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Engine engine = engine_for("sm_90a", options_in(folder.path()));
    CHECK(engine.device().name() == "offline sm_90a");
    CHECK_FALSE(engine.device().can_run());
    const Add add = engine.plan(kProblem, small());
    float number = 0;
    const Error error = error_of([&] { add.run(&number, &number, &number); });
    CHECK(error.kind() == ErrorKind::unsupported);
    CHECK(contains(error.what(), "sm_90a"));
    CHECK(contains(error.what(), "Device::host()"));
    const std::function<void()> calls[] = {
        [&] { engine.device().allocate(8); },
        [&] { engine.device().synchronize(); },
        [&] { engine.device().fill(&number, 0, 4); },
        [&] { engine.device().copy_to_device(&number, &number, 4); },
        [&] { engine.device().copy_to_host(&number, &number, 4); },
    };
    for (const auto& call : calls) CHECK(error_of(call).kind() == ErrorKind::unsupported);
    engine.trim();
    CHECK(engine.plan(kProblem, small()).origin() == Origin::disk);
  }

  TEST_CASE("obtain: the problems planned are recorded, once each") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    Options options = options_in(folder / "cache");
    options.record = folder / "record.json";
    const Engine engine = engine_for("sm_80", options);
    for (int repeat = 0; repeat < 3; ++repeat) {
      engine.plan(kProblem, small());
      engine.plan(kProblem, small(2));
    }
    engine.trim();
    engine.plan(kProblem, small());
    const std::string text = read_text(options.record);
    CHECK(std::count(text.begin(), text.end(), '\n') == 2);
    CHECK(contains(text, "\"small_add\""));
    CHECK(contains(text, "\"NUMBER\": 2"));
  }
}

TEST_SUITE("cpu") {
  TEST_CASE("obtain: a record holds the leading dimensions") {
    const auto line = [](const GemmProblem& problem) {
      return manifest_line(normalized(problem), {.template_name = "gemm_regn"});
    };
    CHECK(line({.M = 2, .N = 3, .K = 5}) ==
          R"({"op": "gemm", "M": 2, "N": 3, "K": 5, "dtype": "f32", "template": "gemm_regn"})");
    CHECK(line({.M = 2, .N = 3, .K = 5, .lda = 6, .ldc = 8}) ==
          R"({"op": "gemm", "M": 2, "N": 3, "K": 5, "dtype": "f32", "lda": 6, "ldc": 8, "ldd": 8, )"
          R"("template": "gemm_regn"})");
  }
}

TEST_SUITE("nvrtc tsan") {
  TEST_CASE("obtain: 32 threads, one compile per key") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Engine engine = engine_for("sm_80", options_in(folder.path()));
    std::vector<std::thread> threads;
    std::vector<std::string> keys(32);
    for (int i = 0; i < 32; ++i) {
      threads.emplace_back([&, i] {
        keys[static_cast<std::size_t>(i)] = engine.plan(kProblem, small(i % 4)).key();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 4; i < 32; ++i) CHECK(keys[i] == keys[i - 4]);
    CHECK(keys[0] != keys[1]);
    CHECK(engine.stats().compiles == 4);
    CHECK(entries_in(folder.path()).size() == 4);
  }
}

}  // namespace
}  // namespace tilec::test

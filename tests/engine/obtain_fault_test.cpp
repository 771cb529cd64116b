// What goes wrong on the way to an artifact: kernels that don't compile, damaged entries, caches
// and dump folders that can't be used.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "small_engine.h"

namespace tilec::test {
namespace {

TEST_SUITE("nvrtc") {
  TEST_CASE("obtain faults: a kernel that does not compile") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Options options = options_in(folder.path());
    const std::string body = "\n\n  no_such_function(args.n);";
    const Engine engine = engine_for("sm_80", options, small_add("broken", body));
    for (const int attempt : {1, 2}) {
      const Error error = error_of([&] { engine.plan(kProblem, small(1, "broken")); });
      CHECK(error.kind() == ErrorKind::compile);
      const std::string message = error.what();
      CHECK_MESSAGE(contains(message, "broken T=f32 NUMBER=1 for sm_80 does not compile"), message);
      CHECK(contains(message, "/tilec/broken.cu(5): error"));
      CHECK(contains(message, "no_such_function"));
      CHECK(contains(message, "--gpu-architecture=sm_80"));
      CHECK(contains(message, "--std=c++20"));
      CHECK(contains(error.log(), "/tilec/broken.cu(5): error"));
      CHECK(engine.stats().failed_compiles == static_cast<unsigned>(attempt));
      CHECK(engine.stats().compiles == 0);
    }
    CHECK(entries_in(folder.path()).empty());
    engine.register_template(small_add("broken", ""));
    CHECK(engine.plan(kProblem, small(1, "broken")).origin() == Origin::compiler);
  }

  TEST_CASE("obtain faults: faults that ptxas and the entry's name bring") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Options options = options_in(folder.path());
    const Engine engine = engine_for("sm_80", options);
    const auto fault = [&](const KernelTemplate& kernel) {
      engine.register_template(kernel);
      const Error error = error_of([&] { engine.plan(kProblem, small(1, kernel.name)); });
      CHECK(error.kind() == ErrorKind::compile);
      return std::string(error.what());
    };
    const std::string shared = fault(small_add("large",
                                               "__shared__ int all[65536]; all[threadIdx.x] = 1;"
                                               "__syncthreads(); *(int*)args.out = all[args.n];"));
    CHECK_MESSAGE(contains(shared, "too much shared data"), shared);
    KernelTemplate misnamed = small_add("misnamed");
    misnamed.entry = "elsewhere";
    const std::string entry = fault(misnamed);
    CHECK_MESSAGE(contains(entry, "holds no kernel called 'elsewhere' (it holds misnamed)"), entry);
    KernelTemplate mangled = small_add("mangled");
    mangled.source = "#include \"tilec/add_args.h\"\n__global__ void mangled(tilec::AddArgs) {}\n";
    CHECK(contains(fault(mangled), "extern \"C\""));
    KernelTemplate odd = small_add("odd");
    odd.options = {"--no-such-option"};
    CHECK(contains(fault(odd), "--no-such-option"));
    CHECK(entries_in(folder.path()).empty());
    CHECK(engine.stats().failed_compiles == 4);
  }

  TEST_CASE("obtain faults: a damaged entry is rebuilt, once") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    Messages messages;
    Options options = options_in(folder.path());
    options.logger = messages.logger();
    engine_for("sm_80", options).plan(kProblem, small());
    const fs::path entry = entries_in(folder.path()).at(0);
    const std::string good = read_text(entry);
    for (const std::string& bad :
         {good.substr(0, good.size() / 2), std::string(),
          good.substr(0, good.size() - 9) + "?" + good.substr(good.size() - 8)}) {
      write_text(entry, bad);
      {
        const Engine engine = engine_for("sm_80", options);
        CHECK(engine.plan(kProblem, small()).origin() == Origin::compiler);
        CHECK(engine.stats().compiles == 1);
      }
      CHECK(read_text(entry).size() > good.size() / 2);
      CHECK(engine_for("sm_80", options).plan(kProblem, small()).origin() == Origin::disk);
    }
    CHECK(messages.warnings().size() == 3);
    CHECK(contains(messages.all_warnings(), entry.string()));
    CHECK(contains(messages.all_warnings(), "removed"));
  }

  TEST_CASE("obtain faults: a damaged entry that can't be removed is told and counted once") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    engine_for("sm_80", options_in(folder / "root")).plan(kProblem, small());
    const fs::path entry = entries_in(folder / "root").at(0);
    write_text(entry, "damage");
    Messages messages;
    Options options = options_in(folder / "cache");
    options.read_only_roots = {folder / "root"};
    options.logger = messages.logger();
    const Engine engine = engine_for("sm_80", options);
    CHECK(engine.plan(kProblem, small()).origin() == Origin::compiler);
    REQUIRE(messages.warnings().size() == 1);
    CHECK(contains(messages.warnings()[0], entry.string()));
    std::uint64_t misses = 0;
    for (const auto& [reason, count] : engine.stats().misses) {
      misses += reason == "never built" ? 0 : count;
    }
    CHECK(misses == 1);
    CHECK(read_text(entry) == "damage");
  }

  TEST_CASE(
      "obtain faults: dumps and records follow no planted link, and leave strangers' folders") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    Messages messages;
    Options options = options_in(folder / "cache");
    options.logger = messages.logger();
    options.dump_dir = folder / "dump";
    options.record = folder / "record.jsonl";
    write_text(folder / "precious", "mine");
    const std::string key = engine_for("sm_80", options_in({})).preview(kProblem, small()).key;
    fs::create_directories(folder / "dump" / "tilec");
    for (const fs::path& link :
         {folder / "dump" / (key + ".cu"), folder / "dump" / (key + ".cubin"),
          folder / "dump" / "tilec/add_args.h", folder / "record.jsonl"}) {
      fs::create_symlink(folder / "precious", link);
    }
    engine_for("sm_80", options).plan(kProblem, small());
    CHECK(read_text(folder / "precious") == "mine");
    CHECK(contains(read_text(folder / "dump" / (key + ".cu")), "small_add"));
    CHECK(contains(messages.all_warnings(), "symbolic link"));
    CHECK(contains(messages.all_warnings(), "TILEC_RECORD"));

    Messages others;
    options.logger = others.logger();
    options.record = folder / "open" / "record.jsonl";
    options.dump_dir = folder / "open" / "dump";
    fs::create_directories(folder / "open");
    fs::permissions(folder / "open", fs::perms(0777));
    const Engine engine = engine_for("sm_80", options);
    for (const int number : {1, 2, 3}) engine.plan(kProblem, small(number));
    CHECK(fs::is_empty(folder / "open"));
    CHECK_MESSAGE(others.warnings().size() == 2, others.all_warnings());
    CHECK(contains(others.all_warnings(), "written to by others"));
    CHECK(contains(others.all_warnings(), "TILEC_DUMP_DIR"));
  }

  TEST_CASE("obtain faults: a warning that can't be written ends no program") {
    const TemporaryFolder folder;
    write_text(folder / "a file", "");
    CHECK(in_child([&] {
            const rlimit limit{0, 0};
            setrlimit(RLIMIT_FSIZE, &limit);
            const int errors = open((folder / "errors").c_str(), O_WRONLY | O_CREAT, 0600);
            if (errors < 0 || dup2(errors, STDERR_FILENO) < 0) return 1;
            Options options = options_in(folder / "a file");
            options.logger = nullptr;
            return Engine(offline("sm_80"), options).cache_problems().size() == 1 ? 0 : 2;
          }) == 0);
    CHECK(read_text(folder / "errors").empty());
  }

  TEST_CASE("obtain faults: kernels that are not kept cost one warning a reason") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    Messages messages;
    Options options = options_in(folder / "cache");
    options.cache_max_bytes = 1;
    options.logger = messages.logger();
    const Engine engine = engine_for("sm_80", options);
    for (const int number : {1, 2, 3}) {
      const PlanInfo info = engine.plan(kProblem, small(number)).info();
      CHECK(contains(launch_of(info).not_kept, "more than the cache may hold"));
    }
    REQUIRE_MESSAGE(messages.warnings().size() == 1, messages.all_warnings());
    CHECK(contains(messages.warnings()[0], "not kept"));
  }

  TEST_CASE("obtain faults: a cache that can't be used costs one warning, not the plan") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    write_text(folder / "a file", "");
    struct Row {
      const char* what;
      fs::path cache_dir;
    };
    const Row rows[] = {
        {"a file", folder / "a file"},
        {"below a file", folder / "a file" / "cache"},
        {"in /proc", "/proc/tilec"},
    };
    for (const Row& row : rows) {
      CAPTURE(std::string(row.what));
      Messages messages;
      Options options = options_in(row.cache_dir);
      options.logger = messages.logger();
      const Engine engine = engine_for("sm_80", options);
      const PlanInfo info = engine.plan(kProblem, small()).info();
      CHECK(info.origin == Origin::compiler);
      CHECK(launch_of(info).not_kept == "there is no cache folder");
      CHECK(engine.plan(kProblem, small(2)).origin() == Origin::compiler);
      CHECK(engine.plan(kProblem, small()).origin() == Origin::memory);
      REQUIRE(messages.warnings().size() == 1);
      CHECK_MESSAGE(contains(messages.warnings()[0], row.cache_dir.string()),
                    messages.warnings()[0]);
      CHECK(contains(messages.warnings()[0], "TILEC_CACHE_DIR"));
      CHECK(engine.cache_problems() == messages.warnings());
    }
  }

  TEST_CASE("obtain faults: a cache in a folder that is not there yet") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Options options = options_in(folder / "a" / "b" / "c");
    engine_for("sm_80", options).plan(kProblem, small());
    CHECK(engine_for("sm_80", options).plan(kProblem, small()).origin() == Origin::disk);
  }

  TEST_CASE("obtain faults: dumps, on compiles and on hits") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    Options options = options_in(folder / "cache");
    for (const char* where : {"on a compile", "on a hit"}) {
      options.dump_dir = folder / where;
      const Engine engine = engine_for("sm_80", options);
      const Add add = engine.plan(kProblem, small());
      const fs::path stem = options.dump_dir / add.key();
      CHECK(read_text(stem.string() + ".cu") == engine.source(kProblem, small()).text);
      CHECK(read_text(stem.string() + ".cubin")
                .starts_with("\x7f"
                             "ELF"));
      CHECK(contains(read_text(stem.string() + ".ptx"), ".target sm_80"));
      CHECK(contains(read_text(options.dump_dir / "tilec/add_args.h"), "struct AddArgs"));
    }
    CHECK(read_text(folder / "on a hit" / "tilec/numeric.h") ==
          read_text(fs::path(TILEC_SOURCE_DIR) / "kernel_templates/device/tilec/numeric.h"));
  }

  TEST_CASE("obtain faults: dumps that fail are warnings, and stay within their folder") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    Messages messages;
    Options options = options_in(folder / "cache");
    options.logger = messages.logger();
    write_text(folder / "file", "");
    options.dump_dir = folder / "file";
    CHECK(engine_for("sm_80", options).plan(kProblem, small()).origin() == Origin::compiler);
    CHECK(messages.warnings().size() == 1);
    CHECK(contains(messages.all_warnings(), (folder / "file").string()));

    KernelTemplate kernel = small_add();
    kernel.source = "#include \"../outside.h\"\n#include \"" + (folder / "absolute.h").string() +
                    "\"\n" + kernel.source;
    kernel.headers = {{"../outside.h", "// a"}, {(folder / "absolute.h").string(), "// b"}};
    options.dump_dir = folder / "dump";
    engine_for("sm_80", options, kernel).plan(kProblem, small());
    CHECK(fs::exists(folder / "dump" / "tilec/add_args.h"));
    CHECK_FALSE(fs::exists(folder / "outside.h"));
    CHECK_FALSE(fs::exists(folder / "absolute.h"));

    // On a hit without a compiler there is no PTX to be had.
    options = without_nvrtc(options);
    options.dump_dir = folder / "deployed";
    const Add add = engine_for("sm_80", options).plan(kProblem, small());
    CHECK(add.origin() == Origin::disk);
    CHECK(fs::exists(options.dump_dir / (add.key() + ".cubin")));
    CHECK_FALSE(fs::exists(options.dump_dir / (add.key() + ".ptx")));
  }
}

TEST_SUITE("nvrtc tsan") {
  TEST_CASE("obtain faults: 32 threads that all meet a broken kernel") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const Engine engine = engine_for("sm_80", with(options_in({}), CachePolicy::off),
                                     small_add("broken", "nonsense"));
    std::atomic<int> failed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 32; ++i) {
      threads.emplace_back([&] {
        try {
          engine.plan(kProblem, small(1, "broken"));
        } catch (const Error& error) {
          failed += error.kind() == ErrorKind::compile;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(failed == 32);
  }
}

}  // namespace
}  // namespace tilec::test

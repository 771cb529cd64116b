// tilec build and what follows it, with compilers that really run: NVRTC (nvrtc), the machine's C++
// compiler for the host device (host), and scripts in its place where one has to misbehave (cpu).
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "process.h"
#include "tests/support/skip.h"

namespace tilec::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

bool has(const Sandbox& sandbox, const char* what) {
  return sandbox.json({"info"})[what]["available"].get<bool>();
}

// Whether the machine's compiler is there too. Whatever else is wrong is for the tests to find.
bool can_compile_for_host(const Sandbox& sandbox) {
  const Ran tried = sandbox.tilec({"run", "add", "1", "--device", "host", "--cache-policy", "off"});
  return has(sandbox, "host_device") && !contains(tried.err, "needs a C++20 compiler");
}

// In a C++ compiler's place: says which it is as one does, then hangs on a kernel.
constexpr const char* kHangingCompiler = R"(#!/bin/sh
for word in "$@"; do
  if [ "$word" = -E ]; then
    echo '#define __VERSION__ "12.0.0"'
    exit 0
  fi
done
sleep 1000 &
echo $! >> "$(dirname "$0")/pids"
wait
)";

std::vector<pid_t> pids(const fs::path& file) {
  std::vector<pid_t> list;
  std::ifstream stream(file);
  for (pid_t process = 0; stream >> process;) list.push_back(process);
  return list;
}

bool all_die(const std::vector<pid_t>& processes) {
  for (int i = 0; i < 2500; ++i) {
    if (std::none_of(processes.begin(), processes.end(), alive)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

}  // namespace

TEST_SUITE("nvrtc") {
  TEST_CASE("build → ls → show → verify → why → export → clear → import, for two targets") {
    const Sandbox sandbox;
    if (!has(sandbox, "nvrtc")) return skip("no NVRTC");
    const std::vector<std::string> arguments{"build", "--arch", "sm_80,sm_90", "--add",
                                             "100",   "--gemm", "8,8,8,f16",   "-j2"};
    const json built = sandbox.json(arguments);
    CHECK(built["built"] == 4);
    CHECK(built["failed"] == 0);
    CHECK(sandbox.entries().size() == 4);
    CHECK(sandbox.leftovers().empty());
    const json again = sandbox.json(arguments);
    CHECK(again["built"] == 0);
    CHECK(again["present"] == 4);

    const json ls = sandbox.json({"cache", "ls"});
    CHECK(ls["count"] == 4);
    std::set<std::string> built_keys, listed_keys;
    for (const json& kernel : built["kernels"]) built_keys.insert(kernel["key"].get<std::string>());
    for (const json& entry : ls["entries"]) listed_keys.insert(entry["key"].get<std::string>());
    CHECK(built_keys == listed_keys);
    CHECK(sandbox.json({"cache", "ls", "--target", "sm_90"})["count"] == 2);
    CHECK(sandbox.json({"cache", "ls", "--kind", "host"})["count"] == 0);

    const std::string key = *built_keys.begin();
    const std::string payload = (sandbox.path() / "kernel.cubin").string();
    const json shown = sandbox.json({"cache", "show", key.substr(0, 12), "--payload", payload});
    CHECK(shown["entries"][0]["key"] == key);
    CHECK(read_file(payload).substr(1, 3) == "ELF");
    CHECK(sandbox.json({"cache", "verify"})["good"] == 4);

    const json hit = sandbox.json({"cache", "why", "add", "100", "--arch", "sm_80"});
    CHECK(hit["hit"] == true);
    const json miss = sandbox.json({"cache", "why", "add", "100", "--arch", "sm_89"});
    CHECK(miss["hit"] == false);
    CHECK(miss["nearest"][0]["differences"][0]["field"] == "target");

    const std::string bundle = (sandbox.path() / "b.tilec").string();
    CHECK(sandbox.json({"cache", "export", bundle, "--target", "sm_90"})["entries"] == 2);
    CHECK(sandbox.json({"cache", "clear"})["removed"] == 4);
    CHECK(sandbox.entries().empty());
    CHECK(sandbox.json({"cache", "import", bundle})["entries"] == 2);
    CHECK(sandbox.json({"cache", "import", bundle})["already_there"] == 2);
    CHECK(sandbox.json({"cache", "prune", "--max-size", "1"})["bytes_left"] == 0);
    // A mounted bundle serves without being imported.
    CHECK(sandbox.json({"cache", "ls", "--bundle", bundle})["count"] == 2);
  }

  TEST_CASE("damage is found by verify, and removed by --repair") {
    const Sandbox sandbox;
    if (!has(sandbox, "nvrtc")) return skip("no NVRTC");
    CHECK(sandbox.json({"build", "--arch", "sm_80", "--add", "100"})["built"] == 1);
    const std::string entry = sandbox.entries().front();
    const fs::path file = sandbox.cache() / entry.substr(0, 2) / entry;
    fs::resize_file(file, fs::file_size(file) - 1);
    const Ran found = sandbox.tilec({"cache", "verify"});
    CHECK(found.status == 1);
    CHECK(contains(found.err, "--repair"));
    CHECK(fs::exists(file));
    const json repaired = sandbox.json({"cache", "verify", "--repair"});
    CHECK(repaired["removed"] == 1);
    CHECK_FALSE(repaired.contains("error"));
    CHECK_FALSE(fs::exists(file));
    CHECK(sandbox.json({"build", "--arch", "sm_80", "--add", "100"})["built"] == 1);
  }

  TEST_CASE("what can't be read or removed is told by every administration of the cache") {
    const Sandbox sandbox;
    // A root, and a file where entries of keys that begin with a7 would lie.
    CHECK(sandbox.json({"cache", "clear"})["removed"] == 0);
    const fs::path shard = sandbox.cache() / "a7";
    std::ofstream(shard) << "not a folder";
    struct Command {
      std::vector<std::string> words;
      const char* list;  // in the JSON
    };
    const std::vector<Command> commands{{{"ls"}, "unread"},
                                        {{"stats"}, "unread"},
                                        {{"clear"}, "kept"},
                                        {{"prune", "--max-size", "1"}, "kept"},
                                        {{"export", sandbox.path() / "bundle"}, "skipped"},
                                        {{"verify"}, "damaged"},
                                        {{"verify", "--repair"}, "damaged"}};
    const std::string why = "it can't be read: something that is not a folder lies there";
    for (auto [words, list] : commands) {
      CAPTURE(words);
      words.insert(words.begin(), "cache");
      const Ran ran = sandbox.tilec(words);
      CHECK(ran.status == 1);
      CHECK(contains(ran.out + ran.err, shard.string() + ": " + why));
      const json report = sandbox.json(words);
      CHECK(report["error"]["exit_status"] == 1);
      REQUIRE(report[list].size() == 1);
      CHECK(report[list][0]["path"] == shard.string());
    }
    CHECK(fs::is_regular_file(shard));
  }

  TEST_CASE("a cache that is only read serves a build that has nothing to build") {
    const Sandbox sandbox;
    if (!has(sandbox, "nvrtc")) return skip("no NVRTC");
    const std::vector<std::string> built{"build", "--arch", "sm_80", "--add", "100"};
    CHECK(sandbox.json(built)["built"] == 1);
    // One that can't be written, whoever runs this; the entry is in a read-only root.
    Sandbox other;
    other.file("cache", "no folder");
    other.set("TILEC_CACHE_ROOTS", sandbox.cache());
    CHECK(other.json(built)["present"] == 1);
    const Ran more = other.tilec({"build", "--arch", "sm_80", "--add", "100,f64"});
    CHECK(more.status == 1);
    CHECK(contains(more.err, "is not used"));
  }

  TEST_CASE("shards built one after the other make the whole") {
    const Sandbox sandbox;
    if (!has(sandbox, "nvrtc")) return skip("no NVRTC");
    const std::vector<std::string> base{"build", "--arch", "sm_80", "--add", "9,f32",
                                        "--add", "9,f64",  "--add", "9,s32"};
    for (const char* shard : {"1/2", "2/2"}) {
      std::vector<std::string> arguments = base;
      arguments.insert(arguments.end(), {"--shard", shard});
      CHECK(sandbox.json(arguments)["failed"] == 0);
    }
    CHECK(sandbox.json(base)["present"] == 3);
  }

  TEST_CASE("a kernel over the time limit is stopped and listed, and leaves nothing") {
    const Sandbox sandbox;
    if (!has(sandbox, "nvrtc")) return skip("no NVRTC");
    // Full unrolling of 64 steps times 64 outputs keeps NVRTC busy for long.
    const json report = sandbox.json({"build", "--arch", "sm_80", "--gemm", "9,9,9,f64",
                                      "--template", "gemm_regn", "--set", "TILE=64", "--set",
                                      "TN=64", "--set", "UNROLL_K=64", "--time-limit", "1"});
    CHECK(report["failed"] == 1);
    CHECK(contains(report["kernels"][0]["message"].get<std::string>(), "time limit of 1 s"));
    CHECK(report["error"]["exit_status"] == 1);
    CHECK(sandbox.entries().empty());
    CHECK(sandbox.leftovers().empty());
    CHECK(sandbox.json({"build", "--arch", "sm_80", "--add", "9"})["built"] == 1);
  }
}

#ifdef TILEC_FAKE_CUDA_DIR
TEST_SUITE("nvrtc") {
  TEST_CASE("run on a GPU whose kernels do nothing: timed in batches, and found wrong") {
    Sandbox sandbox;
    if (!has(sandbox, "nvrtc")) return skip("no NVRTC");
    sandbox.set("LD_LIBRARY_PATH", TILEC_FAKE_CUDA_DIR);
    const json info = sandbox.json({"info"});
    CHECK(info["cuda"]["devices"][0]["facts"]["target"] == "sm_90a");
    for (const std::vector<std::string>& problem :
         {std::vector<std::string>{"gemm", "40", "50", "60", "--beta", "1"}, {"add", "1000"}}) {
      std::vector<std::string> arguments{"run"};
      arguments.insert(arguments.end(), problem.begin(), problem.end());
      CHECK(sandbox.tilec(arguments).status == 0);
      arguments.emplace_back("--check");
      const Ran ran = sandbox.tilec(arguments);
      CHECK(ran.status == 1);
      CHECK(contains(ran.err, "the result is wrong"));
      const json report = sandbox.json(arguments);
      CHECK(report["error"]["kind"] == "check");
      CHECK(report["check"]["wrong"] == report["check"]["elements"]);
      CHECK(report["run"]["launches_per_sample"].get<int>() > 1);
      CHECK(report["origin"] == "disk");
    }
  }
}
#endif

TEST_SUITE("host") {
  TEST_CASE("build for the host device, then run from the cache") {
    const Sandbox sandbox;
    if (!can_compile_for_host(sandbox)) return skip("no host device, or no C++ compiler");
    CHECK(sandbox.json({"build", "--device", "host", "--gemm", "33,17,40,f16", "--add",
                        "1000"})["built"] == 2);
    const json gemm = sandbox.json({"run",
                                    "gemm",
                                    "33",
                                    "17",
                                    "40",
                                    "--dtype",
                                    "f16",
                                    "--device",
                                    "host",
                                    "--check",
                                    "--alpha",
                                    "0.5",
                                    "--beta",
                                    "2",
                                    "--lda",
                                    "45",
                                    "--ldd",
                                    "20",
                                    "--cache-policy",
                                    "must_hit"});
    CHECK(gemm["origin"] == "disk");
    CHECK(gemm["check"]["ok"] == true);
    CHECK(gemm["check"]["checked"] == 33 * 17);
    CHECK(gemm["check"]["positive"]["ok"] == true);
    CHECK(gemm["check"]["positive"]["checked"] == 33 * 17);
    CHECK(gemm["problem"]["ldc"] == 20);  // as ldd
    CHECK(gemm["gflop_s"].get<double>() > 0);
    const json add = sandbox.json({"run", "add", "10x100", "--device", "host", "--check"});
    CHECK(add["origin"] == "disk");
    CHECK(add["check"]["ok"] == true);
    CHECK(sandbox.json({"cache", "ls", "--kind", "host"})["count"] == 2);
  }

  TEST_CASE("every dtype runs and is checked; edges too") {
    const Sandbox sandbox;
    if (!can_compile_for_host(sandbox)) return skip("no host device, or no C++ compiler");
    for (const char* type : {"f32", "f64", "f16", "bf16", "s32"}) {
      CAPTURE(type);
      const json report =
          sandbox.json({"run", "gemm", "19", "23", "31", "--dtype", type, "--device", "host",
                        "--check", "--alpha", "3", "--beta", "-2"});
      CHECK(report["check"]["ok"] == true);
    }
    for (const std::vector<std::string>& shape :
         {std::vector<std::string>{"0", "5", "5"}, {"5", "0", "5"}, {"5", "5", "0"}}) {
      std::vector<std::string> arguments{"run", "gemm"};
      arguments.insert(arguments.end(), shape.begin(), shape.end());
      arguments.insert(arguments.end(), {"--device", "host", "--check"});
      CHECK(sandbox.tilec(arguments).status == 0);
    }
    CHECK(sandbox.tilec({"run", "add", "0", "--device", "host", "--check"}).status == 0);
  }

  TEST_CASE("must_hit on an empty cache is a failure that names the key") {
    const Sandbox sandbox;
    if (!can_compile_for_host(sandbox)) return skip("no host device, or no C++ compiler");
    const Ran ran = sandbox.tilec(
        {"run", "add", "9", "--device", "host", "--cache-policy", "must_hit", "--json"});
    CHECK(ran.status == 1);
    CHECK(json::parse(ran.out)["error"]["kind"] == "cache_miss");
  }

  TEST_CASE("a recorded run is a manifest") {
    Sandbox sandbox;
    if (!can_compile_for_host(sandbox)) return skip("no host device, or no C++ compiler");
    const std::string record = (sandbox.path() / "planned.jsonl").string();
    sandbox.set("TILEC_RECORD", record);
    for (const char* n : {"10", "20"}) {
      CHECK(sandbox.tilec({"run", "add", n, "--device", "host"}).status == 0);
    }
    const std::string recorded = read_file(record);
    const json report =
        sandbox.json({"build", record, "--device", "host", "--arch", "sm_90", "--dry-run"});
    CHECK(report["total"] == 2);
    CHECK(report["present"] == 1);
    CHECK(read_file(record) == recorded);
  }

  TEST_CASE("what is recorded and told of a GEMM has its leading dimensions") {
    Sandbox sandbox;
    if (!can_compile_for_host(sandbox)) return skip("no host device, or no C++ compiler");
    const std::string record = (sandbox.path() / "planned.jsonl").string();
    sandbox.set("TILEC_RECORD", record);
    const json report = sandbox.json({"run", "gemm", "2", "3", "4", "--device", "host", "--lda",
                                      "5", "--ldc", "7", "--ldd", "3"});
    const json recorded = json::parse(read_file(record));
    for (const json& problem : {report["problem"], recorded}) {
      CHECK(problem["lda"] == 5);
      CHECK_FALSE(problem.contains("ldb"));
      CHECK(problem["ldc"] == 7);
      CHECK(problem["ldd"] == 3);
    }
    CHECK(report["description"] == "gemm 2x3x4 f32 lda=5 ldc=7 ldd=3");
    CHECK(sandbox.json({"build", record, "--device", "host", "--dry-run"})["present"] == 1);
  }

  TEST_CASE("a scalar that the type can't hold is refused") {
    const Sandbox sandbox;
    if (!can_compile_for_host(sandbox)) return skip("no host device, or no C++ compiler");
    const Ran ran = sandbox.tilec(
        {"run", "gemm", "2", "2", "2", "--dtype", "s32", "--device", "host", "--alpha", "0.5"});
    CHECK(ran.status == 2);
    CHECK(contains(ran.err, "--alpha = '0.5'"));
  }
}

TEST_SUITE("cpu") {
  TEST_CASE("a compiler that hangs is killed with all that it started") {
    const Sandbox sandbox;
    if (!has(sandbox, "host_device")) return skip("built without the host device");
    const std::string compiler = sandbox.script("c++", kHangingCompiler);
    const auto start = std::chrono::steady_clock::now();
    const json report = sandbox.json({"build", "--device", "host", "--add", "9", "--add", "9,f64",
                                      "-j2", "--time-limit", "5", "--host-compiler", compiler});
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
    CHECK(report["failed"] == 2);
    CHECK(report["error"]["exit_status"] == 1);
    const std::vector<pid_t> started = pids(sandbox.path() / "pids");
    CHECK(started.size() == 2);
    CHECK(all_die(started));
    CHECK(sandbox.entries().empty());
    CHECK(sandbox.leftovers().empty());
  }

  TEST_CASE(
      "Ctrl-C: exit status 130, nothing runs on, nothing is left, and the summary says how far it "
      "was") {
    const Sandbox sandbox;
    if (!has(sandbox, "host_device")) return skip("built without the host device");
    const std::string compiler = sandbox.script("c++", kHangingCompiler);
    Running build = sandbox.start({"build", "--device", "host", "--add", "9", "--add", "9,f64",
                                   "-j2", "--host-compiler", compiler, "--json"});
    for (int i = 0; i < 15000 && pids(sandbox.path() / "pids").size() < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    REQUIRE(kill(build.process(), SIGINT) == 0);
    const Ran ran = build.wait(std::chrono::seconds(30));
    CHECK(ran.status == 130);
    CHECK(contains(ran.err, "interrupted with 0 of 2"));
    const json report = json::parse(ran.out);
    CHECK(report["error"]["kind"] == "interrupted");
    CHECK(report["kernels"][0]["status"] == "missing");
    CHECK(all_die(pids(sandbox.path() / "pids")));
    CHECK(sandbox.entries().empty());
    CHECK(sandbox.leftovers().empty());
  }

  TEST_CASE("a compiler that fails: its output is listed, nothing is cached") {
    const Sandbox sandbox;
    if (!has(sandbox, "host_device")) return skip("built without the host device");
    const std::string compiler = sandbox.script("c++", R"(#!/bin/sh
for word in "$@"; do
  if [ "$word" = -E ]; then
    echo '#define __VERSION__ "12.0.0"'
    exit 0
  fi
done
echo 'kernel.cpp:7: error: this will not do' >&2
exit 1
)");
    const Ran ran =
        sandbox.tilec({"build", "--device", "host", "--add", "9", "--host-compiler", compiler});
    CHECK(ran.status == 1);
    CHECK(contains(ran.out, "failed:"));
    CHECK(contains(ran.out, "this will not do"));
    CHECK(sandbox.entries().empty());
    CHECK(sandbox.leftovers().empty());
  }
}

}  // namespace tilec::test

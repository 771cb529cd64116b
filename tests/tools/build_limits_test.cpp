// tilec build where something is smaller than it would like, or damaged: the cache's bound, a
// file-size limit, an entry's bytes; and as a container's first process.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "process.h"
#include "tests/support/skip.h"

namespace tilec::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

bool has(const Sandbox& sandbox, const char* what) {
  return sandbox.json({"info"})[what]["available"].get<bool>();
}

// "512K" behind TILEC_CACHE_MAX_BYTES=.
std::string named_bound(const std::string& message) {
  const std::string name = "TILEC_CACHE_MAX_BYTES=";
  const std::size_t start = message.find(name);
  if (start == std::string::npos) return {};
  const std::size_t digits = start + name.size();
  return message.substr(digits, message.find(' ', digits) - digits);
}

fs::path file_of(const Sandbox& sandbox, const std::string& entry) {
  return sandbox.cache() / entry.substr(0, 2) / entry;
}

// The last byte belongs to the payload.
void damage_payload(const fs::path& file) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(-1, std::ios::end);
  const int byte = stream.get();
  stream.seekp(-1, std::ios::end);
  stream.put(static_cast<char>(byte ^ 1));
}

// In a C++ compiler's place: says which it is as one does, then fails or hangs on a kernel.
std::string compiler_that(const std::string& does) {
  return R"(#!/bin/sh
for word in "$@"; do
  if [ "$word" = -E ]; then
    echo '#define __VERSION__ "12.0.0"'
    exit 0
  fi
done
)" + does;
}

// As a container's first process: a shell that becomes the last of its commands.
std::vector<std::string> in_container(const std::string& shell) {
  return {"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", shell};
}

bool has_containers(const Sandbox& sandbox) {
  return sandbox.run(in_container("exec true")).status == 0;
}

}  // namespace

TEST_SUITE("nvrtc") {
  TEST_CASE("a cache that is too small for what is asked for: told, counted, and the size named") {
    Sandbox sandbox;
    if (!has(sandbox, "nvrtc")) return skip("no NVRTC");
    const std::vector<std::string> arguments{"build", "--arch", "sm_80",  "--add", "9,f32",
                                             "--add", "9,f64",  "--add",  "9,f16", "--add",
                                             "9,s32", "--add",  "9,bf16", "-j1"};
    sandbox.set("TILEC_CACHE_MAX_BYTES", "16K");
    const Ran ran = sandbox.tilec(arguments);
    CAPTURE(ran.err);
    CHECK(ran.status == 1);
    CHECK(contains(ran.err, "larger than the cache may be (16.0 KiB)"));
    CHECK(contains(ran.err, "are not in the cache any more"));
    CHECK(contains(ran.out, "evicted"));
    const json report = sandbox.json(arguments);
    CHECK(report["evicted"].get<std::size_t>() > 0);
    CHECK(report["failed"] == 0);
    CHECK(report["built"].get<std::size_t>() + report["present"].get<std::size_t>() ==
          sandbox.entries().size());
    CHECK(report["evicted"].get<std::size_t>() + sandbox.entries().size() == 5);
    CHECK(report["error"]["exit_status"] == 1);
    const std::string bound = named_bound(report["error"]["message"].get<std::string>() + " ");
    REQUIRE_FALSE(bound.empty());
    sandbox.set("TILEC_CACHE_MAX_BYTES", bound);
    const json whole = sandbox.json(arguments);
    CHECK(whole["evicted"] == 0);
    CHECK_FALSE(whole.contains("error"));
    CHECK(sandbox.entries().size() == 5);
  }

  TEST_CASE("a bound of 0 is none") {
    Sandbox sandbox;
    if (!has(sandbox, "nvrtc")) return skip("no NVRTC");
    sandbox.set("TILEC_CACHE_MAX_BYTES", "0");
    const Ran ran = sandbox.tilec({"build", "--arch", "sm_80", "--add", "9", "--add", "9,f64"});
    CHECK(ran.status == 0);
    CHECK_FALSE(contains(ran.err, "larger"));
    CHECK(sandbox.entries().size() == 2);
  }

  TEST_CASE(
      "an entry whose payload is damaged is built again, and a dry run says that it will be") {
    Sandbox sandbox;
    if (!has(sandbox, "nvrtc")) return skip("no NVRTC");
    const std::vector<std::string> arguments{"build", "--arch", "sm_80", "--add", "9"};
    CHECK(sandbox.json(arguments)["built"] == 1);
    damage_payload(file_of(sandbox, sandbox.entries().front()));
    std::vector<std::string> dry = arguments;
    dry.emplace_back("--dry-run");
    CHECK(sandbox.json(dry)["present"] == 0);
    CHECK(sandbox.entries().size() == 1);
    const Ran ran = sandbox.tilec(arguments);
    CHECK(contains(ran.out, "1 built"));
    CHECK(contains(ran.err, "is not used (checksum)"));
    CHECK(ran.err.find("is not used") == ran.err.rfind("is not used"));  // said once
    CHECK(sandbox.json({"cache", "verify"})["good"] == 1);

    // In a root that is only read: said once, too, by whichever process comes across it.
    damage_payload(file_of(sandbox, sandbox.entries().front()));
    fs::rename(sandbox.cache(), sandbox.path() / "read only");
    sandbox.set("TILEC_CACHE_ROOTS", sandbox.path() / "read only");
    const Ran again = sandbox.tilec(arguments);
    CHECK(contains(again.out, "1 built"));
    CHECK(again.err.find("is not used") != std::string::npos);
    CHECK(again.err.find("is not used") == again.err.rfind("is not used"));
  }

  TEST_CASE("a payload that can't be written whole leaves no part of it") {
    const Sandbox sandbox;
    if (!has(sandbox, "nvrtc")) return skip("no NVRTC");
    CHECK(sandbox.json({"build", "--arch", "sm_80", "--add", "9"})["built"] == 1);
    const std::string key = sandbox.entries().front().substr(0, 32);
    const fs::path payload = sandbox.path() / "kernel.cubin";
    const Ran ran = sandbox.run({"sh", "-c",
                                 "ulimit -f 1; exec " TILEC_COMMAND " cache show " + key +
                                     " --payload " + payload.string()});
    CHECK(ran.signal == 0);
    CHECK(ran.status == 1);
    CHECK(contains(ran.err, "kernel.cubin can't be written: File too large"));
    CHECK_FALSE(fs::exists(payload));
  }

  TEST_CASE("a kernel that the cache does not keep failed for the cause that is told") {
    const Sandbox sandbox;
    if (!has(sandbox, "nvrtc")) return skip("no NVRTC");
    const Ran ran = sandbox.run(
        {"sh", "-c",
         "ulimit -f 8; exec " TILEC_COMMAND
         " build -j 1 --arch sm_80 --gemm 512,512,512,f16 --gemm 512,512,512,bf16 --json -q"});
    CHECK(ran.signal == 0);
    CHECK(ran.status == 1);
    const json report = json::parse(ran.out, nullptr, false);
    REQUIRE(report.is_object());
    CHECK(report["failed"] == 2);
    for (const json& kernel : report["kernels"]) {
      const std::string message = kernel["message"];
      CHECK(contains(message, "not kept"));
      CHECK(contains(message, "ulimit -f"));
      CHECK(contains(message, "--cache-dir"));
    }
    CHECK(sandbox.entries().empty());
    CHECK(sandbox.leftovers().empty());
  }
}

TEST_SUITE("cpu") {
  TEST_CASE("results beyond a file-size limit are a failure, not the end by a signal") {
    const Sandbox sandbox;
    const Ran ran = sandbox.run({"sh", "-c", "ulimit -f 1; exec " TILEC_COMMAND " info --json"});
    CHECK(ran.signal == 0);
    CHECK(ran.status == 1);
    CHECK(contains(ran.err, "standard output: File too large"));
  }

  TEST_CASE("as a container's first process: workers work") {
    const Sandbox sandbox;
    if (!has(sandbox, "host_device")) return skip("built without the host device");
    if (!has_containers(sandbox)) return skip("no PID namespaces for this user");
    const std::string compiler =
        sandbox.script("c++", compiler_that("echo 'this will not do' >&2\nexit 1\n"));
    const Ran ran = sandbox.run(in_container(
        "exec " TILEC_COMMAND " build --device host --add 9 --host-compiler " + compiler));
    CHECK(ran.status == 1);
    CHECK(contains(ran.out, "this will not do"));
  }

  TEST_CASE("as a container's first process: a signal ends the build, and it says how far it was") {
    const Sandbox sandbox;
    if (!has(sandbox, "host_device")) return skip("built without the host device");
    if (!has_containers(sandbox)) return skip("no PID namespaces for this user");
    const std::string started = (sandbox.path() / "started").string();
    const std::string compiler =
        sandbox.script("c++", compiler_that(": > " + started + "\nexec sleep 1000\n"));
    const Ran ran = sandbox.run(in_container("(until [ -e " + started +
                                             " ]; do :; done; kill -TERM 1) & exec " TILEC_COMMAND
                                             " build --device host --add 9 --host-compiler " +
                                             compiler));
    CHECK(ran.status == 143);
    CHECK(contains(ran.err, "interrupted with 0 of 1"));
    CHECK(sandbox.leftovers().empty());
  }

  TEST_CASE("as a container's first process: a signal ends it before it builds, too") {
    const Sandbox sandbox;
    if (!has_containers(sandbox)) return skip("no PID namespaces for this user");
    const std::string pipe = (sandbox.path() / "pipe").string();
    // The manifest never comes: nobody writes to the pipe.
    const Ran ran = sandbox.run(in_container("mkfifo " + pipe +
                                             "; (while kill -TERM 1; do :; done) & "
                                             "exec " TILEC_COMMAND " build - --arch sm_80 <> " +
                                             pipe));
    CHECK(ran.status == 143);
  }
}

}  // namespace tilec::test

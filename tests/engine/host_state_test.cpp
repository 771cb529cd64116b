// What kernels on the host device and the program around them must not do to each other:
// floating-point modes, stacks, the process's runners; and what a set-user-id program trusts.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <cstring>
#include <fstream>
#include <thread>

#include "device/host_fiber.h"
#include "device/host_runner_pool.h"
#include "tests/engine/host_kernels.h"

namespace tilec::test {
namespace {

TEST_SUITE_BEGIN("host tsan");

#if defined(__x86_64__)
// Flush to zero, denormals are zero, towards plus infinity; so do kernels that mean no good.
constexpr unsigned kOddModes = 0x1f80 | 0x8000 | 0x0040 | 0x4000;

unsigned modes() {
  return __builtin_ia32_stmxcsr() & ~0x3fu;  // without the flags
}

// Computes with denormals and rounds, then leaves its thread in odd modes.
const char* const kArithmetic = R"(
  extern "C" __global__ void kernel(const Args args) {
    float* out = static_cast<float*>(args.out) + 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    const volatile float denormal = 1e-40f, half = 0.5f, one = 1.0f, three = 3.0f;
    out[0] = denormal * half;
    out[1] = one / three;
    out[2] = -one / three;
    __syncthreads();
    out[3] = static_cast<float>(static_cast<long double>(one) / static_cast<long double>(three));
    if (args.n != 0) __builtin_ia32_ldmxcsr(0x1f80 | 0x8000 | 0x0040 | 0x2000);
    if (args.n == 2) __trap();
  })";

TEST_CASE("host state: kernels run in a GPU's floating-point modes, and callers keep theirs") {
  const HostKernelRun kernel(kArithmetic, {.threads = 3});
  const auto check = [&](long long n) {
    constexpr int kBlocks = 12, kThreads = 64;
    std::vector<std::array<float, 4>> out(kBlocks * kThreads);
    const auto launch = [&] {
      kernel.launch({.grid = {kBlocks, 1, 1}, .block = {kThreads, 1, 1}},
                    {.out = out.data(), .n = n});
    };
    if (n == 2) {
      message_of(ErrorKind::driver, launch);
      return;
    }
    launch();
    const std::array<float, 4> expected{5e-41f, 0x1.555556p-2f, -0x1.555556p-2f, 0x1.555556p-2f};
    for (const auto& row : out) CHECK(std::memcmp(&row, &expected, sizeof row) == 0);
  };
  const unsigned before = __builtin_ia32_stmxcsr();
  const auto within = [&](unsigned odd, int x87, const std::function<void()>& body) {
    std::fenv_t kept;
    std::fegetenv(&kept);
    std::fesetround(x87);
    __builtin_ia32_ldmxcsr(odd);
    body();
    const unsigned after = modes();
    const int rounding = std::fegetround();
    std::fesetenv(&kept);
    CHECK(after == (odd & ~0x3fu));
    CHECK(rounding == x87);
  };
  for (const long long n : {0, 1, 0, 2, 0}) {
    CAPTURE(n);
    within(0x1f80, FE_TONEAREST, [&] { check(n); });
    within(kOddModes, FE_UPWARD, [&] { check(n); });
    // By a thread of its own, which makes its fibers in these modes.
    within(kOddModes, FE_UPWARD, [&] { std::thread([&] { check(n); }).join(); });
  }
  CHECK(__builtin_ia32_stmxcsr() == before);
}
#endif

TEST_CASE("host state: as many stacks as the runners have, each with its guard page, can be had") {
  // Of three quarters: other tests of this process may have left runners idle.
  constexpr int kRunners = host::RunnerPool::kRunners * 3 / 4;
  constexpr int kSlabs = kRunners * host::BlockRunner::kMaxThreads / host::StackSlab::kStacks;
  std::vector<std::unique_ptr<host::StackSlab>> slabs;
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  int open = 0;
  for (int i = 0; i < kSlabs; ++i) {
    slabs.push_back(std::make_unique<host::StackSlab>());
    for (int stack = 0; stack < host::StackSlab::kStacks; ++stack) {
      // The system reads it for us: a fault would end the program.
      const std::byte* const bottom = slabs.back()->stack(stack).data();
      open += write(ends[1], bottom - 1, 1) >= 0 ? 1 : 0;
    }
  }
  close(ends[0]);
  close(ends[1]);
  CHECK(open == 0);
}

TEST_CASE("host state: more launches at once than there are runners") {
  const HostKernelRun kernel(R"(
    extern "C" __global__ void kernel(const Args args) {
      atomicAdd(static_cast<int*>(args.out), __syncthreads_count(1));
    })",
                             {.threads = 2});
  std::vector<std::thread> threads;
  std::array<int, 2 * host::RunnerPool::kRunners + 3> sums{};
  for (int& sum : sums) {
    threads.emplace_back([&] {
      kernel.launch({.grid = {3, 1, 1}, .block = {64, 1, 1}}, {.out = &sum});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int sum : sums) CHECK(sum == 3 * 64 * 64);
}

TEST_CASE("host state: a child forked when every runner is in use") {
  const HostKernelRun kernel(R"(
    extern "C" int usleep(unsigned);
    extern "C" __global__ void kernel(const Args args) {
      auto* flags = static_cast<volatile int*>(args.out);
      if (args.n == 0) return;
      __sync_fetch_and_add(flags, 1);
      while (flags[1] == 0) usleep(1000);
    })",
                             {.threads = 1});
  std::array<int, 2> flags{};
  std::vector<std::thread> threads;
  for (int i = 0; i < host::RunnerPool::kRunners; ++i) {
    threads.emplace_back([&] { kernel.launch({}, {.out = flags.data(), .n = 1}); });
  }
  while (__atomic_load_n(&flags[0], __ATOMIC_ACQUIRE) < host::RunnerPool::kRunners) {
    std::this_thread::yield();
  }
  CHECK(in_child([&] {
          alarm(60);
          kernel.launch({.grid = {9, 1, 1}}, {.out = flags.data()});
          return 0;
        }) == 0);
  __atomic_store_n(&flags[1], 1, __ATOMIC_RELEASE);
  for (std::thread& thread : threads) thread.join();
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("host");

TEST_CASE("host state: a child forked while another thread loads a kernel loads its own") {
  const TemporaryFolder folder;
  const fs::path started = folder / "started", go_on = folder / "go_on";
  REQUIRE(mkfifo(started.c_str(), 0600) == 0);
  REQUIRE(mkfifo(go_on.c_str(), 0600) == 0);
  // Its object says when it is being loaded, and waits to be told to go on.
  const Artifact slow = compile_for_host(host_kernel_text(R"(
    extern "C" int open(const char*, int, ...), close(int);
    extern "C" long read(int, void*, unsigned long);
    struct Slow {
      Slow() {
        char byte;
        close(open(")" + started.string() + R"(", 1));
        read(open(")" + go_on.string() + R"(", 0), &byte, 1);
      }
    } slow;
    extern "C" __global__ void kernel(const Args) {})"));
  const Artifact quick = compile_for_host(host_kernel_text(R"(
    extern "C" __global__ void kernel(const Args args) { *static_cast<int*>(args.out) = 7; })"));
  const std::shared_ptr<DeviceBackend> device = host_backend({});
  const auto load = [&](const Artifact& artifact, const char* id) {
    return device->load({.id = id, .entry = "kernel", .message = id, .bytes = artifact.image}, 0);
  };
  std::thread loading([&] { load(slow, "slow"); });
  std::string line;
  std::ifstream ready(started);
  std::getline(ready, line);
  CHECK(in_child([&] {
          alarm(60);
          int out = 0;
          const HostArgs arguments{.out = &out};
          device->launch(*load(quick, "quick"), {}, &arguments, nullptr);
          return out == 7 ? 0 : 1;
        }) == 0);
  std::ofstream(go_on) << "x";
  loading.join();
}

TEST_CASE("host state: a set-user-id program takes no compiler from its environment") {
  if (!is_root()) return skip("needs root, to make such a program");
  const TemporaryFolder folder;
  for (fs::path path = folder.path(); path != "/tmp" && path != "/"; path = path.parent_path()) {
    fs::permissions(path, fs::perms::others_read | fs::perms::others_exec, fs::perm_options::add);
  }
  const fs::path program = folder / "program";
  fs::copy_file(engine_child(), program);
  REQUIRE(chmod(program.c_str(), 04755) == 0);
  const fs::path evil = folder / "evil", written = folder / "written";
  fs::create_directories(written);
  fs::permissions(written, fs::perms::all);
  for (const char* name : {"c++", "g++", "clang++"}) {
    write_text(evil / name, "#!/bin/sh\necho > " + (written / "ran").string() + "\n");
    REQUIRE(chmod((evil / name).c_str(), 0755) == 0);
  }
  REQUIRE(chmod(evil.c_str(), 0755) == 0);
  const Environment environment{{"PATH", evil.string()},
                                {"TMP", written.string()},
                                {"TEMPDIR", written.string()},
                                {"TMPDIR", std::nullopt}};
  const auto compile = [&](const fs::path& with) {
    return run(
        {.arguments = {"compile"}, .environment = environment, .user = 65534, .program = with});
  };
  const Ended ended = compile(program);
  if (fs::exists("/usr/bin/c++")) CHECK_MESSAGE(contains(ended.output, "builder="), ended.output);
  CHECK_MESSAGE(fs::is_empty(written), ended.output);
  // Without the privilege, the environment is the user's own.
  REQUIRE(chmod(program.c_str(), 0755) == 0);
  compile(program);
  CHECK(fs::exists(written / "ran"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tilec::test

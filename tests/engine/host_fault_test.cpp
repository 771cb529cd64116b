// What the host device says of kernels and launches that are wrong, and that it works afterwards.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/engine/host_kernels.h"

namespace tilec::test {
namespace {

TEST_SUITE_BEGIN("host tsan");

struct Fault {
  std::string name;
  std::string body;
  std::vector<std::string> parts;  // of the message
};

const std::vector<Fault> kFaults{
    {"two barriers",
     R"(if (threadIdx.x < 32) {
          __syncthreads();
        } else {
          __syncthreads();
        })",
     {"wait for each other forever", "32 at __syncthreads (/tilec/test.cu:3)",
      "the first of them (0, 0, 0)", "64 at __syncthreads (/tilec/test.cu:5)",
      "the first of them (32, 0, 0)"}},
    {"two kinds of barrier",
     R"(if (threadIdx.x < 32) { __syncthreads(); } else { __syncthreads_or(1); })",
     {"wait for each other forever", "__syncthreads_or"}},
    {"a barrier against a shuffle",
     R"(if (threadIdx.x % 2 == 0) return;
        if (threadIdx.x == 1) __syncthreads();
        __shfl_sync(0xffffffff, 1, 0);)",
     {"wait for each other forever", "1 at __syncthreads (/tilec/test.cu:3)",
      "at __shfl_sync (/tilec/test.cu:4) with mask 0xffffffff", "80 have returned"}},
    {"masks that differ",
     R"(__ballot_sync(threadIdx.x % 32 < 16 ? 0xffffffff : 0xffff0000, 1); __syncthreads();)",
     {"wait for each other forever", "with mask 0xffffffff"}},
    {"a mask without the caller",
     R"(__syncwarp(0xfffffffe);)",
     {"thread (0, 0, 0), __syncwarp (/tilec/test.cu:2)", "not in the mask"}},
    {"a trap",
     R"(if (threadIdx.x == 5) __trap();)",
     {"block (0, 0, 0): thread (5, 0, 0), __trap (/tilec/test.cu:2)"}},
    {"an assertion",
     "\n assert(threadIdx.x != 5);",
     {"thread (5, 0, 0), assert (/tilec/test.cu:3): assertion failed: threadIdx.x != 5"}},
    {"an exception",
     R"(__syncthreads(); if (threadIdx.x == 5) throw 1;)",
     {"thread (5, 0, 0)", "the kernel threw an exception"}},
    {"too much shared memory",
     R"(tilec::SharedMemory shared; shared.array<float, 4, 4>(); shared.array<float, 7, 5>();)",
     {"shared array 1 of 140 bytes does not fit", "128 bytes", "64 are left"}},
    {"threads that disagree on shared memory",
     R"(tilec::SharedMemory shared;
        if (threadIdx.x == 3) { shared.array<float, 2, 2>(); } else { shared.array<float, 4, 4>(); })",
     {"thread (3, 0, 0): the threads ask for different shared arrays"}},
};

TEST_CASE("host device: faults of kernels are errors, not hangs") {
  for (const Fault& fault : kFaults) {
    CAPTURE(fault.name);
    const Artifact artifact = compile_for_host(host_kernel_text(
        "extern \"C\" __global__ void kernel(const Args args) { if (args.n == 0) return;\n" +
        fault.body + "\n}"));
    for (const HostOrder order : {HostOrder::in_order, HostOrder::warp_greedy}) {
      const HostKernelRun kernel(artifact, {.order = order});
      const LaunchShape shape{.block = {96, 1, 1}, .shared_bytes = 128};
      for (int i = 0; i < 2; ++i) {
        const std::string message =
            message_of(ErrorKind::driver, [&] { kernel.launch(shape, {.n = 1}); });
        CAPTURE(message);
        CHECK(contains(message, "host device: test kernel: block (0, 0, 0): "));
        for (const std::string& part : fault.parts) CHECK(contains(message, part));
      }
      CHECK_NOTHROW(kernel.launch(shape, {.n = 0}));
    }
  }
}

TEST_CASE("host device: one fault ends a launch of many blocks") {
  const HostKernelRun kernel(R"(
    extern "C" __global__ void kernel(const Args args) {
      __syncthreads();
      if (blockIdx.x == 5) __trap();
      atomicAdd(static_cast<int*>(args.out), 1);
    })",
                             {.threads = 2});
  int count = 0;
  const std::string message = message_of(ErrorKind::driver, [&] {
    kernel.launch({.grid = {100000, 1, 1}, .block = {32, 1, 1}}, {.out = &count});
  });
  CHECK(contains(message, "block (5, 0, 0)"));
  CHECK(count < 100000 * 32);
}

#if defined(__SANITIZE_ADDRESS__)
// AddressSanitizer ends the process at the write: a child's, here.
bool ends_the_process(const std::function<void()>& call) {
  const pid_t child = fork();
  if (child == 0) {
    close(2);
    call();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}
#endif

TEST_CASE("host device: red zones between shared arrays") {
  const HostKernelRun kernel(R"(
    extern "C" __global__ void kernel(const Args args) {
      tilec::SharedMemory shared;
      auto& first = shared.array<float, 3, 5>();
      auto& second = shared.array<float, 8, 8>();
      first[0][0] = second[0][0] = 0;
      float* const any = args.n % 2 == 0 ? &first[0][0] : &second[0][0];  // n = 2 (element + 100) + array
      if (threadIdx.x == 7 && blockIdx.x == 1) any[args.n / 2 - 100] = 1;
    })");
  struct Case {
    int array, element;
    std::string message;  // empty: no fault
  };
  const std::vector<Case> cases{{0, 0, ""},
                                {0, 14, ""},
                                {1, 63, ""},
                                {0, 15, "shared array 0 of 60 bytes was written at its byte 60"},
                                {0, 16, "shared array 0 of 60 bytes was written at its byte 64"},
                                {0, -1, "shared array 0 of 60 bytes was written at its byte -4"},
                                {1, 64, "shared array 1 of 256 bytes was written at its byte 256"},
                                {1, -1, "shared array 1 of 256 bytes was written at its byte -4"}};
  for (const Case& c : cases) {
    CAPTURE(c.array);
    CAPTURE(c.element);
    const auto launch = [&] {
      kernel.launch({.grid = {3, 1, 1}, .block = {32, 1, 1}, .shared_bytes = 320},
                    {.n = (c.element + 100) * 2 + c.array});
    };
    if (c.message.empty()) {
      CHECK_NOTHROW(launch());
    } else {
#if defined(__SANITIZE_ADDRESS__)
      CHECK(ends_the_process(launch));
#else
      const std::string message = message_of(ErrorKind::driver, launch);
      CHECK(contains(message, "test kernel: block (1, 0, 0): " + c.message));
#endif
    }
  }
}

TEST_CASE("host device: launches that can't be") {
  const HostKernelRun kernel(R"(extern "C" __global__ void kernel(const Args) {})");
  struct Case {
    LaunchShape shape;
    std::string part;
  };
  const std::vector<Case> cases{
      {{.block = {0, 1, 1}}, "would need blocks of 0×1×1 threads"},
      {{.block = {1, 1, 65}},
       "would need blocks of 1×1×65 threads; CUDA's limit is 1024 in all, 64 "},
      {{.block = {64, 32, 1}}, "would need blocks of 64×32×1 threads"},
      {{.block = {65536, 65536, 1}}, "would need blocks of 65536×65536×1 threads"},
      {{.grid = {1, 65536, 1}}, "would need a grid of 1×65536×1 blocks"},
      {{.grid = {-1, 1, 1}}, "would need a grid of -1×1×1 blocks"},
      {{.shared_bytes = 1 << 20},
       "would need 1048576 bytes of shared memory a block; the device has 262144"}};
  for (const Case& c : cases) {
    const std::string message =
        message_of(ErrorKind::invalid_argument, [&] { kernel.launch(c.shape, {}); });
    CHECK(contains(message, "host device: test kernel " + c.part));
  }

  DeviceBackend& device = kernel.device();
  for (const std::uintptr_t stream : {0u, 1u, 2u}) {
    CHECK_NOTHROW(device.synchronize(reinterpret_cast<Stream>(stream)));
  }
  int value = 0;
  CHECK(contains(message_of(ErrorKind::invalid_argument,
                            [&] { device.fill(&value, 0, 4, reinterpret_cast<Stream>(&value)); }),
                 "no streams"));
  CHECK(contains(message_of(ErrorKind::invalid_argument, [] { host_backend({.threads = -1}); }),
                 "HostOptions::threads is -1"));
}

TEST_CASE("host device: loading") {
  const Artifact artifact =
      compile_for_host(host_kernel_text(R"(extern "C" __global__ void kernel(const Args) {})"));
  const auto device = host_backend({});
  const auto image = [&](const std::string& id, const std::string& entry,
                         std::span<const std::byte> bytes) {
    return KernelImage{.id = id, .entry = entry, .message = "test kernel", .bytes = bytes};
  };
  std::shared_ptr<const LoadedKernel> kernel =
      device->load(image("a", "kernel", artifact.image), 0);
  CHECK(kernel == device->load(image("a", "kernel", artifact.image), 0));
  CHECK(kernel != device->load(image("b", "kernel", artifact.image), 0));
  device->trim();  // drops b
  const std::weak_ptr<const LoadedKernel> seen = kernel;
  CHECK(kernel == device->load(image("a", "kernel", {}), 0));  // still loaded
  kernel.reset();
  CHECK_FALSE(seen.expired());
  device->trim();
  CHECK(seen.expired());

  std::vector<std::byte> text(200, std::byte{'x'});
  const std::span<const std::byte> whole = artifact.image;
  const std::vector<std::pair<KernelImage, std::string>> bad{
      {image("1", "kernel", {}), "too short"},
      {image("2", "kernel", text), "no ELF file"},
      {image("3", "kernel", whole.first(100)), "cut short"},
      {image("4", "kernel", whole.first(whole.size() / 4)), "cut short"},
      {image("5", "other", whole), "its kernel is called kernel, not other"}};
  for (const auto& [rejected, part] : bad) {
    CHECK_THROWS_AS(device->load(rejected, 0), ImageRejected);
    const std::string message = message_of(ErrorKind::driver, [&] { device->load(rejected, 0); });
    CHECK(contains(message, "test kernel"));
    CHECK(contains(message, part));
  }
  message_of(ErrorKind::unsupported, [&] { device->load(image("a", "kernel", whole), 1 << 20); });
}

TEST_CASE("host device: launches from several threads, and from a forked child") {
  const HostKernelRun kernel(R"(
    extern "C" __global__ void kernel(const Args args) {
      __shared__ int sum;
      if (threadIdx.x == 0) sum = 0;
      __syncthreads();
      atomicAdd(&sum, threadIdx.x);
      __syncthreads();
      if (threadIdx.x == 0) static_cast<long long*>(args.out)[blockIdx.x] = sum + args.n;
    })",
                             {.threads = 2});
  const auto right = [&](long long n) {
    std::vector<long long> out(40);
    kernel.launch({.grid = {40, 1, 1}, .block = {64, 1, 1}}, {.out = out.data(), .n = n});
    return out == std::vector<long long>(40, 64 * 63 / 2 + n);
  };
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int j = 0; j < 10; ++j) wrong += right(i * 100 + j) ? 0 : 1;
      });
    }
  }
  CHECK(wrong == 0);

#if !defined(__SANITIZE_THREAD__)  // which does not start threads in a forked child
  const pid_t child = fork();
  if (child == 0) _exit(right(5) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
#endif
}

TEST_SUITE_END();

}  // namespace
}  // namespace tilec::test

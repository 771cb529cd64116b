// The emulator, by small kernels: indices, barriers, orders of scheduling, shared memory, atomics.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "tests/engine/host_kernels.h"

namespace tilec::test {
namespace {

TEST_SUITE_BEGIN("host tsan");

TEST_CASE("host device: index variables") {
  const HostKernelRun kernel(R"(
    extern "C" __global__ void kernel(const __grid_constant__ Args args) {
      const unsigned values[12] = {threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z,
                                   blockDim.x, blockDim.y, blockDim.z, gridDim.x, gridDim.y, gridDim.z};
      const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
      const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
      unsigned* out = static_cast<unsigned*>(args.out) + 12 * (block * 24 + thread);
      __syncthreads();
      for (int i = 0; i < 12; ++i) out[i] = values[i];
      dim3 copy = blockIdx;
      if (copy.x != blockIdx.x || warpSize != 32) out[0] = 99;
    })",
                             {.threads = 3});
  std::vector<std::array<unsigned, 12>> out(12 * 24);
  kernel.launch({.grid = {3, 2, 2}, .block = {4, 3, 2}}, {.out = out.data()});
  std::size_t i = 0;
  for (unsigned bz = 0; bz < 2; ++bz)
    for (unsigned by = 0; by < 2; ++by)
      for (unsigned bx = 0; bx < 3; ++bx)
        for (unsigned tz = 0; tz < 2; ++tz)
          for (unsigned ty = 0; ty < 3; ++ty)
            for (unsigned tx = 0; tx < 4; ++tx)
              CHECK(out[i++] == std::array<unsigned, 12>{tx, ty, tz, bx, by, bz, 4, 3, 2, 3, 2, 2});
}

// out[block] = the sum of the block's 128 inputs, by a tree in shared memory.
std::string tree_sum(const std::string& barrier) {
  return R"(
    extern "C" __global__ void kernel(const Args args) {
      tilec::SharedMemory shared;
      auto& sums = shared.array<float, 1, 128>();
      const int t = threadIdx.x;
      sums[0][t] = static_cast<const float*>(args.in)[blockIdx.x * 128 + t];
      for (int half = 64; half > 0; half /= 2) {
        )" +
         barrier + R"(
        if (t < half) sums[0][t] += sums[0][t + half];
      }
      if (t == 0) static_cast<float*>(args.out)[blockIdx.x] = sums[0][0];
    })";
}

std::vector<float> block_sums(const Artifact& artifact, const HostOptions& options) {
  std::vector<float> in(5 * 128), out(5);
  std::iota(in.begin(), in.end(), 1.0f);
  HostKernelRun(artifact, options)
      .launch({.grid = {5, 1, 1}, .block = {128, 1, 1}, .shared_bytes = 512},
              {.out = out.data(), .in = in.data()});
  return out;
}

TEST_CASE("host device: barriers, right under every order, and missed under some") {
  const std::vector<float> expected{8256, 24640, 41024, 57408, 73792};
  const Artifact right = compile_for_host(host_kernel_text(tree_sum("__syncthreads();")));
  const Artifact wrong = compile_for_host(host_kernel_text(tree_sum("")));
  int caught = 0;
  for (const NamedOptions& order : host_orders()) {
    CAPTURE(order.name);
    CHECK(block_sums(right, order.options) == expected);
    caught += block_sums(wrong, order.options) != expected ? 1 : 0;
  }
  CHECK(caught > 0);
}

TEST_CASE("host device: a race between warps that only warp by warp shows") {
  // Each warp reads what the other one overwrites; the warp barrier keeps both in step otherwise.
  const Artifact artifact = compile_for_host(host_kernel_text(R"(
    extern "C" __global__ void kernel(const Args args) {
      __shared__ int values[64];
      values[threadIdx.x] = threadIdx.x;
      __syncthreads();
      const int other = values[threadIdx.x ^ 32];
      __syncwarp();
      if (threadIdx.x % 32 / 8 == 1) values[threadIdx.x] = 1000;
      static_cast<int*>(args.out)[threadIdx.x] = other;
    })"));
  const auto right = [&](HostOptions options) {
    std::vector<int> out(64);
    HostKernelRun(artifact, options).launch({.block = {64, 1, 1}}, {.out = out.data()});
    bool all = true;
    for (int i = 0; i < 64; ++i) all = all && out[static_cast<std::size_t>(i)] == (i ^ 32);
    return all;
  };
  CHECK(right({.order = HostOrder::in_order}));
  CHECK(right({.order = HostOrder::reversed}));
  CHECK_FALSE(right({.order = HostOrder::warp_greedy}));
  CHECK_FALSE(right({.order = HostOrder::warp_greedy, .seed = 1}));
}

TEST_CASE("host device: the orders in which threads and blocks run") {
  const Artifact artifact = compile_for_host(host_kernel_text(R"(
    extern "C" __global__ void kernel(const Args args) {
      int* const next = static_cast<int*>(args.out);
      __syncwarp();
      next[1 + atomicAdd(next, 1)] = blockIdx.x * 1000 + threadIdx.x;
    })"));
  const auto sequence = [&](HostOptions options) {
    std::vector<int> out(1 + 2 * 96);
    options.threads = 1;
    HostKernelRun(artifact, options)
        .launch({.grid = {2, 1, 1}, .block = {96, 1, 1}}, {.out = out.data()});
    out.erase(out.begin());
    return out;
  };
  const std::vector<int> first = sequence({.order = HostOrder::in_order});
  CHECK(first.front() == 31);  // the lane that completes a warp's barrier goes on
  CHECK(std::is_sorted(first.begin() + 3, first.begin() + 96));
  CHECK(sequence({.order = HostOrder::reversed}).front() == 1064);
  CHECK(sequence({.order = HostOrder::warp_greedy})[32] == 63);
  CHECK(sequence({.order = HostOrder::warp_greedy, .seed = 1}).front() == 64);

  std::set<std::vector<int>> different;
  for (const HostOrder order : {HostOrder::random, HostOrder::warp_greedy}) {
    for (std::uint64_t seed = 3; seed < 8; ++seed) {
      const std::vector<int> once = sequence({.order = order, .seed = seed});
      CHECK(once == sequence({.order = order, .seed = seed}));  // reproducible
      different.insert(once);
      CHECK(std::set<int>(once.begin(), once.end()).size() == 192);
    }
  }
  CHECK(different.size() > 5);
}

TEST_CASE("host device: barriers that vote") {
  const HostKernelRun kernel(R"(
    extern "C" __global__ void kernel(const Args args) {
      int* const out = static_cast<int*>(args.out) + threadIdx.x * 4;
      const int t = threadIdx.x;
      if (t >= 40) return;  // does not count
      out[0] = __syncthreads_count(t % 3 == 0);
      out[1] = __syncthreads_and(t < 40);
      out[2] = __syncthreads_and(t < 39);
      out[3] = __syncthreads_or(t == 17) * 10 + __syncthreads_or(t == 41);
    })");
  std::vector<std::array<int, 4>> out(50);
  kernel.launch({.block = {50, 1, 1}}, {.out = out.data()});
  for (std::size_t i = 0; i < 50; ++i) {
    CAPTURE(i);
    CHECK(out[i] == (i < 40 ? std::array<int, 4>{14, 1, 0, 10} : std::array<int, 4>{}));
  }
}

TEST_CASE("host device: shared memory starts out as NaNs in each block") {
  // Counts what is no NaN, then leaves numbers behind for the next block.
  const HostKernelRun kernel(R"(
    __device__ void visit(float& element, int* out) {
      if (element == element) atomicAdd(out, 1);
      element = 1.0f;
    }
    extern "C" __global__ void kernel(const Args args) {
      static __shared__ float fixed[32];
      extern __shared__ __align__(16) float dynamic[];
      tilec::SharedMemory shared;
      auto& array = shared.array<float, 4, 33>();
      auto& second = shared.array<double, 1, 32>();
      int* const out = static_cast<int*>(args.out);
      visit(fixed[threadIdx.x], out);
      visit(dynamic[threadIdx.x], out);
      for (int i = 0; i < 4; ++i) visit(array[i][threadIdx.x], out);
      if (second[0][threadIdx.x] == second[0][threadIdx.x]) atomicAdd(out, 1);
      second[0][threadIdx.x] = 2;
      if (reinterpret_cast<unsigned long long>(&second) % 16 != 0) atomicAdd(out, 1000);
    })",
                             {.threads = 2});
  int numbers = 0;
  for (int i = 0; i < 2; ++i) {
    kernel.launch({.grid = {9, 1, 1}, .block = {32, 1, 1}, .shared_bytes = 528 + 256},
                  {.out = &numbers});
  }
  CHECK(numbers == 0);
}

TEST_CASE("host device: atomics among many blocks") {
  struct Results {
    int sum = 0;
    unsigned count = 0, wrapped = 0, bits = 0;
    long long least = 1000000;
    float total = 0;
    double most = 0;
    unsigned long long swapped = 0;
  };
  const HostKernelRun kernel(R"(
    struct Results { int sum; unsigned count, wrapped, bits; long long least; float total; double most;
                     unsigned long long swapped; };
    extern "C" __global__ void kernel(const Args args) {
      Results& r = *static_cast<Results*>(args.out);
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      atomicAdd(&r.sum, i);
      atomicAdd(&r.count, 1u);
      atomicInc(&r.wrapped, 99u);
      atomicOr(&r.bits, 1u << (i % 32));
      atomicMin(&r.least, static_cast<long long>(5000 - i));
      atomicAdd(&r.total, 0.5f);
      atomicMax(&r.most, static_cast<double>(i));
      unsigned long long old = r.swapped, seen;
      while ((seen = atomicCAS(&r.swapped, old, old + 3)) != old) old = seen;
    })",
                             {.threads = 4});
  Results r;
  kernel.launch({.grid = {64, 1, 1}, .block = {64, 1, 1}}, {.out = &r});
  CHECK(r.sum == 4095 * 4096 / 2);
  CHECK(r.count == 4096);
  CHECK(r.wrapped == 4096 % 100);
  CHECK(r.bits == 0xffffffffu);
  CHECK(r.least == 5000 - 4095);
  CHECK(r.total == 2048.0f);
  CHECK(r.most == 4095.0);
  CHECK(r.swapped == 3 * 4096);
}

TEST_CASE("host device: built-in functions") {
  const HostKernelRun kernel(R"(
    extern "C" __global__ void kernel(const Args args) {
      double* out = static_cast<double*>(args.out);
      out[0] = min(3, 2.5f) + max(1u, 7u) + min(-1, 4LL);
      out[1] = fmaf(2.0f, 3.0f, 1.0f) + fma(2.0, 3.0, 0.5) + rsqrtf(4.0f);
      out[2] = __popc(0xf0u) + __clz(1) + __ffs(8) + __brev(1u << 31);
      const float4 v = make_float4(1, 2, 3, 4);
      out[3] = v.x + v.w + sizeof(float4) + alignof(double2);
      out[4] = __uint_as_float(__float_as_uint(1.5f)) + __float2int_rn(2.5f);
      out[5] = max(nanf(""), 2.0f);
    })");
  std::array<double, 6> out{};
  kernel.launch({}, {.out = out.data()});
  CHECK(out ==
        std::array<double, 6>{2.5 + 7 - 1, 7 + 6.5 + 0.5, 4 + 31 + 4 + 1, 5 + 16 + 16, 3.5, 2});
}

TEST_CASE("host device: a million blocks, and none") {
  const HostKernelRun kernel(R"(
    extern "C" __global__ void kernel(const Args args) {
      if (blockIdx.x % 1024 == 0) atomicAdd(static_cast<long long*>(args.out), 1LL);
    })");
  long long count = 0;
  kernel.launch({.grid = {1 << 20, 1, 1}}, {.out = &count});
  CHECK(count == 1024);
  kernel.launch({.grid = {(1LL << 31) - 1, 65535, 0}, .block = {32, 1, 1}}, {.out = &count});
  CHECK(count == 1024);
}

TEST_CASE("host device: memory") {
  const auto device = host_backend({});
  CHECK(device->allocate(0) == nullptr);
  void* const memory = device->allocate(1001);
  CHECK(reinterpret_cast<std::uintptr_t>(memory) % 256 == 0);
  device->fill(memory, 0x5a, 1001, nullptr);
  const std::array<char, 3> in{'a', 'b', 'c'};
  device->copy_to_device(static_cast<char*>(memory) + 998, in.data(), 3, nullptr);
  std::array<char, 4> out{};
  device->copy_to_host(out.data(), static_cast<char*>(memory) + 997, 4, nullptr);
  CHECK(out == std::array<char, 4>{0x5a, 'a', 'b', 'c'});
  device->synchronize(nullptr);
  device->release(memory);
  device->release(nullptr);

  CHECK(device->name() == "host");
  CHECK(device->target() == Target::host());
  CHECK(device->is_host());
  CHECK(device->can_run());
  CHECK(device->facts().sm_count >= 1);
  CHECK(device->facts().shared_bytes_block == Target::host().max_shared_bytes());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tilec::test

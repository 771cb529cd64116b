// Warp intrinsics on the host device, against the definitions of CUDA's programming guide.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include "tests/engine/host_kernels.h"

namespace tilec::test {
namespace {

TEST_SUITE_BEGIN("host tsan");

constexpr int kWidths[] = {2, 4, 8, 16, 32};
constexpr int kDistances[] = {0, 1, 3, 7, 16, 31};

// The lane whose value a shuffle delivers.
int shuffled(int kind, int lane, int distance, int width) {
  const int start = lane / width * width, end = start + width;
  switch (kind) {
    case 0:
      return start + distance % width;
    case 1:
      return lane - distance < start ? lane : lane - distance;
    case 2:
      return lane + distance >= end ? lane : lane + distance;
    default:
      return (lane ^ distance) >= end ? lane : lane ^ distance;
  }
}

TEST_CASE("host device: shuffles of every kind, width and distance, under every order") {
  const Artifact artifact = compile_for_host(host_kernel_text(R"(
    extern "C" __global__ void kernel(const Args args) {
      const int t = threadIdx.x + blockDim.x * threadIdx.y;
      int* out = static_cast<int*>(args.out) + t;
      for (int width = 2; width <= 32; width *= 2) {
        const int distances[] = {0, 1, 3, 7, 16, 31};
        for (int distance : distances) {
          out[0] = __shfl_sync(0xffffffff, t, distance, width);
          out[64] = __shfl_up_sync(0xffffffff, static_cast<float>(t), distance, width);
          out[128] = __shfl_down_sync(0xffffffff, static_cast<double>(t), distance, width);
          out[192] = __shfl_xor_sync(0xffffffff, static_cast<long long>(t), distance, width);
          out += 256;
        }
      }
    })"));
  for (const NamedOptions& order : host_orders()) {
    CAPTURE(order.name);
    std::vector<int> out(5 * 6 * 4 * 64);
    HostKernelRun(artifact, order.options).launch({.block = {16, 4, 1}}, {.out = out.data()});
    std::size_t i = 0;
    for (const int width : kWidths) {
      for (const int distance : kDistances) {
        for (int kind = 0; kind < 4; ++kind) {
          for (int t = 0; t < 64; ++t) {
            CAPTURE(width);
            CAPTURE(distance);
            CAPTURE(kind);
            CHECK(out[i++] == t / 32 * 32 + shuffled(kind, t % 32, distance, width));
          }
        }
      }
    }
  }
}

TEST_CASE("host device: votes, partial masks, lanes that have returned") {
  const Artifact artifact = compile_for_host(host_kernel_text(R"(
    extern "C" __global__ void kernel(const Args args) {
      const int t = threadIdx.x;
      unsigned* out = static_cast<unsigned*>(args.out) + t * 6;
      out[0] = __ballot_sync(0xffffffff, t % 2);
      out[1] = __any_sync(0xffffffff, t == 7) * 10 + __all_sync(0xffffffff, t < 31);
      if (t < 16) {  // two halves of a warp, each on its own
        out[2] = __ballot_sync(0x0000ffff, 1);
        out[3] = __shfl_xor_sync(0x0000ffff, t, 1);
        return;
      }
      out[2] = __ballot_sync(0xffff0000, t % 4 == 0);
      __syncwarp(0xffff0000);
      out[3] = __all_sync(0xffffffff, 1);  // those that have returned are not waited for
      const float absent = __shfl_sync(0xffff0000, 1.0f, 3);
      out[4] = absent != absent;
      out[5] = __shfl_sync(0xffff0000, t * 2, 20);
    })"));
  for (const NamedOptions& order : host_orders()) {
    CAPTURE(order.name);
    std::vector<std::array<unsigned, 6>> out(32);
    HostKernelRun(artifact, order.options).launch({.block = {32, 1, 1}}, {.out = out.data()});
    for (unsigned t = 0; t < 32; ++t) {
      CAPTURE(t);
      CHECK(out[t] == (t < 16 ? std::array<unsigned, 6>{0xaaaaaaaa, 10, 0xffff, t ^ 1u, 0, 0}
                              : std::array<unsigned, 6>{0xaaaaaaaa, 10, 0x11110000, 1, 1, 40}));
    }
  }
}

TEST_CASE("host device: a last warp that is not whole") {
  const HostKernelRun kernel(R"(
    extern "C" __global__ void kernel(const Args args) {
      int sum = 1;
      for (int d = 16; d > 0; d /= 2) {
        const int other = __shfl_down_sync(0xffffffff, sum, d);
        if ((threadIdx.x + d) < blockDim.x && threadIdx.x % 32 + d < 32) sum += other;
      }
      if (threadIdx.x % 32 == 0) static_cast<int*>(args.out)[threadIdx.x / 32] = sum;
      __syncwarp();
    })");
  std::array<int, 3> out{};
  kernel.launch({.block = {70, 1, 1}}, {.out = out.data()});
  CHECK(out == std::array<int, 3>{32, 32, 6});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tilec::test

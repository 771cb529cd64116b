// CUDA's language for kernels that the host device runs: stands before the kernel in its
// translation unit. Keywords, index variables, barriers, warp intrinsics. Compiled by the machine's
// C++ compiler.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <exception>

#include "host_abi.h"

#define TILEC_HOST_DEVICE 1
#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ thread_local
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

static thread_local uint3 threadIdx{};
static thread_local uint3 blockIdx{};
static thread_local dim3 blockDim{};
static thread_local dim3 gridDim{};
static constexpr int warpSize = 32;

namespace tilec {
namespace host {

static const Calls* calls = nullptr;
static thread_local void* block = nullptr;

[[noreturn]] inline void fail(const Site& site, const char* text) {
  calls->fail(block, site, text);
  __builtin_unreachable();
}

inline int lane() {
  return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) %
                          kWarp);
}

// What the lanes of a warp gave each other.
template <class Value>
struct Lanes {
  Value value[kWarp];
  unsigned present;

  // A lane that gave nothing has no value on a GPU: here it is all ones, a NaN.
  Value of(int lane) const {
    if ((present >> lane & 1u) != 0) return value[lane];
    Value none;
    memset(static_cast<void*>(&none), 0xff, sizeof none);
    return none;
  }
};

template <class Value>
inline Lanes<Value> exchange(const Site& site, unsigned mask, const Value& value) {
  static_assert(__is_trivially_copyable(Value) && sizeof(Value) <= kMaxExchange);
  Lanes<Value> lanes;
  lanes.present = calls->exchange(block, site, mask, &value, sizeof(Value), lanes.value);
  return lanes;
}

}  // namespace host

inline unsigned char* host_shared_array(int& used, int bytes) {
  return host::calls->shared_array(host::block, used, bytes);
}

}  // namespace tilec

// The caller's place, which the intrinsics below take as their last two arguments.
#define TILEC_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()

// --- barriers -----------------------------------------------------------------------------------

inline void __syncthreads(TILEC_CALLER) {
  tilec::host::calls->barrier(tilec::host::block, {"__syncthreads", file, line}, false);
}
inline int __syncthreads_count(int predicate, TILEC_CALLER) {
  return tilec::host::calls
      ->barrier(tilec::host::block, {"__syncthreads_count", file, line}, predicate != 0)
      .votes;
}
inline int __syncthreads_and(int predicate, TILEC_CALLER) {
  const tilec::host::Votes result = tilec::host::calls->barrier(
      tilec::host::block, {"__syncthreads_and", file, line}, predicate != 0);
  return result.votes == result.threads;
}
inline int __syncthreads_or(int predicate, TILEC_CALLER) {
  return tilec::host::calls
             ->barrier(tilec::host::block, {"__syncthreads_or", file, line}, predicate != 0)
             .votes != 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, TILEC_CALLER) {
  tilec::host::exchange({"__syncwarp", file, line}, mask, '\0');
}

inline void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_block() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_system() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// --- warp votes ---------------------------------------------------------------------------------

namespace tilec {
namespace host {

inline unsigned ballot(const Site& site, unsigned mask, bool predicate) {
  const Lanes<bool> lanes = exchange(site, mask, predicate);
  unsigned bits = 0;
  for (int i = 0; i < kWarp; ++i) {
    if ((lanes.present >> i & 1u) != 0 && lanes.value[i]) bits |= 1u << i;
  }
  return bits;
}

}  // namespace host
}  // namespace tilec

inline unsigned __ballot_sync(unsigned mask, int predicate, TILEC_CALLER) {
  return tilec::host::ballot({"__ballot_sync", file, line}, mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate, TILEC_CALLER) {
  return tilec::host::ballot({"__any_sync", file, line}, mask, predicate != 0) != 0;
}
inline int __all_sync(unsigned mask, int predicate, TILEC_CALLER) {
  return tilec::host::ballot({"__all_sync", file, line}, mask, predicate == 0) == 0;
}

// --- shuffles -----------------------------------------------------------------------------------
// `width` lanes (a power of two) shuffle among themselves. A lane that would read beyond its group
// gets its own value, as CUDA's programming guide defines each of the four.

namespace tilec {
namespace host {

inline int group_start(int width) {
  return lane() & ~(width - 1);
}
inline int group_end(int width) {
  return group_start(width) + width - 1;
}

}  // namespace host
}  // namespace tilec

template <class Value>
inline Value __shfl_sync(unsigned mask, Value value, int source, int width = 32, TILEC_CALLER) {
  const auto lanes = tilec::host::exchange({"__shfl_sync", file, line}, mask, value);
  return lanes.of(tilec::host::group_start(width) | (source & (width - 1)));
}
template <class Value>
inline Value __shfl_up_sync(unsigned mask, Value value, unsigned delta, int width = 32,
                            TILEC_CALLER) {
  const auto lanes = tilec::host::exchange({"__shfl_up_sync", file, line}, mask, value);
  const int source = tilec::host::lane() - static_cast<int>(delta);
  return source < tilec::host::group_start(width) ? value : lanes.of(source);
}
template <class Value>
inline Value __shfl_down_sync(unsigned mask, Value value, unsigned delta, int width = 32,
                              TILEC_CALLER) {
  const auto lanes = tilec::host::exchange({"__shfl_down_sync", file, line}, mask, value);
  const int source = tilec::host::lane() + static_cast<int>(delta);
  return source > tilec::host::group_end(width) ? value : lanes.of(source);
}
template <class Value>
inline Value __shfl_xor_sync(unsigned mask, Value value, int lane_mask, int width = 32,
                             TILEC_CALLER) {
  const auto lanes = tilec::host::exchange({"__shfl_xor_sync", file, line}, mask, value);
  const int source = tilec::host::lane() ^ lane_mask;
  return source > tilec::host::group_end(width) ? value
                                                : lanes.of(source & (tilec::host::kWarp - 1));
}

// --- faults -------------------------------------------------------------------------------------

[[noreturn]] inline void __trap(TILEC_CALLER) {
  tilec::host::fail({"__trap", file, line}, "the kernel called __trap()");
}
#undef TILEC_CALLER

#undef assert
#define assert(condition)     \
  ((condition)                \
       ? static_cast<void>(0) \
       : ::tilec::host::fail({"assert", __FILE__, __LINE__}, "assertion failed: " #condition))

// Element types and their arithmetic in kernels: half and bfloat16 without CUDA's headers, sums of
// products, wrapping s32. The same text serves NVRTC, nvcc and the host device.
#pragma once

namespace tilec {

// --- bits ---------------------------------------------------------------------------------------

__device__ inline unsigned float_bits(float value) {
#if defined(__CUDACC__)
  return __float_as_uint(value);
#else
  unsigned bits;
  memcpy(&bits, &value, 4);
  return bits;
#endif
}

__device__ inline float float_of_bits(unsigned bits) {
#if defined(__CUDACC__)
  return __uint_as_float(bits);
#else
  float value;
  memcpy(&value, &bits, 4);
  return value;
#endif
}

// --- f16 ----------------------------------------------------------------------------------------

__device__ inline float float_of_half_bits(unsigned short bits) {
#if defined(__CUDACC__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  const unsigned sign = (bits & 0x8000u) << 16;
  const unsigned magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity and NaN
    return float_of_bits(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude >= 0x400u) return float_of_bits(sign | ((magnitude << 13) + 0x38000000u));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return sign != 0 ? -subnormal : subnormal;
#endif
}

__device__ inline unsigned short half_bits_of_float(float value) {
#if defined(__CUDACC__)
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const unsigned all = float_bits(value);
  const unsigned sign = (all >> 16) & 0x8000u;
  const unsigned magnitude = all & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<unsigned short>(0x7fffu);
  if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // below the least normal half: a multiple of 2^-24
    const float units = nearbyintf(float_of_bits(magnitude) * 0x1p24f);
    return static_cast<unsigned short>(sign | static_cast<unsigned>(units));
  }
  const unsigned rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<unsigned short>(sign | ((rounded - 0x38000000u) >> 13));
#endif
}

struct half {
  unsigned short bits;
  half() = default;
  __device__ explicit half(float value) : bits(half_bits_of_float(value)) {}
  __device__ explicit operator float() const { return float_of_half_bits(bits); }
};

// --- bf16 ---------------------------------------------------------------------------------------

__device__ inline unsigned short bfloat16_bits_of_float(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const unsigned all = float_bits(value);
  if ((all & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned short>(0x7fffu);
  return static_cast<unsigned short>((all + 0x7fffu + ((all >> 16) & 1u)) >> 16);
#endif
}

struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  __device__ explicit bfloat16(float value) : bits(bfloat16_bits_of_float(value)) {}
  __device__ explicit operator float() const {
    return float_of_bits(static_cast<unsigned>(bits) << 16);
  }
};

// --- arithmetic ---------------------------------------------------------------------------------

// a·b + c, in the type of its arguments: fused for floats, modulo 2^32 for int.
__device__ inline float multiply_add(float a, float b, float c) {
  return fmaf(a, b, c);
}
__device__ inline double multiply_add(double a, double b, double c) {
  return fma(a, b, c);
}
__device__ inline int multiply_add(int a, int b, int c) {
  return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b) +
                          static_cast<unsigned>(c));
}
// The product of two 16-bit floats is exact in float, and so the sum is rounded twice at the most.
__device__ inline half multiply_add(half a, half b, half c) {
  return half(fmaf(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
}
__device__ inline bfloat16 multiply_add(bfloat16 a, bfloat16 b, bfloat16 c) {
  return bfloat16(fmaf(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
}

// a·b.
__device__ inline float product(float a, float b) {
  return a * b;
}
__device__ inline double product(double a, double b) {
  return a * b;
}
__device__ inline int product(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b));
}

// a + b, correctly rounded: float holds 2p+2 bits of both 16-bit formats, so rounding twice is
// rounding once.
__device__ inline float sum(float a, float b) {
  return a + b;
}
__device__ inline double sum(double a, double b) {
  return a + b;
}
__device__ inline int sum(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}
__device__ inline half sum(half a, half b) {
  return half(static_cast<float>(a) + static_cast<float>(b));
}
__device__ inline bfloat16 sum(bfloat16 a, bfloat16 b) {
  return bfloat16(static_cast<float>(a) + static_cast<float>(b));
}

// W neighbours, loaded and stored by one instruction where W elements make 2 to 16 bytes.
template <class T, int W>
struct alignas(sizeof(T) * W) Vector {
  T lane[W];
};

// Whether arrays that start at these addresses can be walked in such vectors.
template <class T, int W>
__device__ inline bool aligned(const void* a, const void* b, const void* c) {
  const auto all = reinterpret_cast<unsigned long long>(a) |
                   reinterpret_cast<unsigned long long>(b) |
                   reinterpret_cast<unsigned long long>(c);
  return all % (sizeof(T) * W) == 0;
}

}  // namespace tilec

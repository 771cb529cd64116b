// The rest of CUDA's built-in functions that kernels use on the host device: bits, minima,
// rounding, approximations (exact here), vectors, atomics. Included after host_shim.h.
#pragma once

// --- minima and maxima --------------------------------------------------------------------------

namespace tilec {
namespace host {

template <class A, class B>
using Common = decltype(true ? A() : B());
template <class A>
inline constexpr bool kFloating = static_cast<A>(0.5) != A(0);

}  // namespace host
}  // namespace tilec

template <class A, class B>
inline tilec::host::Common<A, B> min(A a, B b) {
  using Value = tilec::host::Common<A, B>;
  const Value x = static_cast<Value>(a), y = static_cast<Value>(b);
  if constexpr (tilec::host::kFloating<Value>) {
    return static_cast<Value>(fmin(x, y));  // the number, where one of them is a NaN
  } else {
    return y < x ? y : x;
  }
}
template <class A, class B>
inline tilec::host::Common<A, B> max(A a, B b) {
  using Value = tilec::host::Common<A, B>;
  const Value x = static_cast<Value>(a), y = static_cast<Value>(b);
  if constexpr (tilec::host::kFloating<Value>) {
    return static_cast<Value>(fmax(x, y));
  } else {
    return x < y ? y : x;
  }
}

// --- bits ---------------------------------------------------------------------------------------

namespace tilec {
namespace host {

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

}  // namespace host
}  // namespace tilec

inline unsigned __float_as_uint(float v) {
  return tilec::host::bits_as<unsigned>(v);
}
inline int __float_as_int(float v) {
  return tilec::host::bits_as<int>(v);
}
inline float __uint_as_float(unsigned v) {
  return tilec::host::bits_as<float>(v);
}
inline float __int_as_float(int v) {
  return tilec::host::bits_as<float>(v);
}
inline long long __double_as_longlong(double v) {
  return tilec::host::bits_as<long long>(v);
}
inline double __longlong_as_double(long long v) {
  return tilec::host::bits_as<double>(v);
}
inline int __popc(unsigned v) {
  return __builtin_popcount(v);
}
inline int __popcll(unsigned long long v) {
  return __builtin_popcountll(v);
}
inline int __clz(int v) {
  return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v));
}
inline int __clzll(long long v) {
  return v == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(v));
}
inline int __ffs(int v) {
  return __builtin_ffs(v);
}
inline int __ffsll(long long v) {
  return __builtin_ffsll(v);
}
inline unsigned __brev(unsigned v) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (v >> i & 1u) << (31 - i);
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<long long>(a) * b >> 32);
}

// --- arithmetic ---------------------------------------------------------------------------------

inline float __fmaf_rn(float a, float b, float c) {
  return fmaf(a, b, c);
}
inline double __fma_rn(double a, double b, double c) {
  return fma(a, b, c);
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsqrt_rn(float v) {
  return sqrtf(v);
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __expf(float v) {
  return expf(v);
}
inline float __logf(float v) {
  return logf(v);
}
inline float __sinf(float v) {
  return sinf(v);
}
inline float __cosf(float v) {
  return cosf(v);
}
inline float __powf(float a, float b) {
  return powf(a, b);
}
inline float rsqrtf(float v) {
  return 1.0f / sqrtf(v);
}
inline double rsqrt(double v) {
  return 1.0 / sqrt(v);
}
inline float __frcp_rn(float v) {
  return 1.0f / v;
}
inline int __float2int_rn(float v) {
  return static_cast<int>(nearbyintf(v));
}
inline int __float2int_rz(float v) {
  return static_cast<int>(v);
}
inline float __int2float_rn(int v) {
  return static_cast<float>(v);
}
inline double __int2double_rn(int v) {
  return static_cast<double>(v);
}
inline float __double2float_rn(double v) {
  return static_cast<float>(v);
}

template <class Value>
inline Value __ldg(const Value* pointer) {
  return *pointer;
}

// --- vectors ------------------------------------------------------------------------------------

namespace tilec {
namespace host {

template <class Element>
struct alignas(2 * sizeof(Element)) Vector2 {
  Element x, y;
};
template <class Element>
struct Vector3 {
  Element x, y, z;
};
template <class Element>
struct alignas(4 * sizeof(Element) < 16 ? 4 * sizeof(Element) : 16) Vector4 {
  Element x, y, z, w;
};

}  // namespace host
}  // namespace tilec

using int2 = tilec::host::Vector2<int>;
using uint2 = tilec::host::Vector2<unsigned>;
using float2 = tilec::host::Vector2<float>;
using double2 = tilec::host::Vector2<double>;
using longlong2 = tilec::host::Vector2<long long>;
using int3 = tilec::host::Vector3<int>;
using float3 = tilec::host::Vector3<float>;
using int4 = tilec::host::Vector4<int>;
using uint4 = tilec::host::Vector4<unsigned>;
using float4 = tilec::host::Vector4<float>;
using double4 = tilec::host::Vector4<double>;

inline int2 make_int2(int x, int y) {
  return {x, y};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline double2 make_double2(double x, double y) {
  return {x, y};
}
inline float3 make_float3(float x, float y, float z) {
  return {x, y, z};
}
inline int4 make_int4(int x, int y, int z, int w) {
  return {x, y, z, w};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

// --- atomics ------------------------------------------------------------------------------------
// Blocks run at the same time on several OS threads: these are atomic among them all.

namespace tilec {
namespace host {

template <int BYTES>
struct WordOf;
template <>
struct WordOf<4> {
  using type = unsigned;
};
template <>
struct WordOf<8> {
  using type = unsigned long long;
};
template <class Value>
struct Same {
  using type = Value;
};

// Replaces *address by next(*address); returns what was there.
template <class Value, class Next>
inline Value update(Value* address, Next next) {
  using Word = typename WordOf<sizeof(Value)>::type;
  Word* const word = reinterpret_cast<Word*>(address);
  Word old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &old, bits_as<Word>(next(bits_as<Value>(old))), false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
  }
  return bits_as<Value>(old);
}

template <class Value>
inline Value wrapping_sum(Value a, Value b) {
  if constexpr (kFloating<Value>) {
    return a + b;
  } else {
    using Word = typename WordOf<sizeof(Value)>::type;
    return static_cast<Value>(static_cast<Word>(a) + static_cast<Word>(b));
  }
}

template <class Value>
using Given = typename Same<Value>::type;  // converts to the type that the address has

}  // namespace host
}  // namespace tilec

template <class Value>
inline Value atomicAdd(Value* address, tilec::host::Given<Value> value) {
  return tilec::host::update(
      address, [value](Value old) { return tilec::host::wrapping_sum<Value>(old, value); });
}
template <class Value>
inline Value atomicSub(Value* address, tilec::host::Given<Value> value) {
  using Word = typename tilec::host::WordOf<sizeof(Value)>::type;
  return tilec::host::update(address, [value](Value old) {
    return static_cast<Value>(static_cast<Word>(old) - static_cast<Word>(value));
  });
}
template <class Value>
inline Value atomicExch(Value* address, tilec::host::Given<Value> value) {
  return tilec::host::update(address, [value](Value) { return value; });
}
template <class Value>
inline Value atomicMin(Value* address, tilec::host::Given<Value> value) {
  return tilec::host::update(address, [value](Value old) { return value < old ? value : old; });
}
template <class Value>
inline Value atomicMax(Value* address, tilec::host::Given<Value> value) {
  return tilec::host::update(address, [value](Value old) { return old < value ? value : old; });
}
template <class Value>
inline Value atomicAnd(Value* address, tilec::host::Given<Value> value) {
  return tilec::host::update(address, [value](Value old) { return old & value; });
}
template <class Value>
inline Value atomicOr(Value* address, tilec::host::Given<Value> value) {
  return tilec::host::update(address, [value](Value old) { return old | value; });
}
template <class Value>
inline Value atomicXor(Value* address, tilec::host::Given<Value> value) {
  return tilec::host::update(address, [value](Value old) { return old ^ value; });
}
template <class Value>
inline Value atomicCAS(Value* address, tilec::host::Given<Value> expected,
                       tilec::host::Given<Value> value) {
  return tilec::host::update(address, [=](Value old) { return old == expected ? value : old; });
}
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return tilec::host::update(address, [limit](unsigned old) { return old >= limit ? 0 : old + 1; });
}
inline unsigned atomicDec(unsigned* address, unsigned limit) {
  return tilec::host::update(
      address, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}

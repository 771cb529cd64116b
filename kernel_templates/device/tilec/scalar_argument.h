// alpha and beta as kernels receive them. Shared by host and device.
#pragma once

namespace tilec {

// Eight bytes that hold a float, a double or an int; which one follows from the accumulator.
union ScalarArgument {
  double f64;
  float f32;
  int s32;
};
static_assert(sizeof(ScalarArgument) == 8);

// The type of alpha and beta for an accumulator: double and int for themselves, else float.
template <class Accumulator>
struct ScalarOf {
  using type = float;
};
template <>
struct ScalarOf<double> {
  using type = double;
};
template <>
struct ScalarOf<int> {
  using type = int;
};

#if defined(__CUDACC__) || defined(TILEC_HOST_DEVICE)
template <class S>
__device__ inline S get(const ScalarArgument& argument);
template <>
__device__ inline float get<float>(const ScalarArgument& argument) {
  return argument.f32;
}
template <>
__device__ inline double get<double>(const ScalarArgument& argument) {
  return argument.f64;
}
template <>
__device__ inline int get<int>(const ScalarArgument& argument) {
  return argument.s32;
}
#endif

}  // namespace tilec

// The element types kernels are specialised for, and what is known of each: one row in dtype.cpp.
// Everything that depends on a dtype reads that row; nothing else switches on the enumerator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tilec {

enum class DType : std::uint8_t { f32, f64, f16, bf16, s32 };
using enum DType;

struct DTypeInfo {
  DType dtype;
  std::string_view name;             // "f32", as in the command line, manifests and messages
  int size;                          // bytes
  int exponent_bits;                 // 0: a two's complement integer
  int mantissa_bits;                 // stored fraction bits, the leading one not counted
  DType accumulator;                 // the default type of sums of products
  DType scalar;                      // the type of alpha and beta where this is the accumulator
  std::string_view device_spelling;  // its name in kernel source
  int dlpack_code;                   // DLDataTypeCode
  int cuda_code;                     // cudaDataType

  bool is_integer() const { return exponent_bits == 0; }
};

const DTypeInfo& info(DType dtype);
std::span<const DTypeInfo> dtypes();
std::optional<DType> parse_dtype(std::string_view name);
std::string dtype_names();  // "f32, f64, …", for messages

// The value of element `index` of an array of `dtype`. Exact for every dtype we have.
double load_as_double(DType dtype, const void* array, std::size_t index);

// Stores `value` rounded to nearest even (floats) or wrapped modulo 2^32 (s32; `value` is
// integral).
void store_from_double(DType dtype, void* array, std::size_t index, double value);

// Storage types for code that has no CUDA headers at hand. Same layout as __half and __nv_bfloat16.
struct float16 {
  std::uint16_t bits;
};
struct bfloat16 {
  std::uint16_t bits;
};

// The DType of a C++ element type. Specialise it for your own 16-bit types:
//   template <> inline constexpr tilec::DType tilec::dtype_of<__half> = tilec::f16;
template <class T>
inline constexpr DType dtype_of = T::no_dtype_of_this_type;
template <>
inline constexpr DType dtype_of<float> = f32;
template <>
inline constexpr DType dtype_of<double> = f64;
template <>
inline constexpr DType dtype_of<float16> = f16;
template <>
inline constexpr DType dtype_of<bfloat16> = bf16;
template <>
inline constexpr DType dtype_of<std::int32_t> = s32;

}  // namespace tilec

// alpha and beta: a number that remembers its type.
#pragma once

#include <cstdint>
#include <string>

#include "tilec/dtype.h"

namespace tilec {

// Implicit from float, double and int, so that `.alpha = 0.5f` reads as it should. A plan takes any
// scalar whose value its own scalar type (f32, f64 or s32, by the accumulator) holds exactly: 2 and
// 0.5f serve a double plan; 0.1 is refused by a float plan, 0.5f by an s32 plan.
class Scalar {
 public:
  constexpr Scalar(float value) : type_(f32), value_(static_cast<double>(value)) {}
  constexpr Scalar(double value) : type_(f64), value_(value) {}
  constexpr Scalar(std::int32_t value) : type_(s32), value_(value) {}

  constexpr DType type() const { return type_; }
  constexpr double value() const { return value_; }  // exact
  bool fits(DType scalar_type) const;
  std::string text() const;  // "0.5 (f32)"

 private:
  DType type_;
  double value_;
};

}  // namespace tilec

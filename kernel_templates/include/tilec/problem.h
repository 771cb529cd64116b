// What a user wants computed: plain values, comparable and hashable. Shapes are in elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tilec/dtype.h"

namespace tilec {

enum class Operation : std::uint8_t { gemm, add };
std::string_view to_string(Operation operation);

// D[M×N] = alpha · A[M×K] · B[K×N] + beta · C[M×N], row-major.
struct GemmProblem {
  std::int64_t M = 0, N = 0, K = 0;
  DType a = f32;                // element type of A
  std::optional<DType> b = {};  // of B; as A's if left out
  std::optional<DType> d = {};  // of C and D; as A's if left out
  // Elements from one row to the next: lda ≥ K, ldb ≥ N, ldc ≥ N, ldd ≥ N; 0: no gap. Of ldc and
  // ldd, one that is left out follows the other. That of a matrix with at most one row, or with no
  // columns, is not looked at: any value is right.
  std::int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0;

  bool operator==(const GemmProblem&) const = default;
};

// The extents of a contiguous tensor, rank 1 to 4.
class Shape {
 public:
  Shape() = default;
  // Throws std::invalid_argument for more than four or negative extents, or over 2^59 elements.
  Shape(std::initializer_list<std::int64_t> extents);
  Shape(const std::int64_t* extents, int rank);

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return extents_[static_cast<std::size_t>(i)]; }
  std::int64_t elements() const;  // the product of the extents; 0 for rank 0
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, 4> extents_{};
  int rank_ = 0;
};

// out = a + b, elementwise.
struct AddProblem {
  Shape shape;
  DType dtype = f32;

  bool operator==(const AddProblem&) const = default;
};

using Problem = std::variant<GemmProblem, AddProblem>;

Operation operation(const Problem& problem);
// The element type that kernels see as T: A's, for a GEMM.
DType element_type(const Problem& problem);
// "gemm 128x64x32 f16 lda=48", for messages and listings.
std::string describe(const Problem& problem);
std::size_t hash_value(const Problem& problem);

// Fills in what was left out (types, leading dimensions) and gives leading dimensions that are not
// looked at the row's length. Throws std::invalid_argument for negative extents, for a leading
// dimension under its row's length, with both values, and for a matrix of over 2^59 elements.
GemmProblem normalized(GemmProblem problem);

// What a text that stands for the problem has to say of its leading dimensions, so that a reader
// gets the same problem: nothing where the rows of every matrix are packed.
struct LeadingDimension {
  std::string_view name;
  std::int64_t value = 0;
};
std::vector<LeadingDimension> stated_leading_dimensions(const GemmProblem& problem);

// What a selection table distinguishes. Tiny: too few outputs to fill a large GPU. Narrow: one
// extent of D is 16 or less, so that wider tiles would be mostly empty. Tall and wide: one extent
// eight times the other or more. Large: the rest. An Add is tiny up to 2^18 elements, else large.
enum class ShapeClass : std::uint8_t { tiny, narrow, tall, wide, large };
inline constexpr std::array kShapeClasses{ShapeClass::tiny, ShapeClass::narrow, ShapeClass::tall,
                                          ShapeClass::wide, ShapeClass::large};
ShapeClass shape_class(const Problem& problem);
std::string_view to_string(ShapeClass shape);

}  // namespace tilec

// Problems as values: what they say of themselves, hashing, normalization, shape classes.
#include "tilec/problem.h"

#include <functional>
#include <stdexcept>

namespace tilec {
namespace {

// An element has at most 8 bytes, so that neither offsets in bytes nor their sums overflow.
constexpr std::int64_t kMostElements = std::int64_t{1} << 59;

std::size_t combine(std::size_t seed, std::size_t value) {
  return (seed ^ value) * 0x9e3779b97f4a7c15u + (seed >> 29);
}

void expect_not_negative(const char* name, std::int64_t value) {
  if (value < 0) {
    throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) +
                                "; an extent is 0 or more");
  }
}

// The leading dimension to use for rows of `row` elements.
std::int64_t leading_dimension(const char* name, std::int64_t given, const char* row_name,
                               std::int64_t row, std::int64_t rows) {
  const bool used = rows > 1 && row > 0;
  const std::int64_t ld = used && given != 0 ? given : row;
  if (ld < row) {
    throw std::invalid_argument(std::string(name) + " = " + std::to_string(given) +
                                " is less than " + row_name + " = " + std::to_string(row) +
                                ": rows of the matrix would overlap");
  }
  if (rows > 0 && ld > 0 && rows > kMostElements / ld) {
    throw std::invalid_argument("a matrix of " + std::to_string(rows) + " rows with " + name +
                                " = " + std::to_string(ld) + " has over 2^59 elements");
  }
  return ld;
}

}  // namespace

std::string_view to_string(Operation operation) {
  return operation == Operation::gemm ? "gemm" : "add";
}

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(extents.begin(), static_cast<int>(extents.size())) {}

Shape::Shape(const std::int64_t* extents, int rank) : rank_(rank) {
  if (rank < 0 || rank > 4) {
    throw std::invalid_argument("a shape of rank " + std::to_string(rank) + "; ranks are 1 to 4");
  }
  std::int64_t product = 1;
  for (int i = 0; i < rank; ++i) {
    const std::int64_t extent = extents[i];
    expect_not_negative("an extent of the shape", extent);
    if (extent > 0 && product > kMostElements / extent) {
      throw std::invalid_argument("a shape of over 2^59 elements");
    }
    product *= extent > 0 ? extent : 1;
    extents_[static_cast<std::size_t>(i)] = extent;
  }
}

std::int64_t Shape::elements() const {
  std::int64_t product = rank_ == 0 ? 0 : 1;
  for (int i = 0; i < rank_; ++i) product *= (*this)[i];
  return product;
}

Operation operation(const Problem& problem) {
  return std::holds_alternative<GemmProblem>(problem) ? Operation::gemm : Operation::add;
}

DType element_type(const Problem& problem) {
  if (const auto* gemm = std::get_if<GemmProblem>(&problem)) return gemm->a;
  return std::get<AddProblem>(problem).dtype;
}

std::string describe(const Problem& problem) {
  const std::string type(info(element_type(problem)).name);
  if (const auto* gemm = std::get_if<GemmProblem>(&problem)) {
    std::string text;
    for (const auto& [name, value] : stated_leading_dimensions(*gemm)) {
      text += " " + std::string(name) + "=" + std::to_string(value);
    }
    return "gemm " + std::to_string(gemm->M) + "x" + std::to_string(gemm->N) + "x" +
           std::to_string(gemm->K) + " " + type + text;
  }
  const Shape& shape = std::get<AddProblem>(problem).shape;
  std::string text = "add ";
  for (int i = 0; i < shape.rank(); ++i) text += (i == 0 ? "" : "x") + std::to_string(shape[i]);
  return text + " " + type;
}

std::size_t hash_value(const Problem& problem) {
  std::size_t seed = problem.index();
  const auto add = [&seed](auto value) { seed = combine(seed, static_cast<std::size_t>(value)); };
  if (const auto* gemm = std::get_if<GemmProblem>(&problem)) {
    for (std::int64_t value :
         {gemm->M, gemm->N, gemm->K, gemm->lda, gemm->ldb, gemm->ldc, gemm->ldd}) {
      add(value);
    }
    add(gemm->a);
    add(gemm->b.value_or(gemm->a));
    add(gemm->d.value_or(gemm->a));
    return seed;
  }
  const auto& sum = std::get<AddProblem>(problem);
  add(sum.dtype);
  for (int i = 0; i < sum.shape.rank(); ++i) add(sum.shape[i]);
  return seed;
}

GemmProblem normalized(GemmProblem problem) {
  expect_not_negative("M", problem.M);
  expect_not_negative("N", problem.N);
  expect_not_negative("K", problem.K);
  problem.b = problem.b.value_or(problem.a);
  problem.d = problem.d.value_or(problem.a);
  problem.lda = leading_dimension("lda", problem.lda, "K", problem.K, problem.M);
  problem.ldb = leading_dimension("ldb", problem.ldb, "N", problem.N, problem.K);
  const std::int64_t ldd = leading_dimension("ldd", problem.ldd, "N", problem.N, problem.M);
  const std::int64_t ldc = leading_dimension("ldc", problem.ldc, "N", problem.N, problem.M);
  const GemmProblem given = problem;
  problem.ldd = given.ldd != 0 ? ldd : ldc;
  problem.ldc = given.ldc != 0 ? ldc : ldd;
  return problem;
}

std::vector<LeadingDimension> stated_leading_dimensions(const GemmProblem& problem) {
  std::vector<LeadingDimension> list;
  const auto gap = [](std::int64_t given, std::int64_t row) { return given != 0 && given != row; };
  const auto state = [&list](std::string_view name, std::int64_t given) {
    if (given != 0) list.push_back({name, given});
  };
  if (gap(problem.lda, problem.K)) state("lda", problem.lda);
  if (gap(problem.ldb, problem.N)) state("ldb", problem.ldb);
  if (gap(problem.ldc, problem.N) || gap(problem.ldd, problem.N)) {
    state("ldc", problem.ldc);
    state("ldd", problem.ldd);
  }
  return list;
}

ShapeClass shape_class(const Problem& problem) {
  if (const auto* gemm = std::get_if<GemmProblem>(&problem)) {
    // 128·128 outputs are 16 tiles of 32×32: a large GPU has more multiprocessors than that.
    if (gemm->M == 0 || gemm->N <= 128 * 128 / gemm->M) return ShapeClass::tiny;
    if (gemm->M <= 16 || gemm->N <= 16) return ShapeClass::narrow;
    if (gemm->M / 8 >= gemm->N) return ShapeClass::tall;
    if (gemm->N / 8 >= gemm->M) return ShapeClass::wide;
    return ShapeClass::large;
  }
  const std::int64_t n = std::get<AddProblem>(problem).shape.elements();
  return n <= (std::int64_t{1} << 18) ? ShapeClass::tiny : ShapeClass::large;
}

std::string_view to_string(ShapeClass shape) {
  switch (shape) {
    case ShapeClass::tiny:
      return "tiny";
    case ShapeClass::narrow:
      return "narrow";
    case ShapeClass::tall:
      return "tall";
    case ShapeClass::wide:
      return "wide";
    case ShapeClass::large:
      return "large";
  }
  return "";
}

}  // namespace tilec

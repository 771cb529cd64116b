// The float64 (for integers: modulo 2^32) GEMM that results are compared with, tile by tile.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "reference.h"

namespace tilec::reference {

// Whether A·B adds anything; where alpha is 0 its products are not taken, and alpha does not count
// where K is 0.
inline bool has_products(const GemmProblem& problem, const GemmOperands& operands) {
  return problem.K > 0 && operands.alpha != 0;
}

struct Element {
  double value = 0;      // alpha·A·B + beta·C
  double magnitude = 0;  // |alpha|·|A||B| + |beta|·|C|, which scales its error
};

struct Tile {
  std::vector<std::int64_t> rows, columns;  // of D
  std::vector<Element> elements;            // rows × columns
};

// Calls `visit` with tiles that cover D, or a sample of its rows and columns where M·N·K is beyond
// options.max_products; from several threads at once. An element of a sampled row and column comes
// twice. `problem` is normalized.
void for_each_tile(const GemmProblem& problem, const GemmOperands& operands,
                   const CheckOptions& options, const std::function<void(const Tile&)>& visit);

}  // namespace tilec::reference

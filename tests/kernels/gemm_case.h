// One GEMM, run with everything around its operands watched, and compared with the float64
// reference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilec/engine.h"

namespace tilec::test {

enum class ResultPlace : std::uint8_t {
  apart,     // D beside C
  left_out,  // no d: the result goes to c
  d_is_c,    // the same pointer twice
};

struct GemmCase {
  GemmProblem problem = {};
  double alpha = 1, beta = 0;  // each held exactly by every scalar type that the case is run with
  ResultPlace place = ResultPlace::apart;
  bool ones = false;         // A and B of ones, rather than random
  bool odd_c = false;        // C of what arithmetic may lose: −0, NaNs with payloads, subnormals
  bool unread_null = false;  // null pointers for what alpha and beta leave unread, else NaNs
  int shift = 0;             // elements from a multiple of 256 bytes to each array
};

std::string describe(const GemmCase& gemm);

// Runs it; what went wrong in words, empty where all is right. D and everything that must not be
// read holds NaNs (ones in every bit) before, and so do the gaps between rows and the zones around
// every array, which must be untouched afterwards, as the operands must.
std::string failure(const Engine& engine, const PlanOptions& plan, const GemmCase& gemm);

// Ragged shapes around tiles of these extents, and small ones of every kind.
std::vector<GemmCase> shape_cases(DType T, std::int64_t rows, std::int64_t columns);
// One ragged shape with every meaning of alpha, beta, leading dimensions and C's place.
std::vector<GemmCase> meaning_cases(DType T, std::int64_t rows, std::int64_t columns);

}  // namespace tilec::test

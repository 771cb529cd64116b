// What the right answer is: float64 references for GEMM and Add, how far a kernel may be from them
// (the error model, by element and by Frobenius norm), and random operands. Shared by `tilec run
// --check`, the benchmarks and the tests. Pure functions on values; they use threads of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tilec/dtype.h"
#include "tilec/problem.h"

namespace tilec::reference {

// Normal: a standard normal distribution; for integers, uniform over the type's whole range.
// Positive: uniform from 0 to 1; for integers, over what is not negative. Sums of positive numbers
// grow with every term, so that they show what random signs hide.
enum class Values : std::uint8_t { normal, positive };

// `count` elements, rounded to `type`. The same bytes for the same arguments, whatever the number
// of threads.
std::vector<std::byte> random_array(DType type, std::size_t count, std::uint64_t seed,
                                    Values values = Values::normal);

// A rows × columns matrix of random_array with rows `leading` elements apart. The gaps hold 0xFF
// bytes (NaN for floats), and there is none after the last row.
std::vector<std::byte> random_matrix(DType type, std::int64_t rows, std::int64_t columns,
                                     std::int64_t leading, std::uint64_t seed,
                                     Values values = Values::normal);

// Elements of such a matrix, from its first to its last: 0 where it has no rows or no columns.
std::size_t matrix_elements(std::int64_t rows, std::int64_t columns, std::int64_t leading);

// True if every gap still holds the 0xFF bytes.
bool gaps_untouched(DType type, std::int64_t rows, std::int64_t columns, std::int64_t leading,
                    const void* matrix);

// An element is right if
//   |error| ≤ (4·√K + 2)·u_acc·S + c_in·S + u_out·|D| + tiny + |alpha|·K·tiny_product,
// where S = |alpha|·|A||B| + |beta|·|C|; K stands in place of √K for data with a mean. With no
// products to sum (alpha or K is 0) and a beta of 0 or 1, zeros or the bits of C are right and
// nothing else.
struct Tolerance {
  double u_acc = 0;         // unit roundoff of the sums
  double c_in = 0;          // what the operands lose before they are multiplied
  double u_out = 0;         // unit roundoff of storing the result
  double tiny = 0;          // half the least subnormal of the output
  double tiny_product = 0;  // the same of the accumulator, for each product
  double frobenius = 0;     // bound of ‖error‖/‖D‖, to be scaled by √max(1, K/4096)
  bool exact = false;       // integers: every bit counts, modulo 2^32
};
Tolerance tolerance(DType input, DType accumulator, DType output);

struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  // not read where beta is 0
  double alpha = 1;
  double beta = 0;
};

struct CheckOptions {
  bool data_with_mean = false;   // positive numbers and the like, rather than centred ones
  double max_products = 0x1p30;  // of a·b; beyond it a sample of rows and columns is checked
  std::uint64_t seed = 0;        // of that sample
  unsigned threads = 0;          // 0: one per core
};

struct Verdict {
  bool ok = true;
  bool exact = false;         // the error bounds are 0
  std::int64_t elements = 0;  // of the result
  std::int64_t checked = 0;   // fewer than `elements`: a sample
  std::int64_t wrong = 0;     // elements beyond their bound
  double max_error = 0;       // largest |error| among finite elements
  double worst_ratio = 0;     // largest |error| / bound; infinite for a wrong NaN or infinity
  double frobenius = 0;       // ‖error‖ / ‖reference‖
  double frobenius_bound = 0;
  std::int64_t worst_row = 0, worst_column = 0;  // the worst element's place; row 0 for Add
  double got = 0, expected = 0;                  // its value, and what it should be

  // "ok: 16384 elements, error 0.12 of the bound, Frobenius 2.1e-07 (bound 2e-06)"
  std::string text() const;
};

// Compares D (and nothing beside its elements) with the reference. `d` is not C's storage: a caller
// who ran in place keeps a copy of C.
Verdict check_gemm(const GemmProblem& problem, DType accumulator, const GemmOperands& operands,
                   const void* d, const CheckOptions& options = {});

// Add is correctly rounded: every bit counts, but a NaN may be any NaN.
Verdict check_add(const AddProblem& problem, const void* a, const void* b, const void* out);

}  // namespace tilec::reference

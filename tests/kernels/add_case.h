// One Add, run with everything around its operands watched, and compared bit by bit with the
// correctly rounded sum.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilec/engine.h"

namespace tilec::test {

enum class SumPlace : std::uint8_t { apart, in_a, in_b, a_is_b };

struct AddCase {
  AddProblem problem = {};
  SumPlace place = SumPlace::apart;
  int shift_a = 0, shift_b = 0, shift_out = 0;  // elements from a multiple of 256 bytes
};

std::string describe(const AddCase& add);

// Runs it; what went wrong in words, empty where all is right. `out` holds NaNs before, and so do
// the zones around every array, which must be untouched afterwards, as the operands must.
std::string failure(const Engine& engine, const PlanOptions& plan, const AddCase& add);

// Counts around every step that a block of `columns` elements can take, tensors of rank 1 to 4,
// each operand off its alignment, and sums in place.
std::vector<AddCase> add_cases(DType T, const Parameters& parameters, std::int64_t columns);

}  // namespace tilec::test

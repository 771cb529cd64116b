// What the GEMM templates share on the host side.
#pragma once

#include <cstdint>

#include "tilec/kernel_template.h"

namespace tilec {

// The accumulator's type. By default f32 for the 16-bit floats, else T itself; ACC = T always
// exists.
Parameter accumulator_parameter();
// Why T can't be summed in `accumulator`; empty where it can.
std::string why_not_accumulate(DType T, DType accumulator);

// A grid of ⌈N/columns⌉ × ⌈M/rows⌉ blocks, folded into z above 65,535 rows of blocks.
std::array<std::int64_t, 3> tile_grid(const GemmProblem& problem, int rows, int columns);

}  // namespace tilec

// What the Add templates share on the host side.
#pragma once

#include "tilec/kernel_template.h"

namespace tilec {

// Elements of one vector access. By default 16 bytes' worth.
Parameter vector_width_parameter();
// Threads of a block.
Parameter add_block_parameter();
// Why T can't be walked W elements at a time; empty where it can.
std::string why_not_vector(DType T, int W);

// Enough blocks of `block` threads for n elements at `elements` a block.
LaunchShape linear_launch(const Problem& problem, int block, std::int64_t elements);

}  // namespace tilec

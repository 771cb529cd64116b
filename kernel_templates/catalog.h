// The shipped templates, one function each.
#pragma once

#include <string>
#include <string_view>

#include "tilec/kernel_template.h"

namespace tilec {

KernelTemplate gemm_naive();
KernelTemplate gemm_regn();
KernelTemplate add_elementwise();
KernelTemplate add_tiled();
KernelTemplate add_block_tiled();

// The text of a .cu file of this folder, as it was when the library was built.
std::string embedded_text(std::string_view file);

}  // namespace tilec

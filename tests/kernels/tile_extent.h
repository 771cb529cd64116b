// What one block of a template covers, found by asking its launch function alone: so that tests
// reach the edges of every template's tiles without knowing its parameters.
#pragma once

#include <cstdint>

#include "tilec/kernel_template.h"

namespace tilec::test {

struct TileExtent {
  std::int64_t rows = 1, columns = 1;  // of D, for a GEMM; columns alone for an Add
};
TileExtent tile_extent(const KernelTemplate& kernel, DType T, const Parameters& parameters);

}  // namespace tilec::test

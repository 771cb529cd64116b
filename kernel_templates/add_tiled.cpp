// add_tiled on the host side: its parameters, what is legal, how it is launched.
#include "add.h"
#include "catalog.h"

namespace tilec {
namespace {

std::string why_not(DType T, const Parameters& p, const Target&) {
  const int TILE = integer(p, "TILE"), W = integer(p, "W");
  if (TILE % W != 0) {
    return "W = " + std::to_string(W) + " does not divide TILE = " + std::to_string(TILE);
  }
  return why_not_vector(T, W);
}

LaunchShape launch(const Problem& problem, const Parameters& p) {
  const std::int64_t block = integer(p, "BLOCK");
  return linear_launch(problem, static_cast<int>(block), block * integer(p, "TILE"));
}

// 16 bytes' worth, or what of it divides the tile.
Value default_width(DType T, const Parameters& before) {
  int W = 16 / info(T).size;
  while (integer(before, "TILE") % W != 0) W /= 2;
  return W;
}

}  // namespace

KernelTemplate add_tiled() {
  Parameter width = vector_width_parameter();
  width.default_value = default_width;
  return {
      .name = "add_tiled",
      .operation = Operation::add,
      .source = embedded_text("add_tiled.cu"),
      .parameters = {{"TILE",
                      "neighbouring elements that one thread owns",
                      Allowed::range(1, 256),
                      always(32),
                      {1, 4, 24, 32, 256}},
                     width,
                     add_block_parameter()},
      .dtypes = {f32, f64, f16, bf16, s32},
      .why_not = why_not,
      .launch = launch,
  };
}

}  // namespace tilec

// add_block_tiled on the host side: its parameters, what is legal, how it is launched.
#include "add.h"
#include "catalog.h"

namespace tilec {
namespace {

std::string why_not(DType T, const Parameters& p, const Target&) {
  return why_not_vector(T, integer(p, "W"));
}

LaunchShape launch(const Problem& problem, const Parameters& p) {
  const std::int64_t block = integer(p, "BLOCK");
  return linear_launch(problem, static_cast<int>(block),
                       block * integer(p, "W") * integer(p, "UNROLL"));
}

}  // namespace

KernelTemplate add_block_tiled() {
  return {
      .name = "add_block_tiled",
      .operation = Operation::add,
      .source = embedded_text("add_block_tiled.cu"),
      .parameters =
          {vector_width_parameter(),
           add_block_parameter(),
           {"UNROLL", "vectors of one lane", Allowed::range(1, 16), always(2), {1, 2, 3, 4}}},
      .dtypes = {f32, f64, f16, bf16, s32},
      .why_not = why_not,
      .launch = launch,
      .candidates = {{.shape = ShapeClass::large, .parameters = {}, .preference = 10}},
  };
}

}  // namespace tilec

// add_elementwise on the host side: its parameters, what is legal, how it is launched.
#include "add.h"
#include "catalog.h"

namespace tilec {
namespace {

std::string why_not(DType T, const Parameters& p, const Target&) {
  return why_not_vector(T, integer(p, "W"));
}

LaunchShape launch(const Problem& problem, const Parameters& p) {
  const std::int64_t block = integer(p, "BLOCK");
  return linear_launch(problem, static_cast<int>(block), block * integer(p, "W"));
}

}  // namespace

KernelTemplate add_elementwise() {
  return {
      .name = "add_elementwise",
      .operation = Operation::add,
      .source = embedded_text("add_elementwise.cu"),
      .parameters = {vector_width_parameter(), add_block_parameter()},
      .dtypes = {f32, f64, f16, bf16, s32},
      .why_not = why_not,
      .launch = launch,
      .candidates = {{.shape = ShapeClass::tiny, .parameters = {}, .preference = 10}},
  };
}

}  // namespace tilec

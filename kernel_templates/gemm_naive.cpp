// gemm_naive on the host side: its parameters, what is legal, how it is launched.
#include "catalog.h"
#include "gemm.h"

namespace tilec {
namespace {

std::string why_not(DType T, const Parameters& p, const Target&) {
  const int threads = integer(p, "BLOCK_X") * integer(p, "BLOCK_Y");
  if (threads > 1024) {
    return "BLOCK_X · BLOCK_Y = " + std::to_string(threads) + " threads; a block has at most 1024";
  }
  return why_not_accumulate(T, p.at("ACC").dtype());
}

LaunchShape launch(const Problem& problem, const Parameters& p) {
  const int x = integer(p, "BLOCK_X"), y = integer(p, "BLOCK_Y");
  return {.grid = tile_grid(std::get<GemmProblem>(problem), y, x), .block = {x, y, 1}};
}

}  // namespace

KernelTemplate gemm_naive() {
  return {
      .name = "gemm_naive",
      .operation = Operation::gemm,
      .source = embedded_text("gemm_naive.cu"),
      .parameters =
          {
              {"BLOCK_X",
               "columns of D that a block computes",
               Allowed::range(1, 1024),
               always(32),
               {1, 16, 32}},
              {"BLOCK_Y",
               "rows of D that a block computes",
               Allowed::range(1, 1024),
               always(8),
               {1, 3, 8, 32}},
              accumulator_parameter(),
          },
      .dtypes = {f32, f64, f16, bf16, s32},
      .why_not = why_not,
      .launch = launch,
  };
}

}  // namespace tilec

// gemm_regn on the host side: its parameters, what is legal, how it is launched.
#include "catalog.h"
#include "gemm.h"

namespace tilec {
namespace {

std::int64_t shared_bytes(DType T, const Parameters& p) {
  const std::int64_t TILE = integer(p, "TILE"), PAD = integer(p, "PAD");
  const std::int64_t tile = TILE * (TILE + PAD) * info(T).size;
  return 2 * ((tile + 15) / 16 * 16);
}

std::string why_not(DType T, const Parameters& p, const Target& target) {
  const int TILE = integer(p, "TILE"), TN = integer(p, "TN");
  if (TILE % TN != 0) {
    return "TN = " + std::to_string(TN) + " does not divide TILE = " + std::to_string(TILE);
  }
  const int threads = TILE / TN * TILE;
  if (threads > 1024) {
    return "TILE = " + std::to_string(TILE) + " with TN = " + std::to_string(TN) +
           " makes blocks of " + std::to_string(threads) +
           " threads; a block has at most 1024. A larger TN makes fewer";
  }
  if (shared_bytes(T, p) > target.max_shared_bytes()) {
    return "two tiles of " + std::to_string(TILE) + "×" + std::to_string(TILE + integer(p, "PAD")) +
           " " + std::string(info(T).name) + " need " + std::to_string(shared_bytes(T, p)) +
           " bytes of shared memory; a block on " + target.name() + " has at most " +
           std::to_string(target.max_shared_bytes());
  }
  return why_not_accumulate(T, p.at("ACC").dtype());
}

LaunchShape launch(const Problem& problem, const Parameters& p) {
  const auto& gemm = std::get<GemmProblem>(problem);
  const int TILE = integer(p, "TILE");
  return {.grid = tile_grid(gemm, TILE, TILE),
          .block = {TILE / integer(p, "TN"), TILE, 1},
          .shared_bytes = shared_bytes(gemm.a, p)};
}

// Full up to 32; beyond, NVRTC takes seconds over it and the kernel is no faster.
Value default_unroll(DType, const Parameters& before) {
  const int TILE = integer(before, "TILE");
  return TILE <= 32 ? TILE : 8;
}

// By shape class, the fastest sets of those measured on an H200 (tools/BENCHMARKS.md). Wide and
// large came out the same.
std::vector<Candidate> candidates() {
  using enum ShapeClass;
  const auto set = [](int TILE, int TN, int PAD, int UNROLL_K) -> Parameters {
    return {{"TILE", TILE}, {"TN", TN}, {"PAD", PAD}, {"UNROLL_K", UNROLL_K}};
  };
  std::vector<Candidate> list{{.shape = tiny, .parameters = set(16, 1, 0, 16)},
                              {.shape = narrow, .parameters = set(16, 1, 0, 16)},
                              {.shape = tall, .parameters = set(32, 4, 2, 4)},
                              {.shape = wide, .parameters = set(32, 4, 2, 8)},
                              {.shape = large, .parameters = set(32, 4, 2, 8)}};
  for (const ShapeClass shape : {tall, wide, large}) {
    // Elements of 2 bytes halve the shared memory of a tile, those of 8 double it.
    list.push_back(
        {.shape = shape, .parameters = set(64, 8, 2, 16), .preference = 1, .dtypes = {f16, bf16}});
    list.push_back(
        {.shape = shape, .parameters = set(16, 2, 1, 8), .preference = 1, .dtypes = {f64}});
  }
  return list;
}

}  // namespace

KernelTemplate gemm_regn() {
  return {
      .name = "gemm_regn",
      .operation = Operation::gemm,
      .source = embedded_text("gemm_regn.cu"),
      .parameters =
          {
              {"TILE",
               "edge of the square tile of D that a block computes, and the step in K",
               Allowed::range(1, 1024),
               always(32),
               {8, 16, 24, 32, 48, 64}},
              {"TN",
               "neighbouring outputs of one thread",
               Allowed::range(1, 1024),
               [](DType, const Parameters& before) {
                 return Value(integer(before, "TILE") % 4 == 0 ? 4 : 1);
               },
               {1, 2, 3, 4, 6, 8, 16}},
              {"PAD",
               "elements added to each row of a shared tile",
               Allowed::range(0, 32),
               always(1),
               {0, 1}},
              accumulator_parameter(),
              {"UNROLL_K",
               "steps of k that the inner loop is unrolled by",
               Allowed::range(1, 1024),
               default_unroll,
               {1, 8}},
          },
      .dtypes = {f32, f64, f16, bf16, s32},
      .why_not = why_not,
      .launch = launch,
      .candidates = candidates(),
  };
}

}  // namespace tilec

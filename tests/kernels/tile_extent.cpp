#include "tests/kernels/tile_extent.h"

namespace tilec::test {
namespace {

// The largest extent that a single block serves, by bisection.
template <class Blocks>
std::int64_t largest_single(Blocks blocks_for) {
  std::int64_t single = 1, several = std::int64_t{1} << 24;
  while (several - single > 1) {
    const std::int64_t middle = (single + several) / 2;
    (blocks_for(middle) == 1 ? single : several) = middle;
  }
  return single;
}

std::int64_t blocks(const KernelTemplate& kernel, const Problem& problem,
                    const Parameters& parameters) {
  const LaunchShape shape = kernel.launch(problem, parameters);
  return shape.grid[0] * shape.grid[1] * shape.grid[2];
}

}  // namespace

TileExtent tile_extent(const KernelTemplate& kernel, DType T, const Parameters& parameters) {
  if (kernel.operation == Operation::add) {
    const auto of = [&](std::int64_t n) {
      return blocks(kernel, AddProblem{.shape = {n}, .dtype = T}, parameters);
    };
    return {.rows = 1, .columns = largest_single(of)};
  }
  const auto of = [&](std::int64_t M, std::int64_t N) {
    return blocks(kernel, normalized({.M = M, .N = N, .K = 1, .a = T}), parameters);
  };
  return {.rows = largest_single([&](std::int64_t M) { return of(M, 1); }),
          .columns = largest_single([&](std::int64_t N) { return of(1, N); })};
}

}  // namespace tilec::test

// What the GEMM templates share on the host side.
#include "gemm.h"

#include <algorithm>

namespace tilec {

Parameter accumulator_parameter() {
  std::vector<Value> types;
  for (const DTypeInfo& type : dtypes()) types.emplace_back(type.dtype);
  return {.name = "ACC",
          .meaning = "type of the sums of products",
          .allowed = Allowed::one_of(types),
          .default_value = [](DType T, const Parameters&) { return Value(info(T).accumulator); },
          .samples = types};
}

std::string why_not_accumulate(DType T, DType accumulator) {
  if (accumulator == T || accumulator == info(T).accumulator) return {};
  return "ACC = " + std::string(info(accumulator).name) +
         " does not go with T = " + std::string(info(T).name) + ", which is summed in " +
         std::string(info(info(T).accumulator).name) +
         (info(T).accumulator == T ? "" : " or in " + std::string(info(T).name) + " itself");
}

std::array<std::int64_t, 3> tile_grid(const GemmProblem& problem, int rows, int columns) {
  constexpr std::int64_t kMostRows = 65535;
  const std::int64_t x = (problem.N + columns - 1) / columns;
  const std::int64_t y = (problem.M + rows - 1) / rows;
  return {x, std::min(y, kMostRows), (y + kMostRows - 1) / kMostRows};
}

}  // namespace tilec

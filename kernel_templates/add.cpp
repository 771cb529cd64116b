// What the Add templates share on the host side.
#include "add.h"

namespace tilec {

Parameter vector_width_parameter() {
  return {.name = "W",
          .meaning = "elements of one vector access",
          .allowed = Allowed::one_of({1, 2, 4, 8}),
          .default_value = [](DType T, const Parameters&) { return Value(16 / info(T).size); },
          .samples = {1, 2, 4, 8}};
}

Parameter add_block_parameter() {
  return {.name = "BLOCK",
          .meaning = "threads of a block",
          .allowed = Allowed::range(1, 1024),
          .default_value = always(256),
          .samples = {1, 96, 256, 1024}};
}

std::string why_not_vector(DType T, int W) {
  const int bytes = W * info(T).size;
  if (bytes <= 16) return {};
  return "W = " + std::to_string(W) + " elements of " + std::string(info(T).name) + " are " +
         std::to_string(bytes) + " bytes; one access moves at most 16";
}

LaunchShape linear_launch(const Problem& problem, int block, std::int64_t elements) {
  const std::int64_t n = std::get<AddProblem>(problem).shape.elements();
  return {.grid = {n / elements + (n % elements != 0), 1, 1}, .block = {block, 1, 1}};
}

}  // namespace tilec

#include "device/launch_shape.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tilec {

std::string launch_fault(const LaunchShape& shape, std::int64_t most_shared_bytes) {
  const auto& [width, height, depth] = shape.block;
  // Each by itself first: the product of three may be anything.
  if (std::min({width, height, depth}) < 1 || std::max(width, height) > 1024 || depth > 64 ||
      shape.threads() > 1024) {
    return fmt::format(
        "would need blocks of {}×{}×{} threads; CUDA's limit is 1024 in all, 64 of them in z",
        width, height, depth);
  }
  if (shape.shared_bytes < 0 || shape.shared_bytes > most_shared_bytes) {
    return fmt::format("would need {} bytes of shared memory a block; the device has {}",
                       shape.shared_bytes, most_shared_bytes);
  }
  const auto& [x, y, z] = shape.grid;
  if (std::min({x, y, z}) < 0 || x > 0x7fffffff || y > 65535 || z > 65535) {
    return fmt::format(
        "would need a grid of {}×{}×{} blocks; CUDA's limit is 2147483647×65535×65535. Larger "
        "tiles need fewer blocks",
        x, y, z);
  }
  return {};
}

}  // namespace tilec

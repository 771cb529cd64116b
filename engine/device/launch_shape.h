// What CUDA can launch at all. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "tilec/kernel_template.h"

namespace tilec {

// Why no device launches such a shape where a block may have `most_shared_bytes` of dynamic shared
// memory: "would need …", with the value and the limit. Empty where it may be launched.
std::string launch_fault(const LaunchShape& shape, std::int64_t most_shared_bytes);

}  // namespace tilec

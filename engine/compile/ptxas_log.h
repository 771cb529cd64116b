// What `ptxas -v` tells of each kernel, read from the compile log.
#pragma once

#include <string_view>
#include <vector>

#include "tilec/cache.h"

namespace tilec {

// Registers, static shared memory, stack frame and spills by entry, in the log's order.
std::vector<cache::EntryPoint> parse_ptxas_log(std::string_view log);

}  // namespace tilec

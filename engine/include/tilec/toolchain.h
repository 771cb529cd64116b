// What kernels would be compiled with on this machine, for a person to be told. Planning finds its
// compilers by the same rules, and only when it has to compile.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tilec/error.h"
#include "tilec/options.h"

namespace tilec {

struct NvrtcFound {
  std::filesystem::path path;
  int major = 0, minor = 0;
  std::vector<int> architectures;  // 75, 80, …; the suffixes a and f are not told
};

// Opens NVRTC. Throws Error{unsupported} listing every place that was tried.
TILEC_EXPORT NvrtcFound find_nvrtc(const NvrtcLocation& location);

}  // namespace tilec

// What kernels would be compiled with on this machine, for a person to be told. Planning finds its
// compilers by the same rules, and only when it has to compile.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tilec/error.h"
#include "tilec/options.h"
#include "tilec/target.h"

namespace tilec {

struct TILEC_EXPORT NvrtcFound {
  std::filesystem::path path;
  int major = 0, minor = 0;
  std::vector<int> architectures;  // 75, 80, …; the suffixes a and f are not told

  // All that it makes cubins for: sm_75, …, sm_90, sm_90a, ….
  std::vector<Target> targets() const;
  std::string known() const;  // the same in words: "NVRTC 13.0 (its path) knows sm_75, …"
  // Why it does not compile for the target as it is named, in words; empty where it does. PTX of an
  // earlier architecture, which a newer GPU is given, is another target.
  std::string why_not(const Target& target) const;
};

// Opens NVRTC. Throws Error{unsupported} listing every place that was tried.
TILEC_EXPORT NvrtcFound find_nvrtc(const NvrtcLocation& location);

}  // namespace tilec

// What kernels would be compiled with on this machine, and for which targets.
#include "tilec/toolchain.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>

#include "compile/nvrtc_library.h"

namespace tilec {
namespace {

// NVRTC doesn't tell: features of one architecture exist from sm_90 on, of a family from sm_100 on
// and CUDA 12.9 on.
bool has_suffix(const NvrtcFound& nvrtc, int sm, char suffix) {
  if (suffix == 'a') return sm >= 90;
  if (suffix == 'f') return sm >= 100 && nvrtc.major * 100 + nvrtc.minor >= 1209;
  return true;
}

}  // namespace

std::vector<Target> NvrtcFound::targets() const {
  std::vector<Target> list;
  for (const int sm : architectures) {
    for (const char* suffix : {"", "a", "f"}) {
      if (has_suffix(*this, sm, *suffix)) {
        list.push_back(Target::parse(fmt::format("sm_{}{}", sm, suffix)));
      }
    }
  }
  return list;
}

std::string NvrtcFound::known() const {
  std::vector<std::string> names;
  for (const Target& one : targets()) names.push_back(one.name());
  return fmt::format("NVRTC {}.{} ({}) knows {}", major, minor, path.string(),
                     fmt::join(names, ", "));
}

std::string NvrtcFound::why_not(const Target& target) const {
  const bool has_architecture =
      std::find(architectures.begin(), architectures.end(), target.sm()) != architectures.end();
  if (has_architecture && has_suffix(*this, target.sm(), target.suffix())) return {};
  std::string reason;
  if (has_architecture) {
    reason = fmt::format("sm_{} has no variant '{}' there", target.sm(), target.suffix());
  } else if (!architectures.empty() && target.sm() < architectures.front()) {
    reason = fmt::format("sm_{} is the least", architectures.front());
  } else {
    reason = "it is no architecture that this NVRTC knows";
  }
  return fmt::format("{} can't be compiled for: {}. {}", target.name(), reason, known());
}

NvrtcFound find_nvrtc(const NvrtcLocation& location) {
  return NvrtcLibrary::open(location);
}

}  // namespace tilec

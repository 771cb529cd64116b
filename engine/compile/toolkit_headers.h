// The CUDA toolkit's headers, for templates that include any: where they lie, and of which release.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tilec/options.h"

namespace tilec {

struct ToolkitHeaders {
  std::vector<std::filesystem::path> folders;  // cuda_fp16.h's, then CCCL's (cuda/std, cub, thrust)
  int major = 0, minor = 0;                    // 0.0: they don't tell

  // The folder that cuda/std is in; empty where it is in none.
  std::filesystem::path cccl() const;
  std::string version() const;  // "12.8", or "unknown"
  bool operator==(const ToolkitHeaders&) const = default;
};

// Those of release `major`.`minor`, beside the library first, else whichever there are; with CCCL of
// the same release, which wheels have in a package of its own. They are looked for beside the
// library, in the toolkits named, and where toolkits are installed.
std::optional<ToolkitHeaders> find_toolkit_headers(const NvrtcLocation& location,
                                                   const std::filesystem::path& library, int major,
                                                   int minor);

// The folders that the library lies in: by the name it was opened by, and where a link leads.
std::vector<std::filesystem::path> folders_of(const std::filesystem::path& library);
// Toolkits: those named, then where they are installed.
std::vector<std::filesystem::path> toolkit_roots(const NvrtcLocation& location);

}  // namespace tilec

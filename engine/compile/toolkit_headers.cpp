// The layouts that toolkits and wheels have had.
#include "compile/toolkit_headers.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace tilec {
namespace {

namespace fs = std::filesystem;

// The number of `#define NAME number` in that file; 0 where there is none.
int defined_number(const fs::path& file, std::string_view name) {
  const std::string start = fmt::format("#define {} ", name);
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(start)) continue;
    const std::size_t digits = line.find_first_of("0123456789", start.size());
    int number = 0;
    if (digits != std::string::npos) {
      std::from_chars(line.data() + digits, line.data() + line.size(), number);
    }
    return number;
  }
  return 0;
}

// What lies in an include folder; nothing where CUDA's headers don't.
std::optional<ToolkitHeaders> headers_in(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / "cuda_fp16.h", error)) return std::nullopt;
  ToolkitHeaders headers;
  headers.folders.push_back(folder.lexically_normal());
  // CCCL: beside the rest up to CUDA 12, then in a folder of its own; the wheels of CUDA 12 have it
  // in one of their own.
  for (const char* cccl : {"cccl", "../../cuda_cccl/include"}) {
    if (fs::exists(folder / cccl / "cuda" / "std", error)) {
      headers.folders.push_back((folder / cccl).lexically_normal());
    }
  }
  int version = defined_number(folder / "cuda.h", "CUDA_VERSION");
  if (version == 0) version = defined_number(folder / "cuda_runtime_api.h", "CUDART_VERSION");
  headers.major = version / 1000;
  headers.minor = version % 1000 / 10;
  return headers;
}

}  // namespace

fs::path ToolkitHeaders::cccl() const {
  std::error_code error;
  const auto has_it = [&](const fs::path& folder) {
    return fs::exists(folder / "cuda/std", error);
  };
  const auto found = std::ranges::find_if(folders, has_it);
  return found == folders.end() ? fs::path() : *found;
}

std::string ToolkitHeaders::version() const {
  return major == 0 ? "unknown" : fmt::format("{}.{}", major, minor);
}

std::vector<fs::path> folders_of(const fs::path& library) {
  std::vector<fs::path> folders{library.parent_path()};
  std::error_code error;
  const fs::path real = fs::canonical(library, error);
  if (!error && real.parent_path() != folders.front()) folders.push_back(real.parent_path());
  return folders;
}

std::vector<fs::path> toolkit_roots(const NvrtcLocation& location) {
  std::vector<fs::path> roots = location.toolkits;
  roots.emplace_back("/usr/local/cuda");
  roots.emplace_back("/opt/cuda");
  return roots;
}

std::optional<ToolkitHeaders> find_toolkit_headers(const NvrtcLocation& location,
                                                   const fs::path& library, int major, int minor) {
  std::vector<fs::path> folders;
  for (const fs::path& folder : folders_of(library)) {
    // lib64; targets/x86_64-linux/lib; a wheel's nvidia/cuda_nvrtc/lib.
    for (const char* include : {"../include", "../../../include", "../../cuda_runtime/include"}) {
      folders.push_back(folder / include);
    }
  }
  for (const fs::path& root : toolkit_roots(location)) {
    for (const char* include :
         {"include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"}) {
      folders.push_back(root / include);
    }
  }
  std::optional<ToolkitHeaders> best;
  for (const fs::path& folder : folders) {
    const std::optional<ToolkitHeaders> headers = headers_in(folder);
    if (!headers) continue;
    const bool same_release = headers->major == major && headers->minor == minor;
    if (!best || (same_release && best->version() != headers->version())) {
      best = headers;
    } else if (best->version() == headers->version() && best->cccl().empty() &&
               !headers->cccl().empty()) {
      best->folders.push_back(headers->cccl());  // that of the same release will do
    }
    if (same_release && !best->cccl().empty()) break;
  }
  return best;
}

}  // namespace tilec

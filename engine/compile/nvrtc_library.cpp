// Finds and opens NVRTC, with the builtins library that it needs.
#include "compile/nvrtc_library.h"

#include <dlfcn.h>
#include <spdlog/fmt/fmt.h>

#include <array>

#include "loader.h"

namespace tilec {
namespace {

namespace fs = std::filesystem;

constexpr int kLeastMajor = 12;
constexpr std::array<const char*, 3> kNames{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

// Every name to hand to dlopen, the likeliest first.
std::vector<fs::path> places(const NvrtcLocation& location) {
  if (!location.library.empty()) return {location.library};
  std::vector<fs::path> list(kNames.begin(), kNames.end());
  for (const fs::path& root : toolkit_roots(location)) {
    for (const char* folder :
         {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"}) {
      for (const char* name : kNames) list.push_back(root / folder / name);
    }
  }
  return list;
}

// NVRTC asks for its builtins by name, which the loader may not find in an unusual folder. One that
// is loaded already satisfies it.
void load_builtins_beside(const NvrtcLibrary& nvrtc) {
  const std::string name = fmt::format("libnvrtc-builtins.so.{}.{}", nvrtc.major, nvrtc.minor);
  for (const fs::path& folder : folders_of(nvrtc.path)) {
    if (dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
  }
}

template <class Function>
void find(void* library, const fs::path& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{} has no {}: it is not an NVRTC of CUDA 12.0 or later", path.string(), name));
  }
}

std::vector<int> supported_architectures(void* library, const fs::path& path) {
  decltype(&::nvrtcGetNumSupportedArchs) get_count = nullptr;
  decltype(&::nvrtcGetSupportedArchs) get = nullptr;
  find(library, path, "nvrtcGetNumSupportedArchs", get_count);
  find(library, path, "nvrtcGetSupportedArchs", get);
  int count = 0;
  get_count(&count);
  std::vector<int> architectures(static_cast<std::size_t>(count));
  if (count > 0) get(architectures.data());
  return architectures;
}

// What is behind one name. Throws Error{unsupported} for another library, or an older NVRTC.
NvrtcLibrary entry_points(void* library, const fs::path& place) {
  NvrtcLibrary nvrtc;
  nvrtc.path = path_of(library);
  if (nvrtc.path.empty()) nvrtc.path = place;
  decltype(&::nvrtcVersion) get_version = nullptr;
  find(library, nvrtc.path, "nvrtcVersion", get_version);
  get_version(&nvrtc.major, &nvrtc.minor);
  if (nvrtc.major < kLeastMajor) {
    throw Error(ErrorKind::unsupported,
                fmt::format("NVRTC {}.{} at {} is too old, {}.0 is the least", nvrtc.major,
                            nvrtc.minor, nvrtc.path.string(), kLeastMajor));
  }
  find(library, nvrtc.path, "nvrtcGetErrorString", nvrtc.get_error_string);
  find(library, nvrtc.path, "nvrtcCreateProgram", nvrtc.create_program);
  find(library, nvrtc.path, "nvrtcDestroyProgram", nvrtc.destroy_program);
  find(library, nvrtc.path, "nvrtcCompileProgram", nvrtc.compile_program);
  find(library, nvrtc.path, "nvrtcGetProgramLogSize", nvrtc.get_log_size);
  find(library, nvrtc.path, "nvrtcGetProgramLog", nvrtc.get_log);
  find(library, nvrtc.path, "nvrtcGetCUBINSize", nvrtc.get_cubin_size);
  find(library, nvrtc.path, "nvrtcGetCUBIN", nvrtc.get_cubin);
  find(library, nvrtc.path, "nvrtcGetPTXSize", nvrtc.get_ptx_size);
  find(library, nvrtc.path, "nvrtcGetPTX", nvrtc.get_ptx);
  nvrtc.architectures = supported_architectures(library, nvrtc.path);
  return nvrtc;
}

}  // namespace

NvrtcLibrary NvrtcLibrary::open(const NvrtcLocation& location) {
  std::string tried, unusable;
  for (const fs::path& place : places(location)) {
    void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const why = dlerror();
      std::error_code error;
      if (place.has_parent_path() && fs::exists(place, error)) {
        unusable += (unusable.empty() ? "" : "; ") + std::string(why);
      } else {
        tried += (tried.empty() ? "" : ", ") + place.string();
      }
      continue;
    }
    try {
      NvrtcLibrary nvrtc = entry_points(library, place);
      load_builtins_beside(nvrtc);
      nvrtc.headers = find_toolkit_headers(location, nvrtc.path, nvrtc.major, nvrtc.minor);
      return nvrtc;
    } catch (const Error& error) {
      // Another place may have a better one.
      if (unusable.find(error.what()) == std::string::npos) {
        unusable += (unusable.empty() ? "" : "; ") + std::string(error.what());
      }
    }
  }
  throw Error(
      ErrorKind::unsupported,
      fmt::format("a kernel has to be compiled, and no NVRTC of CUDA {}.0 or later was found. "
                  "{}{}{}{}. Install a CUDA toolkit or the PyPI package "
                  "nvidia-cuda-nvrtc and name its libnvrtc.so in Options::nvrtc or TILEC_NVRTC, or "
                  "fill the cache with `tilec build` on a machine that has it",
                  kLeastMajor, unusable, unusable.empty() || tried.empty() ? "" : ". ",
                  tried.empty() ? "" : "Looked for ", tried));
}

}  // namespace tilec

// Finds and opens NVRTC, with the builtins library that it needs.
#include "compile/nvrtc_library.h"

#include <dlfcn.h>
#include <link.h>
#include <spdlog/fmt/fmt.h>

#include <array>

namespace tilec {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 3> kNames{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

// Every name to hand to dlopen, the likeliest first.
std::vector<fs::path> places(const NvrtcLocation& location) {
  std::vector<fs::path> list;
  if (!location.library.empty()) return {location.library};
  list.assign(kNames.begin(), kNames.end());
  std::vector<fs::path> roots = location.toolkits;
  roots.emplace_back("/usr/local/cuda");
  for (const fs::path& root : roots) {
    for (const char* folder :
         {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"}) {
      for (const char* name : kNames) list.push_back(root / folder / name);
    }
  }
  return list;
}

fs::path path_of(void* library) {
  const link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  return map->l_name;
}

// The folders that the library lies in: by the name it was opened by, and where a link leads.
std::vector<fs::path> folders_of(const fs::path& library) {
  std::vector<fs::path> folders{library.parent_path()};
  std::error_code error;
  const fs::path real = fs::canonical(library, error);
  if (!error && real.parent_path() != folders.front()) folders.push_back(real.parent_path());
  return folders;
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

// The library's own come first: they are of its version, and so what the builder's name stands for.
std::optional<fs::path> find_toolkit_headers(const NvrtcLocation& location,
                                             const fs::path& library) {
  std::vector<fs::path> folders;
  for (const fs::path& folder : folders_of(library)) {
    folders.push_back(folder / "../include");
    folders.push_back(folder / "../../../include");
  }
  for (const fs::path& root : location.toolkits) folders.push_back(root / "include");
  folders.emplace_back("/usr/local/cuda/include");
  std::error_code error;
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / "cuda_fp16.h", error)) return folder.lexically_normal();
  }
  return std::nullopt;
}

}  // namespace

NvrtcLibrary NvrtcLibrary::open(const NvrtcLocation& location) {
  std::string tried;
  void* library = nullptr;
  for (const fs::path& place : places(location)) {
    library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    tried += (tried.empty() ? "" : ", ") + place.string();
  }
  if (library == nullptr) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("a kernel has to be compiled, and NVRTC is not on this machine. Looked for "
                    "{}. Install a CUDA toolkit or the PyPI package nvidia-cuda-nvrtc and "
                    "name its libnvrtc.so in Options::nvrtc or TILEC_NVRTC, or fill the cache "
                    "with `tilec build` on a machine that has it",
                    tried));
  }
  NvrtcLibrary nvrtc;
  nvrtc.path = path_of(library);
  if (nvrtc.path.empty()) nvrtc.path = location.library;
  decltype(&::nvrtcVersion) get_version = nullptr;
  find(library, nvrtc.path, "nvrtcVersion", get_version);
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
  get_version(&nvrtc.major, &nvrtc.minor);
  load_builtins_beside(nvrtc);
  nvrtc.architectures = supported_architectures(library, nvrtc.path);
  nvrtc.toolkit_headers = find_toolkit_headers(location, nvrtc.path);
  return nvrtc;
}

}  // namespace tilec

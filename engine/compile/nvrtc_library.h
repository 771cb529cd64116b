// NVRTC, opened at run time: where it is looked for, and its entry points. A look-up in the cache
// never comes here.
#pragma once

#include <nvrtc.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tilec/options.h"

namespace tilec {

struct NvrtcLibrary {
  // Opens it. Throws Error{unsupported} listing every place that was tried. Opened libraries stay.
  static NvrtcLibrary open(const NvrtcLocation& location);

  std::filesystem::path path;  // of the library that was opened
  int major = 0, minor = 0;
  std::vector<int> architectures;  // 75, 80, …; suffixes not told
  std::optional<std::filesystem::path>
      toolkit_headers;  // the folder of cuda_fp16.h, if there is one

  decltype(&::nvrtcGetErrorString) get_error_string = nullptr;
  decltype(&::nvrtcCreateProgram) create_program = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&::nvrtcCompileProgram) compile_program = nullptr;
  decltype(&::nvrtcGetProgramLogSize) get_log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) get_log = nullptr;
  decltype(&::nvrtcGetCUBINSize) get_cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) get_cubin = nullptr;
  decltype(&::nvrtcGetPTXSize) get_ptx_size = nullptr;
  decltype(&::nvrtcGetPTX) get_ptx = nullptr;
};

}  // namespace tilec

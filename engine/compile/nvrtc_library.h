// NVRTC, opened at run time: where it is looked for, and its entry points. A look-up in the cache
// never comes here.
#pragma once

#include <nvrtc.h>

#include <memory>
#include <optional>

#include "compile/toolkit_headers.h"
#include "tilec/toolchain.h"

namespace tilec {

class Compiler;

struct NvrtcLibrary : NvrtcFound {
  // Opens it. Throws Error{unsupported} listing every place that was tried, and what was found there
  // but is too old or no NVRTC. Opened libraries stay.
  static NvrtcLibrary open(const NvrtcLocation& location);

  std::optional<ToolkitHeaders> headers;

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

// A compiler with that one, opened already.
std::unique_ptr<Compiler> nvrtc_compiler(NvrtcLibrary library);

}  // namespace tilec

// From a Source to an Artifact: NVRTC for GPUs, the machine's C++ compiler for the host device.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tilec/cache.h"
#include "tilec/error.h"
#include "tilec/kernel_template.h"
#include "tilec/options.h"

namespace tilec {

struct CompileRequest {
  Source source;
  Target target;
  std::vector<std::string> options;  // the template's own, after Compiler::options
  std::string name;  // how errors call the kernel: "gemm_regn TILE=32 … for sm_90"
};

// What a compiler made, or the cache kept.
struct Artifact {
  std::string kind;  // "cubin", "ptx" or "host"
  std::vector<std::byte> image;
  std::vector<cache::EntryPoint> entries = {};
  std::string builder = {};  // the compiler's full build: "nvrtc-13.0.88", "g++-12.2.0"
  std::string log = {};
  double seconds = 0;
};

// Thread-safe. Opens its compiler when first asked to compile, not before.
class Compiler {
 public:
  virtual ~Compiler() = default;
  // The options that every compile for this target gets, in canonical order. Part of the key.
  virtual std::vector<std::string> options(const Target& target) const = 0;
  // What the request's target is compiled as where the compiler does not know it: PTX of an earlier
  // one. May open the compiler. Throws Error{unsupported} where it is missing.
  virtual Target nearest_target(const Target& target) const { return target; }
  // Artifact::builder of what compile() makes of the request. May open the compiler, and compile
  // something small. Throws Error{unsupported} where it is missing.
  virtual std::string builder(const CompileRequest& request) const = 0;
  // Throws Error{compile} with kernel, options and the full log; Error{unsupported} where the
  // compiler is missing (and where it was looked for) or does not know the target.
  virtual Artifact compile(const CompileRequest& request) const = 0;
};

std::unique_ptr<Compiler> nvrtc_compiler(const NvrtcLocation& location);
// `program` empty: c++, g++ or clang++ on PATH. Throws Error{unsupported} where tilec was built
// without the host device.
std::unique_ptr<Compiler> host_compiler(const std::filesystem::path& program);

}  // namespace tilec

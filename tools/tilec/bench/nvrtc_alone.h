// The rival of a cold plan: NVRTC, called as one would without an engine.
#pragma once

#include <memory>
#include <string>

#include "tilec/kernel_template.h"
#include "tilec/options.h"

namespace tilec::bench {

class NvrtcAlone {
 public:
  // Opens NVRTC. Throws Error{unsupported} where it is missing.
  explicit NvrtcAlone(const NvrtcLocation& location);
  ~NvrtcAlone();
  // Compiles to a cubin, with the engine's options and --no-cache. Throws Failure.
  void compile(const Source& source, const std::string& target) const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace tilec::bench

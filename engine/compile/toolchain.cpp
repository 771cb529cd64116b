// What kernels would be compiled with on this machine.
#include "tilec/toolchain.h"

#include "compile/nvrtc_library.h"

namespace tilec {

NvrtcFound find_nvrtc(const NvrtcLocation& location) {
  const NvrtcLibrary library = NvrtcLibrary::open(location);
  return {.path = library.path,
          .major = library.major,
          .minor = library.minor,
          .architectures = library.architectures};
}

}  // namespace tilec

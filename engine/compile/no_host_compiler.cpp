// Stands in for the host device's compiler where tilec is built without it.
#include "compile/compiler.h"

namespace tilec {

std::unique_ptr<Compiler> host_compiler(const std::filesystem::path&) {
  throw Error(ErrorKind::unsupported,
              "this tilec was built without the host device; configure it with "
              "-DTILEC_HOST_DEVICE=ON (needs Boost.Context)");
}

}  // namespace tilec

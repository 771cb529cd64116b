// Stands in for the host device where tilec is built without it.
#include "device/backend.h"

namespace tilec {

std::shared_ptr<DeviceBackend> host_backend(const HostOptions&) {
  throw Error(ErrorKind::unsupported,
              "this tilec was built without the host device; configure it with "
              "-DTILEC_HOST_DEVICE=ON (needs Boost.Context)");
}

}  // namespace tilec

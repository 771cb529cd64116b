#include "loader.h"

#include <dlfcn.h>
#include <link.h>

namespace tilec {

std::filesystem::path path_of(void* library) {
  const link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  return map->l_name;
}

}  // namespace tilec

// What a Store is made of. Fixed once opened: thread-safe because its parts are.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "root.h"
#include "source.h"
#include "tilec/cache.h"

namespace tilec::cache {

struct Store::State {
  StoreOptions options;
  std::vector<std::unique_ptr<Source>> sources;  // in the order of search
  Root* own = nullptr;                           // one of the sources, or none
  std::vector<std::string> problems;

  bool can_write() const { return own && own->settings().write; }
};

}  // namespace tilec::cache

// Advisory locks on a fixed set of stripe files, never unlinked: one byte range a key, so that two
// keys share a lock only if 65 bits of them agree. An open file description holds each, so threads
// exclude each other as processes do. A lock ends with its holder, however that ends.
#pragma once

#include <cstdint>
#include <string>

#include "fork_guard.h"
#include "root.h"
#include "tilec/cache_key.h"

namespace tilec::cache {

enum class LockState { held, busy, unavailable };

class KeyLock {
 public:
  // Opens the key's stripe; nothing is locked yet.
  KeyLock(const Root& root, const RootFolder& folder, const Key& key);

  // Never waits. `unavailable`: no lock can be had here, error() says why.
  LockState try_lock();
  int error() const { return error_; }
  GuardedDescriptor release() { return std::move(file_); }

 private:
  GuardedDescriptor file_;
  std::int64_t offset_ = 0;
  int error_ = 0;
};

// A file to lock, made where missing. Run it through GuardedDescriptor.
Descriptor open_lock_file(const Root& root, const RootFolder& folder, const std::string& name);

}  // namespace tilec::cache

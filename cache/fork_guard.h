// What must not be shared with a forked child. The one place with process-wide state, because
// pthread_atfork knows no other: descriptors that carry a lock (a child's copy would keep the lock
// alive past its holder's death) and the mutex that guards every store's small mutable state (a
// fork at the wrong moment would leave it locked in the child).
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "file.h"

namespace tilec::cache {

// Held while a fork copies the process. Only for a few instructions at a time, never around I/O.
std::mutex& fork_safe_mutex();

// A descriptor that forked children close.
class GuardedDescriptor {
 public:
  GuardedDescriptor() = default;
  // `open` runs while no fork can.
  explicit GuardedDescriptor(const std::function<Descriptor()>& open);
  GuardedDescriptor(GuardedDescriptor&& other) noexcept : ticket_(other.release()) {}
  GuardedDescriptor& operator=(GuardedDescriptor&& other) noexcept;
  ~GuardedDescriptor();

  // -1 if opening failed (errno is then as it left it), and in a child that forked later.
  int get() const;

  std::uint64_t release();
  static GuardedDescriptor adopt(std::uint64_t ticket);

 private:
  std::uint64_t ticket_ = 0;
};

}  // namespace tilec::cache

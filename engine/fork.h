// What a fork leaves behind. A child has one thread, and every lock that another thread of its
// parent held stays locked in it for ever; so what was made before a fork is told apart, and left
// alone. (The host device's runners and the cache's locks have handlers of their own.) Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tilec {

// How many forks lie between this process and the program's start: what was made under another
// number is the parent's. (vfork, posix_spawn and exec don't count.)
std::uint64_t fork_generation();

// Libraries that we call with locks of theirs, which nobody can free in a child.
enum class Library { nvrtc, driver };
inline constexpr std::size_t kLibraries = 2;

// Says, for its lifetime, that this thread may be inside the library. Not to be held while forking.
class InLibrary {
 public:
  explicit InLibrary(Library library);
  ~InLibrary();
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;

 private:
  Library library_;
};

// The same for good: of a library that no later child can use.
void never_leaves(Library library);

// True in a child that was forked while another thread was inside the library, and in its children.
inline constinit std::array<std::atomic<bool>, kLibraries> lost_in_fork{};
inline bool forked_inside(Library library) {
  return lost_in_fork[static_cast<std::size_t>(library)].load(std::memory_order_relaxed);
}

}  // namespace tilec

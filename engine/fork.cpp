#include "fork.h"

#include <pthread.h>

namespace tilec {
namespace {

constinit std::atomic<std::uint64_t> generation{0};
constinit std::array<std::atomic<int>, kLibraries> inside{};

void in_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < inside.size(); ++i) {
    // The threads that were inside are not in this process.
    if (inside[i].exchange(0, std::memory_order_relaxed) > 0) {
      lost_in_fork[i].store(true, std::memory_order_relaxed);
    }
  }
}

// When the program starts (or the plugin that holds tilec is loaded): before any engine.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, in_child);

std::size_t index(Library library) {
  return static_cast<std::size_t>(library);
}

}  // namespace

std::uint64_t fork_generation() {
  return generation.load(std::memory_order_relaxed);
}

InLibrary::InLibrary(Library library) : library_(library) {
  inside[index(library_)].fetch_add(1);
}

void never_leaves(Library library) {
  inside[index(library)].fetch_add(1);
}

InLibrary::~InLibrary() {
  inside[index(library_)].fetch_sub(1);
}

}  // namespace tilec

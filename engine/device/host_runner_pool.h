// The process's block runners between launches: they own the fibers and their stacks. So few that
// every stack can have its guard page. Thread-safe, without locks: a child forked at any time finds
// it usable.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "device/host_block.h"
#include "device/host_sanitizers.h"

namespace tilec::host {

class RunnerPool {
 public:
  // A runner is up to 1024 stacks of two mappings each: these make half of the 65,530 mappings that
  // Linux allows a process. ThreadSanitizer has a place for 8,128 threads and fibers.
#if defined(TILEC_THREAD_SANITIZER)
  static constexpr int kRunners = 4;
#else
  static constexpr int kRunners = 16;
#endif

  static RunnerPool& of_process();

  // Null where all are in use. Throws std::bad_alloc.
  std::unique_ptr<BlockRunner> take();
  std::unique_ptr<BlockRunner> wait_for_one();
  // Null: the one that was taken is no more.
  void put(std::unique_ptr<BlockRunner> runner);
  // In the child: those that other threads had taken are lost.
  void after_fork();

 private:
  std::array<std::atomic<BlockRunner*>, kRunners> idle_{};
  std::atomic<int> made_{0};      // idle, or taken
  std::atomic<int> returned_{0};  // counts, for those who wait
};

}  // namespace tilec::host

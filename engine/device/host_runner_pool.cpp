// Taking, returning, waiting, and what a fork leaves.
#include "device/host_runner_pool.h"

#include <pthread.h>

namespace tilec::host {
namespace {

// Never destroyed: the destructor of a static object may still launch.
constinit RunnerPool pool;

[[maybe_unused]] const int watching_forks =
    pthread_atfork(nullptr, nullptr, [] { pool.after_fork(); });

}  // namespace

RunnerPool& RunnerPool::of_process() {
  return pool;
}

std::unique_ptr<BlockRunner> RunnerPool::take() {
  for (std::atomic<BlockRunner*>& place : idle_) {
    if (BlockRunner* const runner = place.exchange(nullptr)) {
      return std::unique_ptr<BlockRunner>(runner);
    }
  }
  for (int made = made_.load(); made < kRunners;) {
    auto runner = std::make_unique<BlockRunner>();
    if (made_.compare_exchange_weak(made, made + 1)) return runner;
  }
  return nullptr;
}

std::unique_ptr<BlockRunner> RunnerPool::wait_for_one() {
  for (;;) {
    const int returned = returned_.load();
    if (std::unique_ptr<BlockRunner> runner = take()) return runner;
    returned_.wait(returned);
  }
}

void RunnerPool::put(std::unique_ptr<BlockRunner> runner) {
  if (runner == nullptr) --made_;
  while (runner != nullptr) {
    for (std::atomic<BlockRunner*>& place : idle_) {
      BlockRunner* empty = nullptr;
      if (!place.compare_exchange_strong(empty, runner.get())) continue;
      static_cast<void>(runner.release());
      break;
    }
  }
  ++returned_;
  returned_.notify_all();
}

void RunnerPool::after_fork() {
  int idle = 0;
  for (const std::atomic<BlockRunner*>& place : idle_) idle += place.load() != nullptr ? 1 : 0;
  made_ = idle;
}

}  // namespace tilec::host

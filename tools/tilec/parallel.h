// A loop over independent tasks on a few threads. Rethrows the first exception of a task.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tilec {

// Calls body(0) … body(count - 1), each once, in no order, on `threads` threads (0: one per core).
template <class Body>
void parallel_for(std::int64_t count, unsigned threads, const Body& body) {
  const unsigned wanted =
      threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      for (std::int64_t i = next++; i < count; i = next++) body(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::jthread> helpers;
  for (std::int64_t i = 1; i < std::min<std::int64_t>(wanted, count); ++i)
    helpers.emplace_back(work);
  work();
  helpers.clear();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tilec

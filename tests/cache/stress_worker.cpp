#include "stress_worker.h"

#include <unistd.h>

#include <thread>

namespace tilec::cache::test {

namespace {

using namespace std::chrono_literals;

constexpr const char* builders[] = {"nvrtc-12.8.93", "nvrtc-13.0.88"};

class Worker {
 public:
  Worker(Board& board, const Settings& settings, const Store& store, std::uint32_t generation)
      : board_(board), settings_(settings), store_(store), generation_(generation) {}

  void run(unsigned seed, std::uint64_t rounds, bool may_fork) const {
    Random random(seed);
    while (!board_.stop && rounds-- > 0) {
      obtain(random() % settings_.keys, random);
      const unsigned dice = random() % 400;
      if (dice == 0) store_.sweep({.temporary_age = 0s});
      if (dice == 1) static_cast<void>(store_.totals());
      if (dice == 2 && may_fork && can_fork_beside_threads) fork_child(random());
    }
  }

 private:
  bool look_up(unsigned number) const {
    ++board_.look_ups;
    const LookUp found = store_.look_up(key_of(number));
    for (const Miss& miss : found.misses) ++board_.misses[static_cast<std::size_t>(miss.reason)];
    if (!found.entry) return false;
    ++board_.hits;
    const Metadata& metadata = found.entry->metadata;
    if (metadata != cubin_metadata(metadata.builder) ||
        found.entry->payload != expected(number, metadata.builder)) {
      ++board_.wrong_bytes;
    }
    return true;
  }

  void obtain(unsigned number, Random& random) const {
    if (look_up(number)) return;
    const BuildLock lock = store_.lock(key_of(number), 60s);
    if (!lock.held()) ++board_.no_locks;
    if (look_up(number)) return;
    if (lock.held()) {
      const std::uint32_t other = board_.holders[number].exchange(generation_);
      if (other != 0 && !board_.dead[other]) ++board_.overlapping_builds;
    }
    ++board_.builds;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    const std::string builder = builders[random() % 2];
    ++(store_.publish(key_of(number), cubin_metadata(builder), expected(number, builder))
           ? board_.published
           : board_.unpublished);
    if (lock.held()) {
      std::uint32_t self = generation_;
      board_.holders[number].compare_exchange_strong(self, 0);
    }
  }

  // The child goes on with the store that it inherited, and may outlive a killed parent.
  void fork_child(unsigned seed) const {
    ++board_.forks;
    if (::fork() != 0) return;
    Worker(board_, settings_, store_, board_.next_generation++).run(seed, 30, false);
    ::_exit(0);
  }

  Board& board_;
  const Settings& settings_;
  const Store& store_;
  std::uint32_t generation_;
};

}  // namespace

Bytes expected(unsigned number, const std::string& builder) {
  const std::size_t size = 500 + number * 2654435761u % 16'000;
  return cubin(size, 2 * number + (builder == builders[1] ? 1 : 0));
}

int work(Board& board, const Settings& settings, const StoreOptions& options,
         std::uint32_t generation, unsigned seed) {
  const Store store(options);
  const Worker worker(board, settings, store, generation);
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < settings.threads; ++i) {
    threads.emplace_back([&, i] { worker.run(seed * 31 + i, ~std::uint64_t{0}, true); });
  }
  return 0;
}

}  // namespace tilec::cache::test

// Many threads and processes, forks of a process that uses a store, and writers that are killed.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "doctest/doctest.h"
#include "support.h"
#include "tests/support/skip.h"

namespace tilec::cache::test {
namespace {

using namespace std::chrono_literals;

// What an engine does: look up → lock → look up → build → publish. A line in `log` for each build.
Bytes obtain(const Store& store, unsigned number, const fs::path& log) {
  if (LookUp found = store.look_up(key_of(number))) return std::move(found.entry->payload);
  const BuildLock lock = store.lock(key_of(number), 60s);
  if (LookUp found = store.look_up(key_of(number))) return std::move(found.entry->payload);
  const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const std::string line = std::to_string(number) + "\n";
  if (::write(file, line.data(), line.size()) < 0) return {};
  ::close(file);
  std::this_thread::sleep_for(5ms);
  Bytes built = cubin(3000, number);
  return store.publish(key_of(number), cubin_metadata(), built) ? built : Bytes();
}

std::size_t builds(const fs::path& log) {
  const Bytes text = read_file(log);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), std::byte{'\n'}));
}

// All of them start once the pipe closes. Returns how many failed.
int run_processes(int count, const std::function<int(int)>& body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[1]);
      char byte;
      if (::read(ends[0], &byte, 1) < 0) ::_exit(1);
      ::_exit(body(i));
    }
    children.push_back(child);
  }
  ::close(ends[0]);
  ::close(ends[1]);
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) ++failed;
  }
  return failed;
}

TEST_SUITE("cpu tsan") {
  TEST_CASE("sixteen processes, an empty cache, the same kernels") {
    TemporaryFolder folder;
    CHECK(run_processes(16, [&](int) {
            const Store store(quick(folder / "new/cache"));
            for (unsigned number = 0; number < 5; ++number) {
              if (obtain(store, number, folder / "log") != cubin(3000, number)) return 1;
            }
            return store.problems().empty() ? 0 : 2;
          }) == 0);
    CHECK(builds(folder / "log") == 5);
    CHECK(Store(quick(folder / "new/cache")).verify(false).good == 5);
    CHECK(leftovers(folder / "new/cache").empty());
  }

  TEST_CASE("children of a process that uses a store") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    CHECK(obtain(store, 0, folder / "log") == cubin(3000, 0));
    CHECK(run_processes(8, [&](int) {
            for (unsigned number = 0; number < 5; ++number) {
              if (obtain(store, number, folder / "log") != cubin(3000, number)) return 1;
            }
            return 0;
          }) == 0);
    CHECK(builds(folder / "log") == 5);
    CHECK(obtain(store, 4, folder / "log") == cubin(3000, 4));
  }

  TEST_CASE("many threads, one store") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    std::atomic<int> wrong = 0;
    {
      std::vector<std::jthread> threads;
      for (unsigned thread = 0; thread < 8; ++thread) {
        threads.emplace_back([&, thread] {
          for (unsigned i = 0; i < 40; ++i) {
            const unsigned number = (i + thread) % 10;
            if (obtain(store, number, folder / "log") != cubin(3000, number)) ++wrong;
            if (i % 10 == 0) store.sweep();
            if (i % 13 == 0) store.totals();
          }
        });
      }
    }
    CHECK(wrong == 0);
    CHECK(builds(folder / "log") == 10);
  }

  TEST_CASE("whoever has published finds it, be others learning of the same builder too") {
    for (unsigned round = 0; round < 100; ++round) {
      TemporaryFolder folder;
      const Store store(quick(folder / "root"));
      std::atomic<int> lost = 0;
      {
        std::vector<std::jthread> threads;
        for (unsigned thread = 0; thread < 8; ++thread) {
          threads.emplace_back([&, thread] {
            if (!store.publish(key_of(thread), cubin_metadata(), cubin())) ++lost;
            if (!store.look_up(key_of(thread)).entry) ++lost;
          });
        }
      }
      CHECK(lost == 0);
    }
  }

  TEST_CASE("the same entry from many threads at once") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    std::atomic<int> wrong = 0;
    {
      std::vector<std::jthread> threads;
      for (unsigned thread = 0; thread < 8; ++thread) {
        threads.emplace_back([&, thread] {
          for (unsigned i = 0; i < 30; ++i) {
            if (!store.publish(key_of(1), cubin_metadata(), cubin(5000, thread))) ++wrong;
            const LookUp found = store.look_up(key_of(1));
            if (!found.entry || found.entry->payload.size() != 5000) ++wrong;
            if (!found.misses.empty()) ++wrong;
          }
        });
      }
    }
    CHECK(wrong == 0);
    CHECK(store.totals().entries == 1);
    CHECK(store.totals().temporary_files == 0);
  }
}

TEST_SUITE("cpu") {
  TEST_CASE("forks while other threads publish and lock") {
    if (!can_fork_beside_threads) return tilec::test::skip("not under a sanitizer");
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    std::atomic<bool> stop = false;
    std::atomic<int> wrong = 0;
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        for (unsigned i = 0; !stop; ++i) {
          const unsigned number = (i + thread) % 50;
          const BuildLock lock = store.lock(key_of(number), 1s);
          if (!store.publish(key_of(number), cubin_metadata(), cubin(500, number))) ++wrong;
        }
      });
    }
    for (unsigned i = 0; i < 50; ++i) {
      CHECK(in_child([&] {
              for (unsigned number = 0; number < 3; ++number) {
                if (!store.publish(key_of(number), cubin_metadata(), cubin(500, number))) return 1;
                const LookUp found = store.look_up(key_of(number));
                if (!found.entry || found.entry->payload != cubin(500, number)) return 2;
              }
              return 0;
            }) == 0);
    }
    stop = true;
    threads.clear();
    CHECK(wrong == 0);
    CHECK(store.verify(false).damaged.empty());
  }

  TEST_CASE("writers killed at any moment") {
    TemporaryFolder folder;
    std::mt19937 random(1);
    StoreOptions options = quick(folder / "root");
    options.sync = true;
    for (int round = 0; round < 60; ++round) {
      const pid_t child = ::fork();
      if (child == 0) {
        const Store store(options);
        for (unsigned number = 0;; number = (number + 1) % 20) {
          static_cast<void>(store.publish(key_of(number), cubin_metadata(), cubin(20'000, number)));
        }
      }
      std::this_thread::sleep_for(std::chrono::microseconds(2000 + random() % 15'000));
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    const Store store(options);
    for (unsigned number = 0; number < 20; ++number) {
      const LookUp found = store.look_up(key_of(number));
      if (found.entry) CHECK(found.entry->payload == cubin(20'000, number));
      if (!found.entry) CHECK(found.misses.front().reason == MissReason::never_built);
    }
    CHECK(store.totals().entries > 0);
    store.sweep({.complete = true, .temporary_age = std::chrono::seconds(0)});
    CHECK(store.totals().temporary_files == 0);
    CHECK(leftovers(folder / "root").empty());
  }
}

}  // namespace
}  // namespace tilec::cache::test

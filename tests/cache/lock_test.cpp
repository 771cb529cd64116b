// Build locks: one holder a key, bounded waits, and holders that die or fork.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "doctest/doctest.h"
#include "support.h"

namespace tilec::cache::test {
namespace {

using namespace std::chrono_literals;

// A child's pid and a way to hear from it: it sends one byte, then sleeps until it is killed.
struct Child {
  pid_t pid = -1;
  int pipe = -1;

  char hear() const {
    char byte = 0;
    return ::read(pipe, &byte, 1) == 1 ? byte : '?';
  }
  void kill() const {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    ::close(pipe);
  }
};

Child start(const std::function<void(int pipe)>& body) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    body(ends[1]);
    for (;;) ::pause();
  }
  ::close(ends[1]);
  return {child, ends[0]};
}

void say(int pipe, char byte) {
  if (::write(pipe, &byte, 1) != 1) ::_exit(1);
}

TEST_SUITE("cpu tsan") {
  TEST_CASE("one holder a key") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    const Store other(quick(folder / "root"));
    BuildLock first = store.lock(key_of(1), 0ms);
    REQUIRE(first.held());
    CHECK_FALSE(first.waited());
    CHECK(first.why_not().empty());
    for (const Store* each : {&store, &other}) {
      const BuildLock second = each->lock(key_of(1), 5ms);
      CHECK_FALSE(second.held());
      CHECK(second.waited());
      CHECK_FALSE(second.why_not().empty());
    }
    std::vector<BuildLock> others;
    for (unsigned number = 2; number < 200; ++number) {
      others.push_back(other.lock(key_of(number), 0ms));
      CHECK(others.back().held());
    }
    BuildLock moved = std::move(first);
    CHECK(moved.held());
    CHECK_FALSE(first.held());
    CHECK_FALSE(other.lock(key_of(1), 0ms).held());
    moved = BuildLock();
    CHECK(other.lock(key_of(1), 0ms).held());
  }

  TEST_CASE("who waits is told so") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    BuildLock first = store.lock(key_of(1), 0ms);
    std::jthread releasing([&] {
      std::this_thread::sleep_for(20ms);
      first = BuildLock();
    });
    const BuildLock second = store.lock(key_of(1), 60s);
    CHECK(second.held());
    CHECK(second.waited());
  }

  TEST_CASE("a holder that is killed holds no more") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    const Child child = start([&](int pipe) {
      const BuildLock lock = store.lock(key_of(1), 0ms);
      say(pipe, lock.held() ? 'y' : 'n');
      for (;;) ::pause();
    });
    CHECK(child.hear() == 'y');
    CHECK_FALSE(store.lock(key_of(1), 0ms).held());
    child.kill();
    CHECK(store.lock(key_of(1), 0ms).held());
  }

  TEST_CASE("a child that outlives its killed parent keeps no lock") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    // The grandchild says 'g' once it runs with whatever it inherited, then stays.
    const Child child = start([&](int pipe) {
      const BuildLock lock = store.lock(key_of(1), 0ms);
      if (!lock.held()) ::_exit(1);
      if (::fork() == 0) {
        const std::string pid = std::to_string(::getpid()) + "\n";
        say(pipe, lock.held() ? 'x' : 'g');
        if (::write(pipe, pid.data(), pid.size()) < 0) ::_exit(1);
      }
      for (;;) ::pause();
    });
    CHECK(child.hear() == 'g');
    std::string digits;
    for (char byte = child.hear(); byte != '\n'; byte = child.hear()) digits += byte;
    CHECK_FALSE(store.lock(key_of(1), 0ms).held());
    child.kill();
    CHECK(store.lock(key_of(1), 0ms).held());
    CHECK(::kill(std::stoi(digits), SIGKILL) == 0);
  }

  TEST_CASE("a child's copy of a lock releases nothing") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    auto lock = std::make_unique<BuildLock>(store.lock(key_of(1), 0ms));
    REQUIRE(lock->held());
    CHECK(in_child([&] {
            if (lock->held()) return 1;
            // Takes the number that the lock's descriptor had; destroying the copy must not close
            // it.
            const int number = ::dup(0);
            lock.reset();
            const bool open = ::dup(number) >= 0;
            return open && !store.lock(key_of(1), 0ms).held() ? 0 : 2;
          }) == 0);
    CHECK(lock->held());
    CHECK_FALSE(store.lock(key_of(1), 0ms).held());
  }

  TEST_CASE("where no lock can be had") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    for (const char* stripe :
         {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f"}) {
      fs::create_directories(folder / "root/locks" / stripe);
    }
    const BuildLock lock = store.lock(key_of(1), 60s);
    CHECK_FALSE(lock.held());
    CHECK_FALSE(lock.waited());
    CHECK(lock.why_not().find("locks") != std::string::npos);
    // Damage is still removed, and building goes on.
    write_text(entry_path(folder / "root", key_of(1)), "damage");
    CHECK(store.look_up(key_of(1)).misses.front().removed);
    CHECK(store.publish(key_of(1), cubin_metadata(), cubin()));
  }

  TEST_CASE("damage is left to whoever is building") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    write_text(entry_path(folder / "root", key_of(1)), "damage");
    {
      const BuildLock lock = store.lock(key_of(1), 0ms);
      CHECK_FALSE(store.look_up(key_of(1)).misses.front().removed);
      REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    }
    CHECK(store.look_up(key_of(1)));
  }
}

}  // namespace
}  // namespace tilec::cache::test

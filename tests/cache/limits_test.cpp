// What a process or a file system may refuse: files of a size, modes.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "doctest/doctest.h"
#include "file.h"
#include "support.h"
#include "tests/support/skip.h"
#include "trust.h"

namespace tilec::cache::test {
namespace {

bool limit_file_size(std::size_t bytes) {
  const rlimit limit{bytes, RLIM_INFINITY};
  return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

bool is_pending(int signal) {
  sigset_t pending;
  ::sigpending(&pending);
  return ::sigismember(&pending, signal) == 1;
}

std::vector<int> mode_calls() {
  constexpr int fchmodat2 = 452;  // which older headers don't name
  return {
#ifdef SYS_chmod
      SYS_chmod,
#endif
      SYS_fchmod, SYS_fchmodat, fchmodat2};
}

mode_t mode_of_file_system = 0;  // 0: whatever it is told

constexpr int no_filter = 200;

TEST_SUITE("cpu") {
  TEST_CASE("a limit on the size of files ends no program") {
    TemporaryFolder folder;
    const Store from(quick(folder / "source"));
    REQUIRE(from.publish(key_of(1), cubin_metadata(), cubin(100)));
    REQUIRE(from.publish(key_of(2), cubin_metadata(), cubin(20'000)));
    REQUIRE(from.export_bundle(folder / "bundle").ok);
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    const int result = in_child([&] {
      if (!limit_file_size(8192)) return 1;
      const Store store(quick(folder / "root"));
      if (!store.publish(key_of(1), cubin_metadata(), cubin(100))) return 2;
      const Published large = store.publish(key_of(2), cubin_metadata(), cubin(20'000));
      if (large.failure != PublishFailure::too_large) return 3;
      if (large.detail.find("8192 bytes (ulimit -f)") == std::string::npos) return 4;
      if (!leftovers(folder / "root").empty() || store.look_up(key_of(2))) return 5;
      const BundleReport in = store.import_bundle(folder / "bundle");
      if (in.ok || in.already_there != 1 || in.missing != 1 || in.needed_bytes != 0) return 6;
      if (in.detail.find("8192 bytes") == std::string::npos) return 7;
      const BundleReport out = from.export_bundle(folder / "again");
      if (out.ok || out.detail.find("8192 bytes") == std::string::npos) return 8;
      if (fs::exists(folder / "again")) return 9;
      std::jthread writing([&] { from.export_bundle(folder / "pipe"); });
      const BundleReport spooled = store.import_bundle(folder / "pipe");
      if (spooled.ok || spooled.detail.find("8192 bytes") == std::string::npos) return 10;
      // The counts lie beyond this limit; the bound holds all the same.
      if (!limit_file_size(1000)) return 11;
      if (!store.publish(key_of(3), cubin_metadata(), cubin(100))) return 12;
      if (is_pending(SIGXFSZ) || is_pending(SIGPIPE)) return 13;
      struct sigaction action {};
      return ::sigaction(SIGXFSZ, nullptr, &action) == 0 && action.sa_handler == SIG_DFL ? 0 : 14;
    });
    CHECK(result == 0);
  }

  TEST_CASE("a program's own handling of these signals is as before") {
    TemporaryFolder folder;
    const int result = in_child([&] {
      if (!limit_file_size(1000)) return 1;
      static std::atomic<int> caught = 0;
      struct sigaction action {};
      action.sa_handler = [](int) { ++caught; };
      ::sigaction(SIGXFSZ, &action, nullptr);
      ::sigaction(SIGPIPE, &action, nullptr);
      const Bytes bytes(5000);
      const auto write = [&] {
        const Descriptor file(
            ::open((folder / "file").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        return !write_all(file.get(), bytes) && errno == EFBIG;
      };
      if (!write() || caught != 0 || is_pending(SIGXFSZ)) return 2;
      // What was pending before stays so, and a mask that was set.
      sigset_t set;
      ::sigemptyset(&set);
      ::sigaddset(&set, SIGXFSZ);
      ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
      ::raise(SIGXFSZ);
      if (!write() || caught != 0 || !is_pending(SIGXFSZ)) return 3;
      ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
      if (caught != 1) return 4;
      // A pipe that nobody reads.
      int ends[2];
      if (::pipe(ends) != 0) return 5;
      ::close(ends[0]);
      if (write_all(ends[1], bytes) || errno != EPIPE || caught != 1) return 6;
      // Threads that write at once.
      std::atomic<int> wrong = 0;
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
          for (int j = 0; j < 200; ++j) wrong += write() ? 0 : 1;
        });
      }
      threads.clear();
      if (wrong != 0 || caught != 1) return 7;
      // Outside of our writes the handler still runs.
      const Descriptor file(::open((folder / "file").c_str(), O_WRONLY | O_CLOEXEC));
      return ::pwrite(file.get(), "x", 1, 1000) < 0 && caught == 2 ? 0 : 8;
    });
    CHECK(result == 0);
  }

  TEST_CASE("a file system that refuses modes: kept where nobody gets more than he should") {
    for (const int error : {EPERM, ENOTSUP, 0}) {  // 0: it says yes and does nothing
      for (const mode_t mask : {0077u, 0022u, 0000u, 0777u}) {
        CAPTURE(error);
        CAPTURE(mask);
        TemporaryFolder folder;
        const int result = in_child([&] {
          if (!forbid_calls(mode_calls(), error)) return no_filter;
          ::umask(mask);
          StoreOptions options = quick(folder / "root");
          const Store store(options);
          const Published published = store.publish(key_of(1), cubin_metadata(), cubin());
          // Files are asked for with 0600, which no mask makes wider.
          const bool kept = mask != 0777u;
          if (static_cast<bool>(published) != kept) return 1;
          if (kept && !store.look_up(key_of(1))) return 2;
          return kept || !published.detail.empty() ? 0 : 3;
        });
        if (result == no_filter) return tilec::test::skip("no seccomp filters here");
        CHECK(result == 0);
      }
    }
  }

  TEST_CASE("a file system that gives files a mode of its own") {
    struct Case {
      mode_t given;
      bool kept;
    };
    for (const Case& each :
         {Case{0600, true}, Case{0700, true}, Case{0711, true}, Case{0400, false},
          Case{0644, false}, Case{0755, false}, Case{0620, false}, Case{0666, false}}) {
      CAPTURE(each.given);
      TemporaryFolder folder;
      CHECK(in_child([&] {
              ::umask(0200);  // so that the mode has to be set at all
              mode_of_file_system = each.given;
              const Store store(quick(folder / "root"));
              if (!store.problems().empty()) return 1;
              const Published published = store.publish(key_of(1), cubin_metadata(), cubin());
              if (static_cast<bool>(published) != each.kept) return 2;
              if (static_cast<bool>(store.look_up(key_of(1))) != each.kept) return 3;
              if (!leftovers(folder / "root").empty()) return 4;
              if (each.kept) return 0;
              if (published.failure != PublishFailure::io_error) return 5;
              const std::string cause = "files in " + (folder / "root").string() + " get mode " +
                                        mode_text(each.given) +
                                        ", which can't be made 0600: " + error_text(EPERM);
              return published.detail == cause ? 0 : 6;
            }) == 0);
    }
  }
}

}  // namespace
}  // namespace tilec::cache::test

// In place of libc's: refuses, as CIFS, exFAT and some FUSE do.
extern "C" int fchmod(int file, mode_t mode) noexcept {
  if (tilec::cache::test::mode_of_file_system == 0) {
    return static_cast<int>(::syscall(SYS_fchmod, file, mode));
  }
  ::syscall(SYS_fchmod, file, tilec::cache::test::mode_of_file_system);
  errno = EPERM;
  return -1;
}

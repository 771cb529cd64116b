// Processes that use one cache, each with several threads, while another kills them, damages their
// files, fills their disk and takes folders away. Exits with 0 if no wrong byte was served, nothing
// crashed, no two live holders built one kernel at a time, and the last sweep left nothing behind.
// With no arguments a few seconds; `--look-ups 100000 --kills 2000` is the long run.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <new>
#include <string_view>
#include <thread>

#include "stress_vandal.h"
#include "stress_worker.h"

namespace tilec::cache::test {
namespace {

using namespace std::chrono_literals;

void print(const char* what, std::uint64_t count) {
  std::printf("  %-34s %10llu\n", what, static_cast<unsigned long long>(count));
}

class Run {
 public:
  Run(const Settings& settings, Board& board, const fs::path& folder, bool own_disk)
      : settings_(settings),
        board_(board),
        own_disk_(own_disk),
        random_(settings.seed),
        vandal_(folder / "cache", own_disk, settings.seed) {
    options_.root = folder / "cache";
    options_.max_bytes = settings.max_bytes;
    options_.touch_after = 0s;
  }

  // True if nothing went wrong.
  bool go() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    while (board_.look_ups < settings_.look_ups || kills_ < settings_.kills) {
      while (children_.size() < settings_.processes) start();
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 4000));
      vandal_.strike();
      if (kills_ < settings_.kills && random_() % 4 == 0) kill_one();
      reap(WNOHANG);
    }
    board_.stop = true;
    reap(0);
    vandal_.tidy();
    report();
    return finish() && crashes_ == 0 && board_.wrong_bytes == 0 && board_.overlapping_builds == 0;
  }

 private:
  void start() {
    const std::uint32_t generation = board_.next_generation++;
    const unsigned seed = random_();
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work(board_, settings_, options_, generation, seed));
    children_[child] = generation;
  }

  void kill_one() {
    auto victim = children_.begin();
    std::advance(victim, static_cast<long>(random_() % children_.size()));
    board_.dead[victim->second] = true;
    ::kill(victim->first, SIGKILL);
    ++kills_;
  }

  // Orphans of the killed come to us too.
  void reap(int flags) {
    int status = 0;
    for (pid_t child; (child = ::waitpid(-1, &status, flags)) > 0;) {
      const auto found = children_.find(child);
      const bool killed = found != children_.end() && board_.dead[found->second];
      if (status != 0 && !(killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
        ++crashes_;
      if (found != children_.end()) children_.erase(found);
    }
  }

  void report() const {
    std::printf("%s\n",
                own_disk_ ? "on a small file system of its own" : "without filling the disk");
    print("look-ups", board_.look_ups);
    print("hits", board_.hits);
    for (std::size_t i = 0; i < std::size(board_.misses); ++i) {
      const std::string name = "misses: " + std::string(to_string(static_cast<MissReason>(i)));
      if (board_.misses[i] > 0) print(name.c_str(), board_.misses[i]);
    }
    print("builds", board_.builds);
    print("published", board_.published);
    print("not published (full, removed)", board_.unpublished);
    print("acts of vandalism", vandal_.strikes());
    print("kills", kills_);
    print("forks", board_.forks);
    print("builds without a lock", board_.no_locks);
    print("builds of one key by two holders", board_.overlapping_builds);
    print("wrong bytes", board_.wrong_bytes);
    print("crashes", crashes_);
  }

  // What is left is swept, repaired, and served.
  bool finish() const {
    const Store store(options_);
    store.sweep({.complete = true, .temporary_age = 0s});
    const auto left = leftovers(options_.root);
    const Totals totals = store.totals();
    store.verify(true);
    std::uint64_t bad = 0;
    for (unsigned number = 0; number < settings_.keys; ++number) {
      const std::string builder = "nvrtc-13.0.88";
      if (!store.publish(key_of(number), cubin_metadata(builder), expected(number, builder))) ++bad;
      const LookUp found = store.look_up(key_of(number));
      if (!found.entry || found.entry->payload != expected(number, builder)) ++bad;
    }
    print("leftovers after a sweep", left.size());
    print("bytes over the bound",
          totals.bytes > options_.max_bytes ? totals.bytes - options_.max_bytes : 0);
    print("kernels not served at the end", bad);
    std::fflush(stdout);
    return left.empty() && bad == 0 && totals.bytes <= options_.max_bytes;
  }

  Settings settings_;
  Board& board_;
  bool own_disk_;
  Random random_;
  Vandal vandal_;
  StoreOptions options_;
  std::map<pid_t, std::uint32_t> children_;
  std::uint64_t kills_ = 0;
  std::uint64_t crashes_ = 0;
};

int run(const Settings& settings) {
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  Board& board = *new (memory) Board;
  const TemporaryFolder folder;
  const int result = on_small_disk(folder.path(), settings.disk_bytes, [&] {
    // Modes mean nothing to root.
    constexpr unsigned nobody = 65534;
    if (is_root() &&
        (::chown(folder.path().c_str(), nobody, nobody) != 0 ||
         ::setresgid(nobody, nobody, nobody) != 0 || ::setresuid(nobody, nobody, nobody) != 0)) {
      return 2;
    }
    return Run(settings, board, folder.path(), true).go() ? 0 : 1;
  });
  if (result >= 0) return result;
  return Run(settings, board, folder.path(), false).go() ? 0 : 1;
}

// Nothing if an argument is not understood.
std::optional<Settings> parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--look-ups") {
      settings.look_ups = value;
    } else if (name == "--kills") {
      settings.kills = value;
    } else if (name == "--processes") {
      settings.processes = static_cast<unsigned>(value);
    } else if (name == "--threads") {
      settings.threads = static_cast<unsigned>(value);
    } else if (name == "--keys" && value <= most_keys) {
      settings.keys = static_cast<unsigned>(value);
    } else if (name == "--seed") {
      settings.seed = static_cast<unsigned>(value);
    } else {
      return std::nullopt;
    }
  }
  if (argc % 2 == 0) return std::nullopt;
  return settings;
}

}  // namespace
}  // namespace tilec::cache::test

int main(int argc, char** argv) {
  const auto settings = tilec::cache::test::parse(argc, argv);
  if (!settings) {
    std::fprintf(stderr,
                 "usage: %s [--look-ups N] [--kills N] [--processes N] [--threads N] [--keys N] "
                 "[--seed N]\n",
                 argv[0]);
    return 2;
  }
  return tilec::cache::test::run(*settings);
}

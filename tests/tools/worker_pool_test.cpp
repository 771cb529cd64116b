// The pool of worker processes, with shell scripts for workers: answers, crashes, the time limit,
// and that nothing outlives it.
#include "worker_pool.h"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "process.h"

namespace tilec::command {
namespace {

using test::alive;
using test::Sandbox;

// A worker that does what its line says.
constexpr const char* kWorker = R"sh(#!/bin/sh
while read -r line; do
  case "$line" in
    crash) kill -SEGV $$;;
    killed) kill -KILL $$;;
    hungry*) # is killed at its first try; then says which others run beside it
      others=${line#hungry }
      if [ ! -e "$others/tried" ]; then : > "$others/tried"; kill -KILL $$; fi
      beside=
      for other in "$others"/[0-9]*; do
        kill -0 "${other##*/}" 2> "$others/gone" && beside="$beside ${other##*/}"
      done
      echo "beside it:$beside";;
    named*) : > "${line#named }/$$"; echo named;;
    orphan*) (true & echo $! > "${line#orphan }"); echo orphaned;;
    reaped*) read -r orphan < "${line#reaped }"
      while kill -0 "$orphan" 2> "${line#reaped }.gone"; do :; done; echo gone;;
    leave*) : > "$TMPDIR/left"; echo "$TMPDIR" > "${line#leave }"; kill -KILL $$;;
    fail) echo 'some last words' >&2; exit 3;;
    hang*) sleep 1000 & echo $! > "${line#hang }"; wait;;
    lost*) kill -HUP $PPID; echo "hung up";;
    warn) echo 'a warning' >&2; echo warned;;
    *) echo "did $line";;
  esac
done
)sh";

struct Seen {
  std::vector<Outcome> outcomes;
  std::vector<std::string> messages;
  std::vector<std::size_t> put_off;
  int signal = 0;

  const Outcome& of(std::size_t task) const {
    return *std::find_if(outcomes.begin(), outcomes.end(),
                         [&](const Outcome& outcome) { return outcome.task == task; });
  }
};

Seen run(const std::vector<std::string>& tasks, const std::string& worker, int processes,
         std::chrono::milliseconds limit = std::chrono::milliseconds(60000)) {
  Seen seen;
  const PoolEvents events{
      .on_outcome = [&](const Outcome& outcome) { seen.outcomes.push_back(outcome); },
      .on_message = [&](std::string_view line) { seen.messages.emplace_back(line); },
      .on_put_off = [&](std::size_t task) { seen.put_off.push_back(task); },
      .on_tick = {}};
  seen.signal =
      run_pool(tasks, {.command = {worker}, .processes = processes, .time_limit = limit}, events);
  return seen;
}

pid_t pid_in(const std::filesystem::path& file) {
  pid_t process = 0;
  for (int i = 0; i < 5000 && process == 0; ++i) {
    std::ifstream(file) >> process;
    if (process == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return process;
}

bool dies(pid_t process) {
  for (int i = 0; i < 2500 && alive(process); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return !alive(process);
}

}  // namespace

TEST_CASE("each task has its answer, whatever the number of workers") {
  const Sandbox sandbox;
  const std::string worker = sandbox.script("worker", kWorker);
  std::vector<std::string> tasks;
  for (int i = 0; i < 50; ++i) tasks.push_back(std::to_string(i));
  for (const int processes : {1, 3, 80}) {
    const Seen seen = run(tasks, worker, processes);
    CHECK(seen.signal == 0);
    REQUIRE(seen.outcomes.size() == 50);
    for (std::size_t i = 0; i < 50; ++i) {
      CHECK(seen.of(i).kind == Outcome::Kind::answered);
      CHECK(seen.of(i).text == "did " + tasks[i]);
    }
  }
  CHECK(run({}, worker, 2).outcomes.empty());
}

TEST_CASE("a worker that crashes costs its own task only") {
  const Sandbox sandbox;
  const Seen seen = run({"a", "crash", "b", "fail", "c"}, sandbox.script("worker", kWorker), 1);
  REQUIRE(seen.outcomes.size() == 5);
  CHECK(seen.of(1).kind == Outcome::Kind::crashed);
  CHECK(test::contains(seen.of(1).text, "signal 11"));
  CHECK(seen.of(3).kind == Outcome::Kind::crashed);
  CHECK(test::contains(seen.of(3).text, "status 3"));
  CHECK(test::contains(seen.of(3).text, "some last words"));
  for (const std::size_t good : {0u, 2u, 4u}) CHECK(seen.of(good).kind == Outcome::Kind::answered);
}

TEST_CASE("a task whose worker is killed is tried again, after the others and alone") {
  const Sandbox sandbox;
  const std::string folder = sandbox.path() / "workers";
  std::filesystem::create_directory(folder);
  const Seen seen = run({"hungry " + folder, "named " + folder, "named " + folder, "a", "b"},
                        sandbox.script("worker", kWorker), 3);
  REQUIRE(seen.outcomes.size() == 5);
  CHECK(seen.put_off == std::vector<std::size_t>{0});
  CHECK(seen.outcomes.back().task == 0);
  CHECK(seen.of(0).kind == Outcome::Kind::answered);
  CHECK(seen.of(0).text == "beside it:");
}

TEST_CASE("a worker that is killed alone as well costs its task, and no other") {
  const Sandbox sandbox;
  const Seen seen = run({"killed", "a", "killed", "b"}, sandbox.script("worker", kWorker), 2);
  REQUIRE(seen.outcomes.size() == 4);
  CHECK(seen.put_off.size() == 2);
  for (const std::size_t killed : {0u, 2u}) CHECK(seen.of(killed).kind == Outcome::Kind::killed);
  for (const std::size_t good : {1u, 3u}) CHECK(seen.of(good).kind == Outcome::Kind::answered);
}

TEST_CASE("what killed workers leave of temporary files is gone at the end") {
  const Sandbox sandbox;
  const std::string file = sandbox.path() / "temporary";
  CHECK(run({"leave " + file}, sandbox.script("worker", kWorker), 1).outcomes.size() == 1);
  const std::string text = test::read_file(file);
  const std::filesystem::path folder = text.substr(0, text.find('\n'));
  CHECK(folder.is_absolute());
  CHECK(folder != std::filesystem::temp_directory_path());
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("a pool that inherits orphans reaps them while it works, and no worker's end is lost") {
  const Sandbox sandbox;
  const std::string file = sandbox.path() / "orphan";
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const Seen seen = run({"orphan " + file, "reaped " + file, "fail", "orphan " + file, "a"},
                        sandbox.script("worker", kWorker), 1);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  REQUIRE(seen.outcomes.size() == 5);
  CHECK(seen.of(1).text == "gone");
  CHECK(test::contains(seen.of(2).text, "status 3"));
  CHECK(seen.of(4).kind == Outcome::Kind::answered);
}

TEST_CASE("where SIGCHLD is ignored, how a worker ended is known all the same") {
  const Sandbox sandbox;
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const Seen seen = run({"fail", "crash"}, sandbox.script("worker", kWorker), 1);
  const bool still_ignored = std::signal(SIGCHLD, before) == SIG_IGN;
  CHECK(still_ignored);
  CHECK(test::contains(seen.of(0).text, "status 3"));
  CHECK(test::contains(seen.of(1).text, "signal 11"));
}

TEST_CASE("what workers say on stderr is passed on") {
  const Sandbox sandbox;
  const Seen seen = run({"warn"}, sandbox.script("worker", kWorker), 1);
  CHECK(seen.messages == std::vector<std::string>{"a warning"});
}

TEST_CASE("the time limit kills a worker and all that it started, and the rest goes on") {
  const Sandbox sandbox;
  const std::string pid_file = sandbox.path() / "pid";
  const Seen seen = run({"a", "hang " + pid_file, "b"}, sandbox.script("worker", kWorker), 1,
                        std::chrono::milliseconds(3000));
  REQUIRE(seen.outcomes.size() == 3);
  CHECK(seen.of(1).kind == Outcome::Kind::timed_out);
  CHECK(seen.of(0).text == "did a");
  CHECK(seen.of(2).text == "did b");
  CHECK(dies(pid_in(pid_file)));
}

TEST_CASE("a signal ends the pool, and everything with it") {
  const Sandbox sandbox;
  const std::string pid_file = sandbox.path() / "pid";
  // Neither thread may take the signal that the pool waits for.
  sigset_t terminate, before;
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &terminate, &before);
  std::jthread interrupter([&] {
    if (pid_in(pid_file) != 0) kill(getpid(), SIGTERM);
  });
  const Seen seen = run({"hang " + pid_file}, sandbox.script("worker", kWorker), 1);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  CHECK(seen.signal == SIGTERM);
  CHECK(dies(pid_in(pid_file)));
}

TEST_CASE("a signal that the program was started to ignore, as by nohup, ends nothing") {
  const Sandbox sandbox;
  const auto before = std::signal(SIGHUP, SIG_IGN);
  const Seen seen = run({"lost terminal", "a"}, sandbox.script("worker", kWorker), 1);
  std::signal(SIGHUP, before);
  CHECK(seen.signal == 0);
  REQUIRE(seen.outcomes.size() == 2);
  CHECK(seen.of(0).text == "hung up");
  CHECK(seen.of(1).text == "did a");
}

TEST_CASE("where not all workers can be started, the pool goes on with those that can") {
  const Sandbox sandbox;
  const std::string worker = sandbox.script("worker", kWorker);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 40;  // three descriptors a worker
  setrlimit(RLIMIT_NOFILE, &few);
  const Seen seen = run(std::vector<std::string>(100, "a"), worker, 80);
  const Seen again = run({"a"}, worker, 1);  // nothing was left open
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(seen.outcomes.size() == 100);
  for (const Outcome& outcome : seen.outcomes) CHECK(outcome.text == "did a");
  CHECK(again.outcomes.size() == 1);
}

TEST_CASE("a worker that can't be started is a failure in words") {
  CHECK_THROWS_WITH(run({"a"}, "/nonexistent/worker", 1),
                    doctest::Contains("no worker process can be started"));
}

}  // namespace tilec::command

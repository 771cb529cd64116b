// Worker processes that each take one line at a time and answer it with one line. A worker that
// takes too long, or crashes, costs only the task it had: it is killed with everything it started,
// and another takes its place; the pool removes what it leaves in TMPDIR. A task whose worker is killed by others, as the kernel does where
// memory runs out, is tried once more after all the rest, with nothing beside it. One pool at a time
// in a process; not thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::command {

struct PoolOptions {
  std::vector<std::string> command;  // the worker's program and arguments
  int processes = 1;
  std::chrono::milliseconds time_limit{0};  // of one task
  std::chrono::milliseconds tick{500};      // on_tick is called about so often
};

struct Outcome {
  enum class Kind { answered, crashed, timed_out, killed };  // killed: twice, alone as well
  Kind kind = Kind::answered;
  std::size_t task = 0;
  std::string text;    // the answer, or what was seen of the crash
  double seconds = 0;  // since the task was handed out
};

struct PoolEvents {
  std::function<void(const Outcome&)> on_outcome;
  std::function<void(std::string_view line)> on_message;  // a worker's line on stderr
  std::function<void(std::size_t task)> on_put_off;       // its worker was killed: once more, later
  std::function<void()> on_tick;
};

// Hands out the tasks in order and returns when each has its outcome: 0. Where SIGINT, SIGTERM or
// SIGHUP arrives first, kills the workers and returns the signal's number. Goes on with fewer
// processes where not all can be started; throws Failure where none can.
int run_pool(const std::vector<std::string>& tasks, const PoolOptions& options,
             const PoolEvents& events);

// In the worker, whose standard input is the pool's pipe: ends it when its parent dies.
void die_with_parent();

}  // namespace tilec::command

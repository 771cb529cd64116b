// One worker process and the three pipes to it. Move-only; not thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tilec::command {

// In a process group of its own, so that what it starts dies with it and a terminal's Ctrl-C
// reaches only us. Killed on destruction, unless it has ended.
class Worker {
 public:
  struct Heard {
    std::optional<std::string> answer;
    std::vector<std::string> messages;
    bool ended = false;
  };
  struct Ending {
    bool killed = false;  // by SIGKILL, which the kernel sends where memory runs out
    std::string how;      // "the compiling process was killed by signal 11 (Segmentation fault)"
  };

  // `temporary`: its folder for temporary files; empty: ours. Throws Failure.
  Worker(const std::vector<std::string>& command, const std::string& temporary);
  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&& other) noexcept;
  ~Worker();

  void give(std::size_t task, const std::string& line);
  bool busy() const { return task_.has_value(); }
  std::chrono::steady_clock::time_point since() const { return since_; }
  std::size_t finish();  // takes the task back

  int output() const { return output_; }
  int errors() const { return errors_; }
  Heard listen();  // what has come in; never waits

  Ending reap();  // waits for a worker that has ended
  void kill();    // and waits
  bool reaped() const { return process_ < 0; }
  pid_t process() const { return process_; }

 private:
  void close_pipes();

  pid_t process_ = -1;
  int input_ = -1, output_ = -1, errors_ = -1;
  std::string output_text_, error_text_, last_words_;
  std::optional<std::size_t> task_;
  std::chrono::steady_clock::time_point since_{};
};

}  // namespace tilec::command

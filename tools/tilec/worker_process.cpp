// Starting, feeding, hearing and ending a worker.
#include "worker_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "output.h"

extern char** environ;

namespace tilec::command {
namespace {

constexpr std::size_t kLastWords = 16384;

Failure cant_start(const std::string& what, int error) {
  const bool too_many = error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;
  return Failure("no worker process can be started: " + what + ": " + std::strerror(error) +
                 (too_many ? "; a smaller -j may help" : ""));
}

// Closes what nobody took.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) {
      throw cant_start("no pipe to it", errno);
    }
  }
  ~Pipe() {
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read() const { return ends_[0]; }
  int write() const { return ends_[1]; }
  int take_read() { return std::exchange(ends_[0], -1); }
  int take_write() { return std::exchange(ends_[1], -1); }

 private:
  std::array<int, 2> ends_{-1, -1};
};

// Moves what can be read without waiting to the end of `text`. False at the end of the file.
bool drain(int descriptor, std::string& text) {
  std::array<char, 65536> block{};
  for (;;) {
    const ssize_t got = read(descriptor, block.data(), block.size());
    if (got > 0) {
      text.append(block.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
}

std::optional<std::string> take_line(std::string& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = text.substr(0, end);
  text.erase(0, end + 1);
  return line;
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "the compiling process was killed by signal " + std::to_string(signal) + " (" +
           strsignal(signal) + ")";
  }
  return "the compiling process ended with status " + std::to_string(WEXITSTATUS(status));
}

// Ours, but for the folder.
std::vector<std::string> environment(const std::string& temporary) {
  constexpr std::string_view name = "TMPDIR=";
  std::vector<std::string> out;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (temporary.empty() || !std::string_view(*variable).starts_with(name))
      out.emplace_back(*variable);
  }
  if (!temporary.empty()) out.push_back(std::string(name) + temporary);
  return out;
}

// For posix_spawn(), which changes nothing in it.
std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

// The spawned process starts with our three pipes, no blocked signal, SIGPIPE as usual, whatever we
// ignore otherwise ignored, and a group of its own.
pid_t spawn(const std::vector<std::string>& command, const std::string& temporary, int input,
            int output, int errors) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const std::vector<std::string> variables = environment(temporary);
  pid_t process = -1;
  const int error = posix_spawn(&process, command.front().c_str(), &files, &attributes,
                                pointers(command).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    throw cant_start(command.front(), error);
  }
  return process;
}

}  // namespace

Worker::Worker(const std::vector<std::string>& command, const std::string& temporary) {
  Pipe input, output, errors;
  fcntl(output.read(), F_SETFL, O_NONBLOCK);
  fcntl(errors.read(), F_SETFL, O_NONBLOCK);
  process_ = spawn(command, temporary, input.read(), output.write(), errors.write());
  input_ = input.take_write();
  output_ = output.take_read();
  errors_ = errors.take_read();
}

Worker::Worker(Worker&& other) noexcept {
  *this = std::move(other);
}

Worker& Worker::operator=(Worker&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(input_, other.input_);
  std::swap(output_, other.output_);
  std::swap(errors_, other.errors_);
  std::swap(output_text_, other.output_text_);
  std::swap(error_text_, other.error_text_);
  std::swap(last_words_, other.last_words_);
  std::swap(task_, other.task_);
  std::swap(since_, other.since_);
  return *this;
}

Worker::~Worker() {
  if (!reaped()) kill();
  close_pipes();
}

void Worker::close_pipes() {
  for (int* descriptor : {&input_, &output_, &errors_}) {
    if (*descriptor >= 0) close(std::exchange(*descriptor, -1));
  }
}

void Worker::give(std::size_t task, const std::string& line) {
  task_ = task;
  since_ = std::chrono::steady_clock::now();
  const std::string text = line + "\n";
  // A worker that died takes no more: its end is heard next.
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t wrote = write(input_, text.data() + sent, text.size() - sent);
    if (wrote < 0 && errno != EINTR) return;
    if (wrote > 0) sent += static_cast<std::size_t>(wrote);
  }
}

std::size_t Worker::finish() {
  return *std::exchange(task_, std::nullopt);
}

Worker::Heard Worker::listen() {
  Heard heard;
  drain(errors_, error_text_);
  heard.ended = !drain(output_, output_text_);
  if (heard.ended) drain(errors_, error_text_);
  heard.answer = take_line(output_text_);
  while (std::optional<std::string> line = take_line(error_text_)) {
    last_words_ += *line + "\n";
    heard.messages.push_back(std::move(*line));
  }
  if (last_words_.size() > kLastWords) last_words_.erase(0, last_words_.size() - kLastWords);
  return heard;
}

Worker::Ending Worker::reap() {
  ::kill(-process_, SIGKILL);  // whatever it left behind
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  const std::string words = last_words_ + error_text_;
  return {.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
          .how = ending(status) + (words.empty() ? "" : "; its last words:\n" + words)};
}

void Worker::kill() {
  ::kill(-process_, SIGKILL);
  ::kill(process_, SIGKILL);  // in case it is not a group's leader yet
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
}

}  // namespace tilec::command

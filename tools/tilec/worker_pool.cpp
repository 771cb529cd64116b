// The pool: one poll() loop over the workers' pipes, their deadlines and the signals.
#include "worker_pool.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <system_error>
#include <utility>

#include "output.h"
#include "worker_process.h"

namespace tilec::command {
namespace {

using Clock = std::chrono::steady_clock;

// SIGINT, SIGTERM and SIGHUP as something to poll (a blocked signal reaches a container's first
// process too), but for those that the program was started to ignore, as by nohup; SIGPIPE as an
// error of write(); children that can be waited for, whatever SIGCHLD was inherited as. As before on
// destruction.
class Signals {
 public:
  Signals() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction inherited {};
      sigaction(signal, nullptr, &inherited);
      if (inherited.sa_handler != SIG_IGN) sigaddset(&wanted, signal);
    }
    pthread_sigmask(SIG_BLOCK, &wanted, &mask_before_);
    descriptor_ = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor_ < 0) {
      const int error = errno;
      pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
      throw Failure(std::string("no worker process can be started: no way to hear of signals: ") +
                    std::strerror(error));
    }
    struct sigaction ignore {
    }, usual{};
    ignore.sa_handler = SIG_IGN;
    usual.sa_handler = SIG_DFL;
    sigaction(SIGPIPE, &ignore, &pipe_before_);
    sigaction(SIGCHLD, &usual, &child_before_);
  }
  ~Signals() {
    close(descriptor_);
    sigaction(SIGPIPE, &pipe_before_, nullptr);
    sigaction(SIGCHLD, &child_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_; }
  int arrived() const {
    signalfd_siginfo info{};
    return read(descriptor_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                : 0;
  }

 private:
  int descriptor_ = -1;
  sigset_t mask_before_{};
  struct sigaction pipe_before_ {
  }, child_before_{};
};

// The workers' folder for temporary files: one that is killed leaves them.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    std::string name = std::filesystem::temp_directory_path(error) / "tilec-build-XXXXXX";
    if (!error && mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }  // empty where none could be made

 private:
  std::string path_;
};

// Whether processes that lose their parent become this one's children: as a container's first
// process.
bool inherits_orphans() {
  int subreaper = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  return getpid() == 1 || subreaper != 0;
}

class Pool {
 public:
  Pool(const std::vector<std::string>& tasks, const PoolOptions& options, const PoolEvents& events)
      : tasks_(tasks), options_(options), events_(events), queue_(tasks.size()) {
    std::iota(queue_.begin(), queue_.end(), std::size_t{0});
  }

  int run() {
    if (const int signal = work(static_cast<std::size_t>(options_.processes))) return signal;
    workers_.clear();  // idle ones take memory too
    queue_ = std::exchange(put_off_, {});
    next_ = 0;
    alone_ = true;
    return work(1);
  }

 private:
  int work(std::size_t processes) {
    while (next_ < queue_.size() || busy() > 0) {
      hand_out(processes);
      if (const int signal = wait()) return signal;  // ~Worker kills
      collect();
      enforce_time_limit();
    }
    return 0;
  }

  std::size_t busy() const {
    return static_cast<std::size_t>(
        std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.busy(); }));
  }

  void hand_out(std::size_t processes) {
    while (next_ < queue_.size()) {
      auto idle = std::find_if(workers_.begin(), workers_.end(),
                               [](const Worker& worker) { return !worker.busy(); });
      if (idle == workers_.end()) {
        if (workers_.size() >= std::min(processes, most_) || !start()) return;
        idle = workers_.end() - 1;
      }
      const std::size_t task = queue_[next_++];
      idle->give(task, tasks_[task]);
    }
  }

  // False where the system gives no more than those that run already.
  bool start() {
    try {
      workers_.emplace_back(options_.command, temporary_.path());
      return true;
    } catch (const Failure&) {
      if (workers_.empty()) throw;
      most_ = workers_.size();
      return false;
    }
  }

  // Until something happens, a deadline passes or the tick is due. Returns a signal's number or 0.
  int wait() {
    std::vector<pollfd> watched{{signals_.descriptor(), POLLIN, 0}};
    Clock::time_point wake = Clock::now() + options_.tick;
    for (const Worker& worker : workers_) {
      watched.push_back({worker.output(), POLLIN, 0});
      watched.push_back({worker.errors(), POLLIN, 0});
      if (worker.busy() && limited()) wake = std::min(wake, worker.since() + options_.time_limit);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake - Clock::now());
    const int ready = poll(watched.data(), watched.size(),
                           static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready == 0 && events_.on_tick) events_.on_tick();
    return ready > 0 && watched.front().revents != 0 ? signals_.arrived() : 0;
  }

  void collect() {
    for (Worker& worker : workers_) {
      const Worker::Heard heard = worker.listen();
      for (const std::string& line : heard.messages) {
        if (events_.on_message) events_.on_message(line);
      }
      if (heard.answer && worker.busy()) finish(worker, Outcome::Kind::answered, *heard.answer);
      if (heard.ended) {
        const Worker::Ending ending = worker.reap();
        if (worker.busy()) note_end(worker, ending);
      }
    }
    std::erase_if(workers_, [](const Worker& worker) { return worker.reaped(); });
    if (inherits_orphans_) reap_orphans();
  }

  void note_end(Worker& worker, const Worker::Ending& ending) {
    if (ending.killed && !alone_) {
      const std::size_t task = worker.finish();
      put_off_.push_back(task);
      if (events_.on_put_off) events_.on_put_off(task);
    } else {
      finish(worker, ending.killed ? Outcome::Kind::killed : Outcome::Kind::crashed, ending.how);
    }
  }

  // What workers' processes leave behind, up to the first that is a worker, whose turn comes when it
  // is heard.
  void reap_orphans() const {
    for (;;) {
      siginfo_t ended{};
      if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) return;
      const bool ours = std::any_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
        return worker.process() == ended.si_pid;
      });
      if (ours) return;
      waitpid(ended.si_pid, nullptr, 0);
    }
  }

  void enforce_time_limit() {
    if (!limited()) return;
    for (Worker& worker : workers_) {
      if (!worker.busy() || Clock::now() < worker.since() + options_.time_limit) continue;
      worker.kill();
      finish(worker, Outcome::Kind::timed_out, {});
    }
    std::erase_if(workers_, [](const Worker& worker) { return worker.reaped(); });
  }

  bool limited() const { return options_.time_limit.count() > 0; }

  void finish(Worker& worker, Outcome::Kind kind, std::string text) {
    const std::chrono::duration<double> taken = Clock::now() - worker.since();
    const std::size_t task = worker.finish();
    events_.on_outcome({kind, task, std::move(text), taken.count()});
  }

  const std::vector<std::string>& tasks_;
  const PoolOptions& options_;
  const PoolEvents& events_;
  Signals signals_;
  const TemporaryFolder temporary_;  // outlives the workers
  const bool inherits_orphans_ = inherits_orphans();
  std::vector<Worker> workers_;
  std::vector<std::size_t> queue_, put_off_;
  std::size_t next_ = 0;                                        // of the queue
  std::size_t most_ = std::numeric_limits<std::size_t>::max();  // that can be started
  bool alone_ = false;  // the second try of what was put off
};

}  // namespace

int run_pool(const std::vector<std::string>& tasks, const PoolOptions& options,
             const PoolEvents& events) {
  return Pool(tasks, options, events).run();
}

void die_with_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before that took effect. Its number tells nothing: 1 is a container's first
  // process as well as whoever adopts.
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (poll(&input, 1, 0) > 0 && (input.revents & POLLHUP) != 0) _exit(kExitFailure);
}

}  // namespace tilec::command

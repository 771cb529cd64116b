// Running the command itself.
#include "process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace tilec::test {
namespace {

namespace fs = std::filesystem;

void redirect(const fs::path& file, int flags, int descriptor) {
  const int opened = open(file.c_str(), flags, 0600);
  if (opened < 0 || dup2(opened, descriptor) < 0) _exit(126);
  close(opened);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

bool is_key(const std::string& name) {
  if (name.size() < 34 || name[32] != '.') return false;
  for (std::size_t i = 0; i < 32; ++i) {
    if (std::isxdigit(static_cast<unsigned char>(name[i])) == 0) return false;
  }
  return true;
}

}  // namespace

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool alive(pid_t process) {
  // A zombie that nobody has reaped yet runs no more.
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return false;
  const std::size_t end = line.rfind(')');
  return end != std::string::npos && line.substr(end + 2, 1) != "Z";
}

Running::Running(pid_t process, fs::path out, fs::path err)
    : process_(process), out_(std::move(out)), err_(std::move(err)) {}

Running::Running(Running&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)) {}

Running::~Running() {
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

std::string Running::errors_so_far() const {
  return read_file(err_);
}

Ran Running::wait(std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (waitpid(process_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      throw std::runtime_error("the process did not end in time; it said: " + read_file(err_));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  process_ = -1;
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .out = read_file(out_),
          .err = read_file(err_)};
}

Sandbox::Sandbox() {
  std::string name = (fs::temp_directory_path() / "tilec-command-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
  const char* path = std::getenv("PATH");
  environment_["PATH"] = path == nullptr ? "/usr/bin:/bin" : path;
  environment_["HOME"] = (path_ / "home").string();
  environment_["TILEC_CACHE_DIR"] = cache().string();
  for (const char* kept : {"TILEC_NVRTC", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = std::getenv(kept)) environment_[kept] = value;
  }
}

Sandbox::~Sandbox() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string Sandbox::file(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
  return (path_ / name).string();
}

std::string Sandbox::script(const std::string& name, const std::string& text) const {
  const std::string path = file(name, text);
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

Running Sandbox::start(const std::vector<std::string>& arguments, const std::string& input) const {
  std::vector<std::string> words{TILEC_COMMAND};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return start_program(std::move(words), input);
}

Running Sandbox::start_program(std::vector<std::string> words, const std::string& input) const {
  static std::atomic<int> count = 0;
  const std::string number = std::to_string(++count);
  const fs::path out = path_ / ("out" + number), err = path_ / ("err" + number);
  const fs::path in = file("in" + number, input);
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment_) variables.push_back(name + "=" + value);
  std::vector<char*> argv = pointers(words), envp = pointers(variables);
  const pid_t process = fork();
  if (process < 0) throw std::runtime_error("fork failed");
  if (process == 0) {
    redirect(in, O_RDONLY, STDIN_FILENO);
    redirect(out, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    redirect(err, O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    if (chdir(path_.c_str()) != 0) _exit(126);
    execvpe(argv.front(), argv.data(), envp.data());
    _exit(127);
  }
  return {process, out, err};
}

Ran Sandbox::tilec(const std::vector<std::string>& arguments, const std::string& input) const {
  return start(arguments, input).wait();
}

nlohmann::json Sandbox::json(std::vector<std::string> arguments) const {
  arguments.emplace_back("--json");
  const Ran ran = tilec(arguments);
  try {
    return nlohmann::json::parse(ran.out);
  } catch (const nlohmann::json::exception&) {
    throw std::runtime_error("no JSON: '" + ran.out + "', stderr: '" + ran.err + "'");
  }
}

std::vector<std::string> Sandbox::entries() const {
  std::vector<std::string> names;
  if (!fs::exists(cache())) return names;
  for (const auto& file : fs::recursive_directory_iterator(cache())) {
    const std::string name = file.path().filename().string();
    if (file.is_regular_file() && is_key(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Sandbox::leftovers() const {
  std::vector<std::string> names;
  if (!fs::exists(cache())) return names;
  for (const auto& file : fs::recursive_directory_iterator(cache())) {
    const std::string folder = file.path().parent_path().filename().string();
    const std::string name = file.path().filename().string();
    // Beside entries: the stripe files of locks, known builders, the tally of the size, the marks.
    const bool known = is_key(name) || folder == "locks" || folder == "builders" ||
                       name == "usage" || name == "tilec-cache" || name == "CACHEDIR.TAG";
    if (file.is_regular_file() && !known) names.push_back(file.path().string());
  }
  return names;
}

}  // namespace tilec::test

// posix_spawn, with nothing of ours in the child; a temporary folder that goes when it is done
// with.
#include "compile/host_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "privilege.h"
#include "tilec/error.h"
#include "tilec/write_guard.h"

namespace tilec {
namespace {

constexpr const char* kOutput = "output.txt";

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw Error(ErrorKind::unsupported,
              "the host device compiles kernels in a temporary folder, and " + path.string() +
                  " can't be written: " + std::strerror(error) +
                  (error == EFBIG ? "; this process has a limit on the size of files (ulimit -f)"
                                  : "; TMPDIR names another place"));
}

// The environment that the child gets.
class ChildEnvironment {
 public:
  explicit ChildEnvironment(const std::filesystem::path& folder) {
    texts_ = {"LC_ALL=C", "TMPDIR=" + folder.string()};
    if (is_privileged()) texts_.emplace_back("PATH=/usr/bin:/bin");
    for (char** variable = environ; *variable != nullptr && !is_privileged(); ++variable) {
      if (!replaced(*variable)) texts_.emplace_back(*variable);
    }
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char* const* get() const { return pointers_.data(); }

 private:
  // The language of messages, and whatever would let files in that the key knows nothing of.
  static bool replaced(std::string_view variable) {
    for (const std::string_view name :
         {"LC_ALL", "LANGUAGE", "TMPDIR", "CPATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX",
          "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES"}) {
      if (variable.substr(0, variable.find('=')) == name) return true;
    }
    return false;
  }

  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

// posix_spawn's two structures.
class SpawnSettings {
 public:
  explicit SpawnSettings(const TemporaryFolder& folder) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addchdir_np(&actions_, folder.path().c_str());
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, 1, kOutput, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions_, 1, 2);
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
    posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
#endif
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGXFSZ);  // who ignores it wants an error of write(), the compiler's too
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const {
    return &actions_;
  }
  const posix_spawnattr_t* attributes() const {
    return &attributes_;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::string failure_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    // A program that ignores SIGCHLD gets no status: what the child has left must tell.
    if (errno != EINTR) return {};
  }
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const char* const why = signal == SIGXFSZ   ? ": a limit on the size of files (ulimit -f)"
                            : signal == SIGKILL ? ", as it is where memory runs out"
                                                : "";
    return "killed by signal " + std::to_string(signal) + why;
  }
  if (WEXITSTATUS(status) != 0) return "exit status " + std::to_string(WEXITSTATUS(status));
  return {};
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  const std::filesystem::path place =
      is_privileged() ? "/tmp" : std::filesystem::temp_directory_path(error);
  if (error) fail("TMPDIR", error.value());
  std::string name = (place / "tilec-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) fail(place, errno);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryFolder::write(const std::filesystem::path& name, std::string_view text) const {
  const std::filesystem::path file = path_ / name;
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) fail(file.parent_path(), error.value());
  const cache::WriteGuard guard;
  std::ofstream stream(file, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  stream.close();
  if (!stream) fail(file, errno);
}

std::string TemporaryFolder::read(const std::filesystem::path& name) const {
  std::ifstream stream(path_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

ProgramResult run_program(const std::filesystem::path& program,
                          const std::vector<std::string>& arguments,
                          const TemporaryFolder& folder) {
  const bool is_name = program.native().find('/') == std::string::npos;
  const std::string name =
      is_name && is_privileged() ? "/usr/bin/" + program.string() : program.string();
  std::vector<std::string> texts{name};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);

  const SpawnSettings settings(folder);
  const ChildEnvironment environment(folder.path());
  pid_t child = 0;
  const int error = posix_spawnp(&child, name.c_str(), settings.actions(), settings.attributes(),
                                 pointers.data(), environment.get());
  if (error != 0) return {.not_started = std::strerror(error), .failure = {}, .output = {}};
  std::string failure = failure_of(child);
  return {.not_started = {}, .failure = std::move(failure), .output = folder.read(kOutput)};
}

}  // namespace tilec

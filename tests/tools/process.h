// Running the command itself: in a folder of its own, with an environment of its own, under a
// limit.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tilec::test {

struct Ran {
  int status = -1;  // exit status; -1 where a signal ended it
  int signal = 0;
  std::string out, err;
};

// A process that was started. Killed, with what it started, when it is still there on destruction.
class Running {
 public:
  Running(pid_t process, std::filesystem::path out, std::filesystem::path err);
  Running(Running&& other) noexcept;
  ~Running();

  pid_t process() const { return process_; }
  std::string errors_so_far() const;
  // Throws where it takes longer.
  Ran wait(std::chrono::seconds limit = std::chrono::seconds(240));

 private:
  pid_t process_;
  std::filesystem::path out_, err_;
};

// A temporary folder that is home to one test: HOME, cache and files, all gone at its end.
class Sandbox {
 public:
  Sandbox();
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path cache() const { return path_ / "cache"; }

  // Environment variables beside PATH, HOME, TILEC_CACHE_DIR and TILEC_NVRTC.
  void set(const std::string& name, const std::string& value) { environment_[name] = value; }
  // Writes a file here and returns its path.
  std::string file(const std::string& name, const std::string& text) const;
  // The same, executable.
  std::string script(const std::string& name, const std::string& text) const;

  // Any program with this environment, found on PATH.
  Running start_program(std::vector<std::string> words, const std::string& input = {}) const;
  Ran run(const std::vector<std::string>& words) const { return start_program(words).wait(); }
  Running start(const std::vector<std::string>& arguments, const std::string& input = {}) const;
  Ran tilec(const std::vector<std::string>& arguments, const std::string& input = {}) const;
  // Runs with --json and parses what it prints. Throws where that is no JSON.
  nlohmann::json json(std::vector<std::string> arguments) const;

  // Files below the cache's root that are entries, and those that are unfinished or left over.
  std::vector<std::string> entries() const;
  std::vector<std::string> leftovers() const;

 private:
  std::filesystem::path path_;
  std::map<std::string, std::string> environment_;
};

std::string read_file(const std::filesystem::path& path);
bool contains(const std::string& text, const std::string& part);
bool alive(pid_t process);

}  // namespace tilec::test

// What the host compiler needs of the system: a temporary folder, a program run to its end. The
// functions and objects may be used from several threads.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tilec {

// A new folder of this user alone, removed with all that is in it.
class TemporaryFolder {
 public:
  // Throws Error{unsupported} where none can be made.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Writes a file, and the folders that its relative name asks for. Throws Error{unsupported}.
  void write(const std::filesystem::path& name, std::string_view text) const;
  // A file's bytes; empty where there is none.
  std::string read(const std::filesystem::path& name) const;

 private:
  std::filesystem::path path_;
};

struct ProgramResult {
  std::string not_started;  // why it could not be; empty otherwise
  std::string failure;      // "exit status 1", "killed by signal 9"; empty for success
  std::string output;       // its standard output and error
};

// Runs a program (on PATH, unless there is a '/' in its name) in that folder, in the C locale, with
// no input, no open files of ours and no include paths from the environment.
ProgramResult run_program(const std::filesystem::path& program,
                          const std::vector<std::string>& arguments, const TemporaryFolder& folder);

}  // namespace tilec

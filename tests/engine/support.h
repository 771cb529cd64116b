// What the engine's tests share: folders that vanish, a logger that is read, options that touch
// nothing of the user's, templates that compile in no time, kernels that no compiler made,
// children.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/skip.h"
#include "tilec/cache.h"
#include "tilec/engine.h"

namespace tilec::test {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name = "tilec-test");
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path top_;
  fs::path path_;  // top_/<name given>
};

std::string read_text(const fs::path& file);
void write_text(const fs::path& file, const std::string& text);
bool contains(const std::string& text, const std::string& part);

// A logger whose messages, from debug up, are kept. Thread-safe.
class Messages {
 public:
  Messages();
  std::shared_ptr<spdlog::logger> logger() const { return logger_; }
  std::vector<std::string> warnings() const;
  std::string all_warnings() const;  // one a line

 private:
  struct Kept;
  std::shared_ptr<Kept> kept_;
  std::shared_ptr<spdlog::logger> logger_;
};

// The environment's NVRTC; a cache of its own; no fsync.
Options options_in(const fs::path& cache_dir);

// The Error that the call throws. The test fails where it throws none.
Error error_of(const std::function<void()>& call);

// True where NVRTC can be opened, in a child so that this process doesn't.
bool has_nvrtc();
// As that user would: root's own folder may hide it. Needs root.
bool has_nvrtc(unsigned user);

inline Device offline(const char* target = "sm_80") {
  return Device::offline(Target::parse(target));
}

// Templates that NVRTC compiles in its least time. `body` is the kernel's; NUMBER is a parameter.
KernelTemplate small_add(const std::string& name = "small_add", const std::string& body = "");
KernelTemplate small_gemm(const std::string& name = "small_gemm", const std::string& body = "");

// An ELF header that says "cubin for sm_<sm>", then `tag`.
std::vector<std::byte> made_up_cubin(int sm, const std::string& tag);
// The directives that PTX starts with, then `tag`: nothing that a real driver takes.
std::vector<std::byte> made_up_ptx(int sm, const std::string& tag);

std::string unheard_of_builder();  // "nvrtc-99.0.1" and so on

// What to publish where: an image that no compiler made, as the kernel of this problem.
struct MadeUp {
  // Another each time: a device keeps a builder's image of a key for the life of the process.
  std::string builder = unheard_of_builder();
  std::string tag = "made up";
  int registers = 32;
  int static_shared_bytes = 0;
  int max_threads = 0;
};
// Into the engine's own root, under the key that planning the problem looks for.
void publish_made_up(const Engine& engine, const Problem& problem, const PlanOptions& options = {},
                     const MadeUp& made_up = {});

std::vector<fs::path> entries_in(const fs::path& root);  // a cache's entry files, sorted

// --- other processes ---------------------------------------------------------------------------

struct Ended {
  int status = 0;      // 256 + signal if killed
  std::string output;  // stdout and stderr together
};

// `environment`: added; an empty optional removes.
using Environment = std::map<std::string, std::optional<std::string>>;

struct Child {
  std::vector<std::string> arguments;  // of the program
  Environment environment = {};
  fs::path folder = {};               // its working directory
  std::optional<unsigned> user = {};  // and group
  fs::path program = {};              // left out: tilec_engine_child
};
// It lies beside the test program, wherever both were copied to.
fs::path engine_child();
Ended run(const Child& child);
// All at once: each starts, waits for all the others at a barrier, then goes on.
std::vector<Ended> run_together(const std::vector<Child>& children);

// Runs in a forked child that leaves no trace in this process. Its result; 256 + signal if killed.
int in_child(const std::function<int()>& body);
bool is_root();

}  // namespace tilec::test

// What the cache's tests share: folders that vanish, small kernels to publish, children to run.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tilec/cache.h"

namespace tilec::cache::test {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;
using Random = std::independent_bits_engine<std::mt19937, 32, std::uint32_t>;

// The sanitizers' own allocators are left locked in the child of a process with several threads.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool can_fork_beside_threads = false;
#else
constexpr bool can_fork_beside_threads = true;
#endif

class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const fs::path& path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

// A different key for each number.
Key key_of(std::uint64_t number);

// An ELF header that says "cubin for sm_<sm>", then bytes that depend on `seed`.
Bytes cubin(std::size_t size = 64, unsigned seed = 0, unsigned sm = 90);
Metadata cubin_metadata(const std::string& builder = "nvrtc-13.0.88", unsigned sm = 90);

// Without fsync, which the tests don't need.
StoreOptions quick(const fs::path& root);

Bytes read_file(const fs::path& path);
void write_file(const fs::path& path, std::span<const std::byte> bytes);
void write_text(const fs::path& path, const std::string& text);

fs::path entry_path(const fs::path& root, const Key& key,
                    const std::string& builder = "nvrtc-13.0.88");

// Files left in a root that are neither entries, markers, locks nor counts.
std::vector<fs::path> leftovers(const fs::path& root);

// Waits for a child: its exit status; 256 + signal if killed.
int exit_status(pid_t child);

// Runs in a forked child that leaves no trace in this process. Its result; 256 + signal if killed.
int in_child(const std::function<int()>& body);

// The same as another user; the group defaults to the user's number. Needs root.
int as_user(unsigned user, const std::function<int()>& body);
int as_user(unsigned user, unsigned group, const std::function<int()>& body);
bool is_root();

// This process becomes the only user in a namespace of its own, where root's files seem nobody's.
// False where that can't be had.
bool enter_user_namespace();

// From here on, these system calls of this process fail with the error. False if that can't be had.
bool forbid_calls(const std::vector<int>& numbers, int error);

// In a child whose `folder` is a file system of its own, of so many bytes and 8,192 files. -1 where
// that can't be had.
int on_small_disk(const fs::path& folder, std::size_t bytes, const std::function<int()>& body);

}  // namespace tilec::cache::test

// Writing files without ending the host program.
#pragma once

#include <csignal>
#include <cstddef>
#include <span>

namespace tilec::cache {

// While it lives, this thread's writes beyond the limit on file sizes (ulimit -f) fail with EFBIG,
// and those to a pipe that nobody reads with EPIPE: the signals that go with them, which would end
// the host program, are held back and taken away. Other threads, the program's handlers and signals
// that were pending before are untouched.
class WriteGuard {
 public:
  WriteGuard();
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;
  ~WriteGuard();

 private:
  sigset_t ours_{};  // of the two, those that were not pending before
  sigset_t mask_before_{};
};

// False with errno set on an error. Never ends the process, see WriteGuard.
bool write_all(int descriptor, std::span<const std::byte> bytes);

}  // namespace tilec::cache

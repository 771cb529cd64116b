// Descriptors, and opening files beneath a folder without following a symbolic link. No state;
// every descriptor is close-on-exec.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilec/write_guard.h"

namespace tilec::cache {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }

  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  int release();
  void reset();

 private:
  int descriptor_ = -1;
};

// Opens `name`, which may hold slashes, beneath the folder; a symbolic link anywhere in it is
// ELOOP. On failure the descriptor is empty and errno says why.
Descriptor open_beneath(int folder, const std::string& name, int flags, mode_t mode = 0);

// The names in a folder, but for "." and ".."; nothing, with errno set, if it can't be read.
std::optional<std::vector<std::string>> names_in(int folder);

// pread until `out` is full or the file ends. -1 with errno set on an error.
std::ptrdiff_t read_at(int descriptor, std::uint64_t offset, std::span<std::byte> out);

// As write_all, at an offset.
bool write_all_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes);

// fsync, where the file system knows it.
bool sync_file(int descriptor);

// 32 hexadecimal digits that no other thread, process, fork or host will draw.
std::string random_name();

std::string error_text(int error);
// The same for making and writing files: a limit on the size, and something in a folder's place, are
// named.
std::string write_error_text(int error);

}  // namespace tilec::cache

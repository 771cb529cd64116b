// Files that a person asked for by name, such as dumps and records. They are written where nobody
// else steers what is written over: every folder on the way belongs to the effective user or root
// and is writable by nobody else (sticky ones excepted), no link of a stranger's is followed, and
// the file's own name is never followed. A limit on the size of files (RLIMIT_FSIZE) is a failure
// like a full disk, not a signal. Thread-safe; nothing is thrown.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tilec::cache {

// Both make the folders that are missing (mode 0700) and return a clause that says why nothing was
// written, or an empty string. `file` is absolute.

// The file appears whole or not at all, in place of what has its name.
std::string replace_file(const std::filesystem::path& file, std::span<const std::byte> bytes);

// One write at the file's end, so that lines of many processes stay whole. The line isn't empty, and
// a file that does not begin with its first character is not appended to.
std::string append_line(const std::filesystem::path& file, std::string_view line);

}  // namespace tilec::cache

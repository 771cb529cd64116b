#include "tilec/user_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "file.h"
#include "trust.h"

namespace tilec::cache {

namespace {

std::string clause(const std::filesystem::path& file, const char* what) {
  const int error = errno;
  return file.string() + " " + what + ": " + write_error_text(error);
}

// The folder that the file lies in.
OpenedPath open_parent(const std::filesystem::path& file) {
  return open_folder(file.parent_path(), Trust::parent, true);
}

std::string folder_clause(const std::filesystem::path& file, const Refusal& refusal) {
  return file.parent_path().string() + ": " + refusal.text();
}

// Why an existing file that was opened for appending is not to be written to, or nothing. What does
// not begin as the line is something else, and no place for it.
std::string doubt(int descriptor, char begin) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return error_text(errno);
  if (!S_ISREG(info.st_mode)) return "it is not a regular file";
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return "it belongs to user " + std::to_string(info.st_uid);
  }
  if (info.st_nlink > 1) return "it has another name too (a hard link), and may be another's";
  std::array<std::byte, 1> first{};
  const std::ptrdiff_t count = read_at(descriptor, 0, first);
  if (count < 0) return "reading it failed: " + error_text(errno);
  if (count > 0 && static_cast<char>(first[0]) != begin) {
    return std::string("it does not begin with ") + begin + ", so it is another kind of file";
  }
  return {};
}

}  // namespace

std::string replace_file(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  const OpenedPath parent = open_parent(file);
  if (parent.refusal) return folder_clause(file, parent.refusal);
  const int folder = parent.descriptor.get();
  const std::string temporary = ".tilec-" + random_name();
  {
    const Descriptor out(::openat(folder, temporary.c_str(),
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!out) return clause(file, "can't be made");
    if (!write_all(out.get(), bytes)) {
      const std::string why = clause(file, "can't be written");
      ::unlinkat(folder, temporary.c_str(), 0);
      return why;
    }
  }
  if (::renameat(folder, temporary.c_str(), folder, file.filename().c_str()) == 0) return {};
  const std::string why = clause(file, "can't be replaced");
  ::unlinkat(folder, temporary.c_str(), 0);
  return why;
}

std::string append_line(const std::filesystem::path& file, std::string_view line) {
  const OpenedPath parent = open_parent(file);
  if (parent.refusal) return folder_clause(file, parent.refusal);
  constexpr int flags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const Descriptor out(::openat(parent.descriptor.get(), file.filename().c_str(), flags, 0644));
  if (!out && errno == ELOOP) return file.string() + " is a symbolic link, which is not followed";
  if (!out) return clause(file, "can't be opened");
  const std::string why = doubt(out.get(), line.front());
  if (!why.empty()) return file.string() + ": " + why;

  const WriteGuard guard;
  const ssize_t written = ::write(out.get(), line.data(), line.size());
  if (written < 0) return clause(file, "can't be written");
  if (written == static_cast<ssize_t>(line.size())) return {};
  // Half a line would spoil the file, unless someone has gone on from there.
  const off_t end = ::lseek(out.get(), 0, SEEK_CUR);
  struct stat info {};
  if (::fstat(out.get(), &info) == 0 && info.st_size == end) {
    static_cast<void>(::ftruncate(out.get(), end - written) == 0);
  }
  return file.string() + " can't be written: there is no room for the line";
}

}  // namespace tilec::cache

#include "trust.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <list>
#include <system_error>

namespace tilec::cache {

namespace {

std::string octal(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

bool writable_by_others(const struct stat& info) {
  const bool private_group = info.st_gid == info.st_uid;
  return (info.st_mode & S_IWOTH) != 0 || ((info.st_mode & S_IWGRP) != 0 && !private_group);
}

// In a rootless container or a sandbox (a user namespace), all owners from outside show as one
// number that nobody inside has: root's folders too. True if the number is that, and can be nobody
// inside.
bool is_from_outside(uid_t user) {
  std::ifstream overflow("/proc/sys/kernel/overflowuid");
  uid_t outside = 65534;
  overflow >> outside;
  if (user != outside) return false;
  std::ifstream map("/proc/self/uid_map");
  bool read = false;
  for (std::uint64_t inside, behind, count; map >> inside >> behind >> count;) {
    read = true;
    if (user >= inside && user - inside < count) return false;
  }
  return read;
}

std::string distrust_parent(const struct stat& info) {
  if (info.st_uid != 0 && info.st_uid != ::geteuid() && !is_from_outside(info.st_uid)) {
    return "belongs to user " + std::to_string(info.st_uid);
  }
  if (writable_by_others(info) && (info.st_mode & S_ISVTX) == 0) {
    return "is writable by others (mode " + octal(info.st_mode) + ")";
  }
  return {};
}

// Who planted a link decides where it leads. Nothing where each on the way is this user's or root's,
// and lies where only they can put one.
std::string distrust_links(const std::filesystem::path& path) {
  constexpr int most = 40;
  std::filesystem::path walked = "/";
  std::list<std::filesystem::path> parts(path.begin(), path.end());
  for (int links = 0; !parts.empty() && links <= most;) {
    const std::filesystem::path here = (walked / parts.front()).lexically_normal();
    parts.pop_front();
    struct stat info {};
    if (::lstat(here.c_str(), &info) != 0) return {};  // to be made, or opening it tells
    if (!S_ISLNK(info.st_mode)) {
      walked = here;
      continue;
    }
    ++links;
    struct stat folder {};
    if (::stat(walked.c_str(), &folder) != 0) return {};
    if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
      return here.string() + " is a link of user " + std::to_string(info.st_uid);
    }
    if (const std::string doubt = distrust_parent(folder); !doubt.empty()) {
      return walked.string() + " " + doubt;
    }
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(here, error);
    parts.insert(parts.begin(), target.begin(), target.end());
  }
  return {};
}

Descriptor open_part(const Descriptor& parent, const std::string& name, bool create) {
  constexpr int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Descriptor part(::openat(parent.get(), name.c_str(), flags));
  if (part || errno != ENOENT || !create) return part;
  if (::mkdirat(parent.get(), name.c_str(), 0700) == 0) {
    set_mode(parent.get(), name, 0700);
  } else if (errno != EEXIST) {
    return part;
  }
  return Descriptor(::openat(parent.get(), name.c_str(), flags));
}

std::string fault_text(const std::filesystem::path& path, const std::filesystem::path& part,
                       bool create) {
  const int error = errno;
  const bool missing = error == ENOENT && !create;
  if (missing && part == path) return "it does not exist";
  return part.string() + (create ? " can't be made or opened: " : " can't be opened: ") +
         error_text(error);
}

}  // namespace

std::string distrust(const struct stat& info, Trust trust) {
  if (trust == Trust::shared) return {};
  if (trust == Trust::output) return distrust_parent(info);
  const uid_t user = ::geteuid();
  if (info.st_uid != user && (trust == Trust::own || info.st_uid != 0)) {
    return "belongs to user " + std::to_string(info.st_uid) + ", not " + std::to_string(user);
  }
  if (writable_by_others(info)) return "is writable by others (mode " + octal(info.st_mode) + ")";
  return {};
}

void set_mode(int folder, const std::string& name, mode_t mode) {
  struct stat info {};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  if ((info.st_mode & 07777) == mode) return;
  // A failure shows at the next use.
  static_cast<void>(::fchmodat(folder, name.c_str(), mode, AT_SYMLINK_NOFOLLOW));
}

OpenedFolder open_folder(const std::filesystem::path& path, Trust trust, bool create) {
  OpenedFolder out;
  std::error_code error;
  out.path = std::filesystem::absolute(path, error);
  if (!error && trust == Trust::output) out.fault = distrust_links(out.path);
  out.untrusted = !out.fault.empty();
  if (out.untrusted) return out;
  if (!error) out.path = std::filesystem::weakly_canonical(out.path, error);
  if (error) {
    out.fault = "its path can't be followed: " + error.message();
    return out;
  }
  if (!out.path.has_filename() && out.path.has_relative_path()) out.path = out.path.parent_path();

  Descriptor here(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::filesystem::path walked = "/";
  for (const std::filesystem::path& part : out.path.relative_path()) {
    if (trust != Trust::shared) {
      struct stat info {};
      std::string doubt =
          ::fstat(here.get(), &info) == 0 ? distrust_parent(info) : error_text(errno);
      if (!doubt.empty()) {
        out.fault = walked.string() + " " + doubt;
        out.untrusted = true;
        return out;
      }
    }
    walked /= part;
    Descriptor next = open_part(here, part.string(), create);
    if (!next) {
      out.fault = fault_text(out.path, walked, create);
      return out;
    }
    here = std::move(next);
  }
  if (::fstat(here.get(), &out.info) == 0) out.fault = distrust(out.info, trust);
  if (!out.fault.empty()) {
    out.fault = "it " + out.fault;
    out.untrusted = true;
    return out;
  }
  out.folder = Descriptor(::openat(here.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!out.folder) out.fault = "it can't be opened: " + error_text(errno);
  return out;
}

}  // namespace tilec::cache

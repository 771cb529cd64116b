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

struct Doubt {
  std::string fault, remedy;
};

Doubt distrust_parent(const struct stat& info, const std::string& path) {
  if (info.st_uid != 0 && info.st_uid != ::geteuid() && !is_from_outside(info.st_uid)) {
    return {path + ", a folder above it, belongs to user " + std::to_string(info.st_uid) +
                ", who could put another folder in its place",
            {}};
  }
  if (writable_by_others(info) && (info.st_mode & S_ISVTX) == 0) {
    return {"others may write to " + path + ", a folder above it (mode " + mode_text(info.st_mode) +
                "), and could put another folder in its place",
            "`chmod go-w " + path + "` ends that"};
  }
  return {};
}

// Whether what a file system made of `wanted` will do: others get no more, the owner no less.
bool will_do(const struct stat& info, mode_t wanted) {
  const mode_t of_others = S_ISDIR(info.st_mode) ? 0022 : 0066;
  const mode_t of_owner = wanted & 0700;
  return (info.st_mode & of_others & ~wanted) == 0 && (info.st_mode & of_owner) == of_owner;
}

// `change` is a chmod of what `item` has open.
template <class Change>
bool set_mode_with(int item, mode_t mode, const Change& change) {
  struct stat info {};
  if (::fstat(item, &info) != 0) return false;
  if ((info.st_mode & 07777) == mode) return true;
  const int error = change() == 0 ? EPERM : errno;
  // Some file systems refuse, some only say that they did it.
  if (::fstat(item, &info) == 0 && will_do(info, mode)) return true;
  errno = error;
  return false;
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
    if (Doubt doubt = distrust_parent(folder, walked.string()); !doubt.fault.empty()) {
      return std::move(doubt.fault);
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
    set_folder_mode(parent.get(), name, 0700);  // the walk judges what came of it
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
  const uid_t user = ::geteuid();
  const bool output = trust == Trust::output;
  if (info.st_uid != user && (trust == Trust::own || info.st_uid != 0) &&
      !(output && is_from_outside(info.st_uid))) {
    return "belongs to user " + std::to_string(info.st_uid) + ", and this process runs as user " +
           std::to_string(user);
  }
  if (writable_by_others(info) && !(output && (info.st_mode & S_ISVTX) != 0)) {
    return "may be written to by others (mode " + mode_text(info.st_mode) + ")";
  }
  return {};
}

std::string mode_text(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

bool set_mode(int descriptor, mode_t mode) {
  return set_mode_with(descriptor, mode, [&] { return ::fchmod(descriptor, mode); });
}

bool set_folder_mode(int parent, const std::string& name, mode_t mode) {
  const Descriptor folder(
      ::openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return false;
  // fchmod takes no such descriptor, and fchmodat follows links before glibc 2.32.
  const std::string link = "/proc/self/fd/" + std::to_string(folder.get());
  return set_mode_with(folder.get(), mode, [&] { return ::chmod(link.c_str(), mode); });
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
      Doubt doubt = ::fstat(here.get(), &info) == 0
                        ? distrust_parent(info, walked.string())
                        : Doubt{walked.string() + ": " + error_text(errno), {}};
      if (!doubt.fault.empty()) {
        out.fault = std::move(doubt.fault);
        out.remedy = std::move(doubt.remedy);
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
    if (out.info.st_uid == ::geteuid()) {
      out.remedy = "`chmod go-w " + out.path.string() + "` ends that";
    }
    out.untrusted = true;
    return out;
  }
  out.folder = Descriptor(::openat(here.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!out.folder) out.fault = "it can't be opened: " + error_text(errno);
  return out;
}

}  // namespace tilec::cache

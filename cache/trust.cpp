#include "trust.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <list>
#include <optional>
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

std::string remedy_for_mode(const std::string& path, const struct stat& info) {
  // As /tmp is meant to be.
  if ((info.st_mode & S_ISVTX) != 0) return "a folder in it can be named in its place";
  const bool can = ::geteuid() == 0 || ::geteuid() == info.st_uid;
  return "`chmod go-w " + path + "`" +
         (can ? " ends that" : " by user " + std::to_string(info.st_uid) + " ends that");
}

Refusal distrust_parent(const struct stat& info, const std::string& path) {
  if (info.st_uid != 0 && info.st_uid != ::geteuid() && !is_from_outside(info.st_uid)) {
    return {.fault = path + ", a folder above it, belongs to user " + std::to_string(info.st_uid) +
                     ", who could put another in its place",
            .untrusted = true};
  }
  if (writable_by_others(info) && (info.st_mode & S_ISVTX) == 0) {
    return {"others may write to " + path + ", a folder above it (mode " + mode_text(info.st_mode) +
                "), and could put another in its place",
            remedy_for_mode(path, info), true};
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

// A symbolic link on the way, and whose it is.
struct Link {
  std::filesystem::path target;
  uid_t owner = 0;
};

// Opened first, so that what is judged is what is followed; nothing where the part is no link.
std::optional<Link> read_link(const Descriptor& parent, const std::string& name) {
  const Descriptor part(::openat(parent.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!part || ::fstat(part.get(), &info) != 0 || !S_ISLNK(info.st_mode)) return std::nullopt;
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlinkat(part.get(), "", target.data(), target.size());
  if (size < 0) return std::nullopt;
  target.resize(static_cast<std::size_t>(size));
  return Link{std::move(target), info.st_uid};
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

enum class End { folder, new_folder, file };  // of a path; a new folder: made where it is missing

// From the root folder down a path, each folder open and judged before the next part is looked for
// in it.
class Walk {
 public:
  Walk(const std::filesystem::path& path, Trust trust, End end)
      : trust_(trust), end_(end), left_(path.begin(), path.end()) {
    start();
  }

  // Whether there is a part left to go; at the end of the path, or of the walk, there is none.
  bool step() {
    while (!left_.empty() && is_here(left_.front())) left_.pop_front();
    if (left_.empty() || refusal_) return false;
    const std::string part = left_.front().string();
    left_.pop_front();
    if (part == "/") {
      start();
      return true;
    }
    if (trust_ != Trust::shared && !trusted()) return false;
    if (const std::optional<Link> link = read_link(here_, part)) return follow(*link, part);
    return enter(part);
  }

  Descriptor& here() { return here_; }  // a folder's is O_PATH, a file's for reading
  const std::filesystem::path& path() const { return path_; }
  const Refusal& refusal() const { return refusal_; }

 private:
  static bool is_here(const std::filesystem::path& part) { return part.empty() || part == "."; }

  void start() {
    here_ = Descriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    path_ = "/";
  }

  bool trusted() {
    struct stat info {};
    refusal_ = ::fstat(here_.get(), &info) == 0
                   ? distrust_parent(info, path_.string())
                   : Refusal{.fault = path_.string() + ": " + error_text(errno)};
    return !refusal_;
  }

  bool follow(const Link& link, const std::string& name) {
    constexpr int most = 40;
    const std::string path = (path_ / name).string();
    const bool own = link.owner == 0 || link.owner == ::geteuid() || is_from_outside(link.owner);
    // Who planted a link decides where it leads.
    if (trust_ != Trust::shared && !own) {
      refusal_ = {.fault = path + " is a link of user " + std::to_string(link.owner),
                  .untrusted = true};
    } else if (++links_ > most) {
      refusal_.fault = path + " can't be opened: " + error_text(ELOOP);
    } else {
      left_.insert(left_.begin(), link.target.begin(), link.target.end());
    }
    return !refusal_;
  }

  Descriptor open(const std::string& part) {
    // After a slash at the path's end there is an empty part: that asks for a folder.
    const bool file = end_ == End::file && left_.empty();
    if (!file) return open_part(here_, part, end_ == End::new_folder);
    constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    return Descriptor(::openat(here_.get(), part.c_str(), flags));
  }

  bool enter(const std::string& part) {
    path_ = part == ".." ? path_.parent_path() : path_ / part;
    Descriptor next = open(part);
    if (!next) {
      const int error = errno;
      const bool made = end_ == End::new_folder;
      refusal_.fault = error == ENOENT && !made && left_.empty()
                           ? "it does not exist"
                           : path_.string() +
                                 (made ? " can't be made or opened: " : " can't be opened: ") +
                                 error_text(error);
      return false;
    }
    here_ = std::move(next);
    return true;
  }

  const Trust trust_;
  const End end_;
  std::list<std::filesystem::path> left_;
  Descriptor here_;
  std::filesystem::path path_;  // of what is open, without links
  int links_ = 0;
  Refusal refusal_;
};

OpenedPath open_path(const std::filesystem::path& path, Trust trust, End end) {
  OpenedPath out;
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  if (error) {
    out.refusal.fault = "its path can't be followed: " + error.message();
    return out;
  }
  Walk walk(whole, trust, end);
  while (walk.step()) continue;
  out.path = walk.path();
  out.refusal = walk.refusal();
  if (out.refusal) return out;

  if (::fstat(walk.here().get(), &out.info) != 0) {
    out.refusal.fault = "it can't be read: " + error_text(errno);
  } else if (const std::string doubt = distrust(out.info, trust); !doubt.empty()) {
    const bool own = out.info.st_uid == ::geteuid();
    out.refusal = {"it " + doubt, own ? remedy_for_mode(out.path, out.info) : "", true};
  } else {
    out.descriptor = std::move(walk.here());
  }
  return out;
}

}  // namespace

std::string distrust(const struct stat& info, Trust trust) {
  if (trust == Trust::shared) return {};
  const uid_t user = ::geteuid();
  const bool parent = trust == Trust::parent;
  if (info.st_uid != user && (trust == Trust::own || info.st_uid != 0) &&
      !(parent && is_from_outside(info.st_uid))) {
    return "belongs to user " + std::to_string(info.st_uid) + ", and this process runs as user " +
           std::to_string(user);
  }
  if (writable_by_others(info) && !(parent && (info.st_mode & S_ISVTX) != 0)) {
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

OpenedPath open_folder(const std::filesystem::path& path, Trust trust, bool create) {
  OpenedPath out = open_path(path, trust, create ? End::new_folder : End::folder);
  if (out.refusal) return out;
  out.descriptor =
      Descriptor(::openat(out.descriptor.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!out.descriptor) out.refusal.fault = "it can't be opened: " + error_text(errno);
  return out;
}

OpenedPath open_file(const std::filesystem::path& path, Trust trust) {
  return open_path(path, trust, End::file);
}

}  // namespace tilec::cache

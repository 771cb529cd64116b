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

struct Doubt {
  std::string fault, remedy;
};

std::string remedy_for_mode(const std::string& path, const struct stat& info) {
  const bool can = ::geteuid() == 0 || ::geteuid() == info.st_uid;
  return "`chmod go-w " + path + "`" +
         (can ? " ends that" : " by user " + std::to_string(info.st_uid) + " ends that");
}

Doubt distrust_parent(const struct stat& info, const std::string& path) {
  if (info.st_uid != 0 && info.st_uid != ::geteuid() && !is_from_outside(info.st_uid)) {
    return {path + ", a folder above it, belongs to user " + std::to_string(info.st_uid) +
                ", who could put another folder in its place",
            {}};
  }
  if (writable_by_others(info) && (info.st_mode & S_ISVTX) == 0) {
    return {"others may write to " + path + ", a folder above it (mode " + mode_text(info.st_mode) +
                "), and could put another folder in its place",
            remedy_for_mode(path, info)};
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

// From the root folder down a path, each folder open and judged before the next is looked for in it.
class Walk {
 public:
  Walk(const std::filesystem::path& path, Trust trust, bool create)
      : trust_(trust), create_(create), left_(path.begin(), path.end()) {
    start();
  }

  // Whether there is a part left to go; at the end of the path, or of the walk, there is none.
  bool step() {
    while (!left_.empty() && (left_.front().empty() || left_.front() == ".")) left_.pop_front();
    if (left_.empty() || !doubt_.fault.empty()) return false;
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

  const Descriptor& here() const { return here_; }
  const std::filesystem::path& path() const { return path_; }
  const Doubt& doubt() const { return doubt_; }
  bool untrusted() const { return untrusted_; }

 private:
  void start() {
    here_ = Descriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    path_ = "/";
  }

  bool trusted() {
    struct stat info {};
    doubt_ = ::fstat(here_.get(), &info) == 0
                 ? distrust_parent(info, path_.string())
                 : Doubt{path_.string() + ": " + error_text(errno), {}};
    untrusted_ = !doubt_.fault.empty();
    return !untrusted_;
  }

  bool follow(const Link& link, const std::string& name) {
    constexpr int most = 40;
    const std::string path = (path_ / name).string();
    const bool own = link.owner == 0 || link.owner == ::geteuid() || is_from_outside(link.owner);
    // Who planted a link decides where it leads.
    if (trust_ != Trust::shared && !own) {
      doubt_.fault = path + " is a link of user " + std::to_string(link.owner);
      untrusted_ = true;
    } else if (++links_ > most) {
      doubt_.fault = path + " can't be opened: " + error_text(ELOOP);
    } else {
      left_.insert(left_.begin(), link.target.begin(), link.target.end());
    }
    return doubt_.fault.empty();
  }

  bool enter(const std::string& part) {
    path_ = part == ".." ? path_.parent_path() : path_ / part;
    Descriptor next = open_part(here_, part, create_);
    if (!next) {
      const int error = errno;
      doubt_.fault = error == ENOENT && !create_ && left_.empty()
                         ? "it does not exist"
                         : path_.string() +
                               (create_ ? " can't be made or opened: " : " can't be opened: ") +
                               error_text(error);
      return false;
    }
    here_ = std::move(next);
    return true;
  }

  const Trust trust_;
  const bool create_;
  std::list<std::filesystem::path> left_;
  Descriptor here_;
  std::filesystem::path path_;  // of what is open, without links
  int links_ = 0;
  Doubt doubt_;
  bool untrusted_ = false;
};

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

OpenedFolder open_folder(const std::filesystem::path& path, Trust trust, bool create) {
  OpenedFolder out;
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(path, error);
  if (error) {
    out.fault = "its path can't be followed: " + error.message();
    return out;
  }
  Walk walk(whole, trust, create);
  while (walk.step()) continue;
  out.path = walk.path();
  out.fault = walk.doubt().fault;
  out.remedy = walk.doubt().remedy;
  out.untrusted = walk.untrusted();
  if (!out.fault.empty()) return out;

  if (::fstat(walk.here().get(), &out.info) == 0) out.fault = distrust(out.info, trust);
  if (!out.fault.empty()) {
    out.fault = "it " + out.fault;
    if (out.info.st_uid == ::geteuid()) out.remedy = remedy_for_mode(out.path, out.info);
    out.untrusted = true;
    return out;
  }
  out.folder = Descriptor(::openat(walk.here().get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!out.folder) out.fault = "it can't be opened: " + error_text(errno);
  return out;
}

}  // namespace tilec::cache

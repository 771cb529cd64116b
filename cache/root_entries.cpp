// A root's entry files: opening, renewing, listing, removing.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "lock.h"
#include "root.h"

namespace tilec::cache {

namespace {

std::string relative_name(const Key& key, const std::string& builder) {
  const std::string name = entry_file_name(key, builder);
  return name.substr(0, 2) + "/" + name;
}

std::chrono::system_clock::time_point modified(const struct stat& info) {
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::seconds(info.st_mtim.tv_sec) +
          std::chrono::nanoseconds(info.st_mtim.tv_nsec)));
}

Opened open_failure(int error, std::filesystem::path path) {
  if (error == ENOENT) return Absent{};
  if (error == ELOOP)
    return Miss{MissReason::untrusted, std::move(path), "a symbolic link, which is not followed",
                false};
  return Miss{MissReason::io_error, std::move(path), "it can't be opened: " + error_text(error),
              false};
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

Miss unread(const std::filesystem::path& path, int error) {
  return {MissReason::io_error, path, "it can't be read: " + write_error_text(error), false};
}

Miss unremoved(const std::filesystem::path& path, int error) {
  return {MissReason::io_error, path, "it can't be removed: " + write_error_text(error), false};
}

Miss not_used(const Root::Renewed& now) {
  return {MissReason::untrusted, now.folder->path, now.text(), false};
}

Opened Root::open_entry(const Key& key, const std::string& builder) const {
  const Folder root = folder();
  const std::string name = relative_name(key, builder);
  auto file =
      std::make_shared<const Descriptor>(open_beneath(root->descriptor.get(), name, O_RDONLY));
  if (!*file) return open_failure(errno, root->path / name);

  OpenEntry entry;
  entry.path = root->path / name;
  if (::fstat(file->get(), &entry.info) != 0) return open_failure(EIO, std::move(entry.path));
  if (!S_ISREG(entry.info.st_mode)) {
    return Miss{MissReason::io_error, std::move(entry.path), "not a file", false};
  }
  if (std::string doubt = distrust(entry.info, settings_.trust); !doubt.empty()) {
    return Miss{MissReason::untrusted, std::move(entry.path), "it " + doubt, false};
  }
  entry.bytes = static_cast<std::uint64_t>(entry.info.st_size);
  entry.last_used = modified(entry.info);
  entry.read = [file](std::uint64_t offset, std::span<std::byte> out) {
    return read_at(file->get(), offset, out);
  };
  entry.file = std::move(file);
  return entry;
}

void Root::used(const OpenEntry& entry) const {
  if (!settings_.write) return;
  const auto age = std::chrono::system_clock::now() - entry.last_used;
  if (age < settings_.touch_after && age > -settings_.touch_after) return;
  // Only eviction's order depends on it.
  static_cast<void>(::futimens(entry.file->get(), nullptr));
}

bool Root::remove_damaged(const Key& key, const std::string& builder,
                          const OpenEntry& entry) const {
  if (!settings_.write) return false;
  const Folder root = folder();
  // Whoever holds the key's lock is about to replace the file; what he publishes must not be hit.
  KeyLock lock(*this, *root, key);
  if (lock.try_lock() == LockState::busy) return false;
  const std::string name = relative_name(key, builder);
  struct stat now {};
  if (::fstatat(root->descriptor.get(), name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT;
  return same_file(now, entry.info) && discard_file(key, builder);
}

bool Root::discard_file(const Key& key, const std::string& builder) const {
  const Folder root = folder();
  const std::string name = entry_file_name(key, builder);
  const Descriptor shard =
      open_beneath(root->descriptor.get(), name.substr(0, 2), O_RDONLY | O_DIRECTORY);
  struct stat info {};
  if (!shard || ::fstatat(shard.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (!S_ISREG(info.st_mode)) {
    errno = EISDIR;
    return false;
  }
  return ::unlinkat(shard.get(), name.c_str(), 0) == 0;
}

std::uint64_t Root::discard(const Key& key, std::string_view builder) const {
  if (!settings_.write) return 0;
  if (!builder.empty()) {
    return valid_builder(builder) && discard_file(key, std::string(builder)) ? 1 : 0;
  }
  refresh();
  const Builders known = builders();
  return static_cast<std::uint64_t>(std::ranges::count_if(
      *known, [&](const std::string& each) { return discard_file(key, each); }));
}

std::vector<Miss> Root::for_each_name(const Visit& visit) const {
  const Folder root = renew().folder;
  std::vector<Miss> out;
  for (int shard = 0; shard < shard_count; ++shard) {
    const std::string prefix = shard_name(shard);
    const Descriptor folder = open_beneath(root->descriptor.get(), prefix, O_RDONLY | O_DIRECTORY);
    auto names = folder ? names_in(folder.get()) : std::nullopt;
    if (!names) {
      if (errno != ENOENT) out.push_back(unread(root->path / prefix, errno));
      continue;
    }
    std::ranges::sort(*names);
    for (const std::string& name : *names) {
      const auto parsed = parse_entry_file_name(name);
      // An entry in another's shard is one that no look-up finds.
      if (!parsed || !name.starts_with(prefix)) continue;
      if (!visit(parsed->first, parsed->second)) return out;
    }
  }
  return out;
}

}  // namespace tilec::cache

#include "root.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>

#include "fork_guard.h"
#include "mark.h"

namespace tilec::cache {

namespace {

Root::Folder to_folder(OpenedPath opened, Trust trust) {
  auto folder = std::make_shared<RootFolder>();
  folder->descriptor = std::move(opened.descriptor);
  folder->path = std::move(opened.path);
  folder->device = opened.info.st_dev;
  folder->inode = opened.info.st_ino;
  if (trust == Trust::shared) {
    // Those who share a folder share its files: its own mode says with whom.
    folder->folder_mode = (opened.info.st_mode & 07777) | 0700;
    folder->file_mode = (opened.info.st_mode & 0666) | 0600;
  }
  return folder;
}

}  // namespace

std::string shard_name(int shard) {
  static constexpr char digits[] = "0123456789abcdef";
  return {digits[(shard >> 4) & 15], digits[shard & 15]};
}

bool is_temporary_name(std::string_view name) {
  return name.starts_with(temporary_prefix) &&
         Key::parse(name.substr(temporary_prefix.size())).has_value();
}

std::string entry_file_name(const Key& key, const std::string& builder) {
  return key.hex() + "." + builder;
}

std::optional<std::pair<Key, std::string>> parse_entry_file_name(std::string_view name) {
  constexpr std::size_t digits = 32;
  if (name.size() <= digits || name[digits] != '.') return std::nullopt;
  const auto key = Key::parse(name.substr(0, digits));
  const std::string_view builder = name.substr(digits + 1);
  if (!key || !valid_builder(builder)) return std::nullopt;
  return std::pair(*key, std::string(builder));
}

RootOpening Root::open(const RootSettings& settings) {
  OpenedPath opened = open_folder(settings.path, settings.trust, settings.create);
  if (opened.refusal) return {nullptr, std::move(opened.refusal)};
  Folder folder = to_folder(std::move(opened), settings.trust);
  if (settings.write) {
    if (Refusal refusal = claim(*folder, settings.sync)) return {nullptr, std::move(refusal)};
  }
  // Made anew, it is to be where it was, wherever the program has gone since.
  RootSettings lasting = settings;
  std::error_code error;
  lasting.path = std::filesystem::absolute(settings.path, error);
  if (error) lasting.path = folder->path;
  return {std::unique_ptr<Root>(new Root(std::move(lasting), std::move(folder))), {}};
}

Root::Root(RootSettings settings, Folder folder)
    : settings_(std::move(settings)), folder_(std::move(folder)) {
  builders_ = std::make_shared<const std::vector<std::string>>(read_builders(*folder_));
}

Root::Folder Root::folder() const {
  const std::lock_guard hold(fork_safe_mutex());
  return folder_;
}

Source::Builders Root::builders() const {
  const std::lock_guard hold(fork_safe_mutex());
  return builders_;
}

std::string Root::Renewed::text() const {
  return "the cache folder " + folder->path.string() +
         " was removed or replaced since it was opened, and what is there now is not used: " +
         refusal.text();
}

Root::Renewed Root::renew() const {
  Folder now = folder();
  struct stat info {};
  const bool there = ::stat(now->path.c_str(), &info) == 0;
  if (there && info.st_dev == now->device && info.st_ino == now->inode) return {now, {}};
  OpenedPath opened = open_folder(settings_.path, settings_.trust, settings_.write);
  if (opened.refusal) return {now, std::move(opened.refusal)};
  Folder renewed = to_folder(std::move(opened), settings_.trust);
  if (settings_.write) {
    if (Refusal refusal = claim(*renewed, settings_.sync)) return {now, std::move(refusal)};
  }
  const std::lock_guard hold(fork_safe_mutex());
  folder_ = renewed;
  return {renewed, {}};
}

void Root::refresh() const {
  const Folder root = renew().folder;
  // Going through every entry, for lack of markers, is for opening only where none can be made.
  if (!settings_.write && !has_markers(*root)) return;
  auto names = std::make_shared<const std::vector<std::string>>(read_builders(*root));
  const std::lock_guard hold(fork_safe_mutex());
  builders_ = std::move(names);
}

bool Root::has_markers(const RootFolder& root) const {
  return ::faccessat(root.descriptor.get(), builders_folder, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

std::vector<std::string> Root::read_builders(const RootFolder& root) const {
  const Descriptor folder =
      open_beneath(root.descriptor.get(), builders_folder, O_RDONLY | O_DIRECTORY);
  if (!folder && errno == ENOENT) {
    // Someone has tidied the markers away: the entries know.
    std::vector<std::string> found = builders_in_use(root);
    if (settings_.write) {
      for (const std::string& builder : found) announce(root, builder, settings_.sync);
    }
    return found;
  }
  auto names = folder ? names_in(folder.get()) : std::nullopt;
  if (!names) return {};
  std::erase_if(*names, [](const std::string& name) { return !valid_builder(name); });
  return newest_first(*std::move(names));
}

std::vector<std::string> Root::builders_in_use(const RootFolder& root) const {
  std::set<std::string> found;
  for (int shard = 0; shard < shard_count; ++shard) {
    const Descriptor folder =
        open_beneath(root.descriptor.get(), shard_name(shard), O_RDONLY | O_DIRECTORY);
    const auto names = folder ? names_in(folder.get()) : std::nullopt;
    if (!names) continue;
    for (const std::string& name : *names) {
      if (auto parsed = parse_entry_file_name(name)) found.insert(std::move(parsed->second));
    }
  }
  return newest_first({found.begin(), found.end()});
}

bool Root::announce(const RootFolder& root, const std::string& builder, bool sync) const {
  const Descriptor folder = make_folder(root, builders_folder, sync);
  if (!folder) return false;
  if (::faccessat(folder.get(), builder.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) return true;
  const Descriptor marker = open_beneath(folder.get(), builder, O_WRONLY | O_CREAT, root.file_mode);
  if (!marker) return false;
  set_mode(marker.get(), root.file_mode);  // an empty file: any mode will do
  return !sync || sync_file(folder.get());
}

Descriptor Root::make_folder(const RootFolder& root, const std::string& name, bool sync) const {
  const int parent = root.descriptor.get();
  for (int attempt = 0;; ++attempt) {
    Descriptor folder = open_beneath(parent, name, O_RDONLY | O_DIRECTORY);
    if (folder || attempt == 2) return folder;
    switch (errno) {
      case ENOENT:
        // Before anything that would make an unmarked folder seem someone else's.
        if (!mark(root, sync)) return folder;
        if (::mkdirat(parent, name.c_str(), root.folder_mode) != 0 && errno != EEXIST)
          return folder;
        if (!set_folder_mode(parent, name, root.folder_mode)) return folder;
        if (sync) sync_file(parent);
        break;
      case ELOOP:
        errno = ENOTDIR;
        return folder;
      case EACCES:
        if (!set_folder_mode(parent, name, root.folder_mode)) return folder;
        break;
      default:
        return folder;
    }
  }
}

}  // namespace tilec::cache

#include "mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "bytes.h"
#include "sweep.h"

namespace tilec::cache {

namespace {

constexpr std::string_view first_line = "tilec kernel cache\n";
constexpr std::string_view mark_text =
    "tilec kernel cache\n"
    "This file tells tilec that the folder is its own to write to and to clear.\n"
    "The folder may be deleted at any time: what it holds is built again.\n";
constexpr std::string_view tag_text =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file is a cache directory tag created by tilec.\n"
    "# For information about cache directory tags, see https://bford.info/cachedir/\n";

// Whoever wrote the mark may have been killed in the midst of it, so a part of the first line will
// do, and an empty file.
bool is_marked(int folder) {
  const std::string name(mark_file);
  struct stat info {};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
    return false;
  const Descriptor file = open_beneath(folder, name, O_RDONLY);
  if (!file) return errno == EACCES;  // a writer killed before others of a shared root could read
  std::array<char, first_line.size()> start{};
  const std::ptrdiff_t count = read_at(file.get(), 0, std::as_writable_bytes(std::span(start)));
  return count >= 0 &&
         first_line.starts_with(std::string_view(start.data(), static_cast<std::size_t>(count)));
}

bool is_shard_name(const std::string& name) {
  return name.size() == 2 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// A root's, as the tilec that knew no marks made it.
bool is_roots_name(const std::string& name) {
  return is_shard_name(name) || name == builders_folder || name == locks_folder ||
         name == usage_file || name == tag_file || is_temporary_name(name);
}

bool holds_only_empty_files(int parent, const std::string& name) {
  const Descriptor folder = open_beneath(parent, name, O_RDONLY | O_DIRECTORY);
  const auto names = folder ? names_in(folder.get()) : std::nullopt;
  return names && std::ranges::all_of(*names, [&](const std::string& each) {
           struct stat info {};
           return ::fstatat(folder.get(), each.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                  S_ISREG(info.st_mode) && info.st_size == 0;
         });
}

// A root that knew no marks: with its counts, or before its first entry.
bool is_old_root(const RootFolder& root, const std::vector<std::string>& names) {
  return has_usage(root) || std::ranges::all_of(names, [&](const std::string& name) {
           return (name == locks_folder || name == builders_folder) &&
                  holds_only_empty_files(root.descriptor.get(), name);
         });
}

bool create(const RootFolder& root, std::string_view name, std::string_view text, bool sync) {
  const Descriptor file = open_beneath(root.descriptor.get(), std::string(name),
                                       O_WRONLY | O_CREAT | O_EXCL, root.file_mode);
  if (!file) return errno == EEXIST;
  set_mode(file.get(), root.file_mode);  // holds no secret, and is believed only in a trusted root
  return write_all(file.get(), as_bytes(text)) && (!sync || sync_file(file.get()));
}

// Of a folder that holds `item`.
Refusal refusal(const RootFolder& root, const std::string& item) {
  const std::string mark(mark_file);
  const std::string end = ", so it may be a folder of someone's own and nothing in it is touched";
  const std::string remedy = "if it is a cache all the same, ";
  const std::string path = (root.path / mark).string();
  if (item == mark) {
    return {.fault = "it holds a " + mark + " that is not tilec's" + end,
            .remedy = remedy + "put an empty file in place of " + path};
  }
  return {.fault = "it holds " + item + " but no file " + mark + ", which every cache has" + end,
          .remedy = remedy + "make an empty file " + path};
}

}  // namespace

Refusal claim(const RootFolder& root, bool sync) {
  const int folder = root.descriptor.get();
  if (is_marked(folder)) return {};
  auto names = names_in(folder);
  if (!names) return {.fault = "it can't be read: " + error_text(errno)};
  // A new file system has it.
  std::erase(*names, "lost+found");
  auto stranger = std::ranges::find(*names, mark_file);
  if (stranger == names->end()) stranger = std::ranges::find_if_not(*names, is_roots_name);
  const bool usable = names->empty() || (stranger == names->end() && is_old_root(root, *names));
  // Another process may have marked it since, before it made what we have just seen.
  if (!usable && !is_marked(folder)) {
    return refusal(root, stranger == names->end() ? names->front() : *stranger);
  }
  // Where this can't be written, no folder is made either, and publishing says why.
  mark(root, sync);
  return {};
}

bool mark(const RootFolder& root, bool sync) {
  const std::string name(mark_file);
  if (::faccessat(root.descriptor.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (!create(root, mark_file, mark_text, sync)) return false;
  create(root, tag_file, tag_text, false);  // for the sake of others only
  return true;
}

}  // namespace tilec::cache

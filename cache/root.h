// A root folder: its entries, builder markers, locks and usage counts. FORMAT.md has the layout.
// Thread-safe. What changes (the folder's descriptor, the builders known) is replaced as a whole
// under the fork-safe mutex; no lock is held during I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "file.h"
#include "source.h"
#include "tilec/cache.h"
#include "trust.h"

namespace tilec::cache {

struct RootSettings {
  std::filesystem::path path;
  Origin origin = Origin::own_root;
  Trust trust = Trust::own;
  bool create = false;  // the folder, where it is missing
  bool write = false;   // publish, discard, sweep, touch
  bool sync = true;
  std::uint64_t max_bytes = 0;
  std::chrono::seconds touch_after{60};
};

// The folder as opened once. Stays good for those who still read through it when another takes
// its place.
struct RootFolder {
  Descriptor descriptor;
  std::filesystem::path path;
  dev_t device = 0;
  ino_t inode = 0;
  mode_t file_mode = 0600;
  mode_t folder_mode = 0700;
};

struct RootOpening;

// What lies in the cache and can't be read or removed.
Miss unread(const std::filesystem::path& path, int error);
Miss unremoved(const std::filesystem::path& path, int error);

constexpr int shard_count = 256;
constexpr const char* builders_folder = "builders";
constexpr const char* locks_folder = "locks";
constexpr const char* usage_file = "usage";
constexpr std::string_view temporary_prefix = ".tmp-";

std::string shard_name(int shard);
// .tmp-<32 hexadecimal digits>
bool is_temporary_name(std::string_view name);
std::string entry_file_name(const Key& key, const std::string& builder);
// The other way; nothing for a name that is no entry's.
std::optional<std::pair<Key, std::string>> parse_entry_file_name(std::string_view name);

class Root final : public Source {
 public:
  using Folder = std::shared_ptr<const RootFolder>;

  static RootOpening open(const RootSettings& settings);

  Origin origin() const override { return settings_.origin; }
  Builders builders() const override;
  void refresh() const override;
  Opened open_entry(const Key& key, const std::string& builder) const override;
  void used(const OpenEntry& entry) const override;
  bool remove_damaged(const Key& key, const std::string& builder,
                      const OpenEntry& entry) const override;
  std::vector<Miss> for_each_name(const Visit& visit) const override;

  const RootSettings& settings() const { return settings_; }
  Folder folder() const;

  struct Renewed {
    Folder folder;             // the one there was, if the one now at the path is not used
    Refusal refusal;           // why it isn't
    std::string text() const;  // the same, a clause
  };
  // The folder as it is at the path now, made anew if someone has removed it.
  Renewed renew() const;
  // Opens a folder beneath, made where missing; ENOTDIR if something else lies there, which is
  // left alone. `sync`: so that it survives a power loss.
  Descriptor make_folder(const RootFolder& root, const std::string& name, bool sync) const;
  // False, with errno set, if the builder's marker can't be written.
  bool announce(const RootFolder& root, const std::string& builder, bool sync) const;

  std::uint64_t discard(const Key& key, std::string_view builder) const;
  // False, with errno set, if it could not be removed: ENOENT if there is none, EISDIR if something
  // that is no file lies in its place.
  bool discard_file(const Key& key, const std::string& builder) const;

 private:
  Root(RootSettings settings, Folder folder);
  std::vector<std::string> read_builders(const RootFolder& root) const;
  bool has_markers(const RootFolder& root) const;
  std::vector<std::string> builders_in_use(const RootFolder& root) const;

  RootSettings settings_;
  mutable Folder folder_;  // both under fork_safe_mutex()
  mutable Builders builders_;
};

struct RootOpening {
  std::unique_ptr<Root> root;
  Refusal refusal;
};

// Of a root that is used no more.
Miss not_used(const Root::Renewed& now);

}  // namespace tilec::cache

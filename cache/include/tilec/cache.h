// The on-disk kernel cache: publish a compiled kernel under its key, find it again, from any number
// of threads, processes and hosts, whatever happens to the files in between. cache/FORMAT.md holds
// the bytes. A Store may be used from many threads at once, and from children after a fork. Nothing
// here prints, reads the environment or throws for a fault of the file system.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilec/cache_entry.h"
#include "tilec/cache_key.h"

namespace tilec::cache {

// A file that exporting wrote, or the same bytes linked into the program. Searched after the roots.
struct BundleSource {
  std::filesystem::path path{};        // used if `bytes` is empty
  std::span<const std::byte> bytes{};  // must outlive the store
  std::string name{};                  // of an embedded one, for messages
};

struct StoreOptions {
  // Created with its parents, mode 0700; empty: no root of our own. A folder that holds anything
  // but a cache is refused, and nothing in it is touched.
  std::filesystem::path root{};
  bool read_only = false;  // never writes to the root, nor removes damage from it
  std::vector<std::filesystem::path> read_only_roots{};  // searched after `root`, in order
  std::vector<BundleSource> bundles{};                   // searched after the roots, in order
  std::uint64_t max_bytes = std::uint64_t{1} << 30;      // of `root`'s entries; 0: no bound
  bool sync = true;  // fsync on publishing: an entry survives a power loss
  std::vector<std::filesystem::path> trust_shared{};  // roots and bundles whose owners and modes
                                                      // are not checked
  std::chrono::seconds touch_after{60};  // a hit renews an entry's last use if it is older
  // How problems() tells a person what to change.
  std::string root_hint = "choose another cache root";
  std::string trust_hint = "name it in trust_shared";
};

struct LookUpOptions {
  std::string require_builder{};             // only this one; empty: any, newest first
  std::vector<std::string> skip_builders{};  // those whose entry the driver has rejected
  std::string target{};                      // refuse an entry of another one; empty: any
};

// An entry, or at least one miss that says why there is none. A hit may come with misses too: a
// damaged file of a newer builder, say.
struct LookUp {
  std::optional<Entry> entry{};
  std::vector<Miss> misses{};

  explicit operator bool() const { return entry.has_value(); }
};

enum class PublishFailure { none, no_root, read_only, no_space, too_large, invalid, io_error };
std::string_view to_string(PublishFailure failure);

struct Published {
  PublishFailure failure = PublishFailure::none;
  std::string detail{};          // a clause for a person, naming the path
  std::filesystem::path path{};  // of the entry

  explicit operator bool() const { return failure == PublishFailure::none; }
};

struct StoreOpener;

// Held while a kernel is built, so that other processes wait for it rather than build it too.
// Releases on destruction; a forked child's copy of it holds nothing.
class BuildLock {
 public:
  BuildLock() = default;
  BuildLock(BuildLock&& other) noexcept;
  BuildLock& operator=(BuildLock&& other) noexcept;
  ~BuildLock();

  bool held() const;
  // True if another held it first: look the key up again before building.
  bool waited() const { return waited_; }
  const std::string& why_not() const { return why_not_; }  // empty while held

 private:
  friend class Store;
  std::uint64_t ticket_ = 0;  // 0: none
  bool waited_ = false;
  std::string why_not_;
};

// All conditions that are set must hold.
struct Filter {
  std::string target{};
  std::string template_name{};
  std::string builder{};
  std::string kind{};
  std::optional<Key> key{};

  bool matches(const Key& entry_key, const Metadata& metadata) const;
};

// An entry as a listing shows it. `problem` is set where it is no good; metadata is then empty.
struct Listed {
  Key key{};
  Metadata metadata{};
  Origin origin = Origin::own_root;
  std::filesystem::path path{};
  std::uint64_t bytes = 0;  // of the whole entry
  std::uint64_t payload_bytes = 0;
  std::chrono::system_clock::time_point last_used{};  // of the bundle's file for a bundle's entry
  std::optional<Miss> problem{};
};

enum class Depth { metadata, payload };  // how much of each entry a listing reads and verifies

struct Totals {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::uint64_t temporary_files = 0;
};

struct SweepOptions {
  std::optional<std::uint64_t> max_bytes{};  // other than the store's; 0: no bound, removes nothing
  bool complete = false;                     // until the bound holds; else one step of bounded cost
  // A temporary file is removed if its writer is gone and it is at least this old.
  std::chrono::seconds temporary_age{60};
};

struct Cleared {
  std::uint64_t removed = 0;
  std::vector<Miss> kept{};  // what could not be removed, and folders that could not be read
};

struct Swept {
  bool ran = false;  // false: no root, another process is at it, or `kept` says why
  std::uint64_t removed_entries = 0;
  std::uint64_t removed_bytes = 0;
  std::uint64_t removed_temporary_files = 0;
  std::uint64_t scanned_entries = 0;
  std::uint64_t bytes_left = 0;  // an estimate unless complete
  std::vector<Miss> kept{};      // as Cleared's
};

struct VerifyReport {
  std::uint64_t good = 0;
  std::uint64_t bytes = 0;
  std::vector<Miss> damaged{};  // and folders that could not be read; .removed: it was repaired
};

// What was wanted, to be compared with what is there.
struct Wanted {
  Key key{};
  std::string template_name{};
  std::map<std::string, std::string> parameters{};
  std::string target{};
  std::string builder{};
};

struct Difference {
  std::string field{};  // "target", "builder", "parameter TILE", "source, headers or options"
  std::string wanted{};
  std::string found{};
};

struct Near {
  Listed entry{};
  std::vector<Difference> differences{};
};

struct BundleReport {
  bool ok = false;            // of an import: all that the bundle holds is in the cache now
  std::string detail{};       // why not
  std::uint64_t entries = 0;  // written; or imported now, and still there at the end
  std::uint64_t already_there = 0;
  std::uint64_t bytes = 0;         // of the file written, or of the entries imported now
  std::uint64_t missing = 0;       // of an import that went through: not in the cache at the end
  std::uint64_t needed_bytes = 0;  // the max_bytes that would hold the missing ones too; 0: not
                                   // the bound's fault
  std::vector<Miss>
      skipped;  // what could not be read for an export; publishing faults of an import
};

class Store {
 public:
  // Never throws for a root or bundle that can't be used: the rest works, problems() says what is
  // amiss and which option helps.
  explicit Store(StoreOptions options);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  const StoreOptions& options() const;
  std::vector<std::string> problems() const;
  bool writable() const;  // publish() has somewhere to write

  // The own root first, then the read-only roots, then the bundles; in each, the newest builder
  // first. Reads and verifies the whole entry. A damaged file in the own root is removed.
  LookUp look_up(const Key& key, const LookUpOptions& options = {}) const;

  // The same without the payload: verified as far as the metadata go, nothing removed.
  std::optional<Listed> peek(const Key& key, const LookUpOptions& options = {}) const;

  // Writes <key>.<metadata.builder> into the own root; replaces what is there. On return the entry
  // is either whole and visible to everyone, or not there. May sweep a little.
  Published publish(const Key& key, const Metadata& metadata,
                    std::span<const std::byte> payload) const;

  // Removes entries of a key from the own root: of one builder, or of all. Returns how many.
  std::uint64_t discard(const Key& key, std::string_view builder = {}) const;

  // One builder of a key at a time among all processes that share the root. Waits at most `wait`.
  // Without a lock (see why_not()) everyone builds, which is only slower.
  BuildLock lock(const Key& key, std::chrono::milliseconds wait) const;

  // Calls `visit` for each entry of every root and bundle, good or not, until it returns false.
  // Entries that come and go meanwhile may be missed. An entry in several places is seen in each.
  // Returns the folders that could not be read.
  std::vector<Miss> for_each(const Filter& filter, Depth depth,
                             const std::function<bool(const Listed&)>& visit) const;

  Totals totals() const;                      // of the own root, counted now
  std::vector<std::string> builders() const;  // known in any root or bundle, newest first

  VerifyReport verify(
      bool repair) const;  // reads everything; repair removes damage from the own root
  Cleared clear(const Filter& filter = {}) const;  // from the own root
  Swept sweep(const SweepOptions& options = {}) const;

  // Entries of the wanted template, fewest differences first. Looks at `scan_limit` entries at
  // most.
  std::vector<Near> nearest(const Wanted& wanted, std::size_t count,
                            std::size_t scan_limit = 20000) const;

  // Every entry that matches, from every root and bundle, all builders, as one file. The file
  // appears whole or not at all, and replaces a bundle, but nothing else that is there; a pipe or
  // device is written straight through.
  BundleReport export_bundle(const std::filesystem::path& file, const Filter& filter = {}) const;

  // Verifies the whole file (a pipe is spooled first), then publishes what is not there yet.
  // Anyone's file may be given: nothing in it is used before its checksums and payload headers
  // hold.
  BundleReport import_bundle(const std::filesystem::path& file) const;

 private:
  friend struct StoreOpener;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tilec::cache

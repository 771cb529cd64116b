// A place that entries are read from: a root folder or a bundle. The look-up is the same for both.
// A Source may be used from many threads at once.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "entry_format.h"
#include "file.h"
#include "tilec/cache.h"

namespace tilec::cache {

// An entry's bytes, opened but not yet read.
struct OpenEntry {
  ReadAt read;
  std::uint64_t bytes = 0;
  std::filesystem::path path;
  std::chrono::system_clock::time_point last_used;
  std::optional<Digest> header_digest;     // of a bundle's entry: what the index says
  std::shared_ptr<const Descriptor> file;  // of a root's entry
  struct stat info {};                     // of a root's entry
};

struct Absent {};

using Opened = std::variant<Absent, OpenEntry, Miss>;

class Source {
 public:
  using Builders = std::shared_ptr<const std::vector<std::string>>;  // newest first
  // Key and builder come from the entry's name and are valid. Returns false to stop.
  using Visit = std::function<bool(const Key&, const std::string& builder)>;

  virtual ~Source() = default;
  virtual Origin origin() const = 0;
  virtual Builders builders() const = 0;
  // Looks for builders that came since. Another thread may have seen them first: whether builders()
  // has changed is told by the list that one had.
  virtual void refresh() const = 0;
  virtual Opened open_entry(const Key& key, const std::string& builder) const = 0;
  // A hit: renew the last use if that is due.
  virtual void used(const OpenEntry& entry) const = 0;
  // Removes what was found damaged, unless it has been replaced since. True if it did.
  virtual bool remove_damaged(const Key& key, const std::string& builder,
                              const OpenEntry& entry) const = 0;
  // Returns the folders that could not be read.
  virtual std::vector<Miss> for_each_name(const Visit& visit) const = 0;
};

// One source's part of Store::look_up(). Misses are empty if it has nothing of this key.
LookUp look_up_in(const Source& source, const Key& key, const LookUpOptions& options);

// The head of the newest entry that serves, or nothing.
std::optional<Listed> peek_in(const Source& source, const Key& key, const LookUpOptions& options);

// An entry that was opened, as a listing shows it. Nothing if there is none.
std::optional<Listed> list_opened(const Source& source, const Opened& opened, const Key& key,
                                  const std::string& builder, Depth depth);
// The same, opening it.
std::optional<Listed> list_entry(const Source& source, const Key& key, const std::string& builder,
                                 Depth depth);

std::vector<std::string> newest_first(std::vector<std::string> builders);

}  // namespace tilec::cache

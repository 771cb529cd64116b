// A bundle: many entries in one file, see FORMAT.md. The reader checks the index when it opens and
// each entry when it is read; thread-safe. The writer only appends, so it can write to a pipe; it
// belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "digest.h"
#include "file.h"
#include "source.h"
#include "trust.h"

namespace tilec::cache {

struct BundleRecord {
  Key key;
  std::string builder;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  Digest header_digest{};  // of the entry's header, which stands for the whole
};

// By key, then builder: the order in a bundle.
bool operator<(const BundleRecord& a, const BundleRecord& b);

struct BundleIndex {
  std::vector<BundleRecord> records;
  std::string fault;  // a clause: why these bytes are no bundle
};

BundleIndex read_bundle_index(const ReadAt& read, std::uint64_t size);

// By the first bytes.
bool is_bundle_or_empty(const ReadAt& read);

struct BundleOpening;

class Bundle final : public Source {
 public:
  // Of a file that may be anyone's (`shared`), or must pass the rules for read-only roots.
  static BundleOpening open(const std::filesystem::path& path, Trust trust);
  static BundleOpening open(Descriptor file, std::filesystem::path path);
  static BundleOpening open(std::span<const std::byte> bytes, std::string name);

  Origin origin() const override { return origin_; }
  Builders builders() const override { return builders_; }
  void refresh() const override {}
  Opened open_entry(const Key& key, const std::string& builder) const override;
  void used(const OpenEntry&) const override {}
  bool remove_damaged(const Key&, const std::string&, const OpenEntry&) const override {
    return false;
  }
  std::vector<Miss> for_each_name(const Visit& visit) const override;

  const std::vector<BundleRecord>& records() const { return records_; }
  ReadAt reader(const BundleRecord& record) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  Bundle() = default;

  ReadAt read_;
  std::vector<BundleRecord> records_;
  Builders builders_;
  Origin origin_ = Origin::bundle;
  std::filesystem::path path_;
  std::chrono::system_clock::time_point modified_;
};

struct BundleOpening {
  std::unique_ptr<Bundle> bundle;
  Refusal refusal;
};

class BundleWriter {
 public:
  explicit BundleWriter(int file);
  // Records must come in order. False, with errno set, if writing fails.
  bool begin();
  bool add(BundleRecord record, std::span<const std::byte> entry);
  bool finish();
  std::uint64_t bytes() const { return offset_; }

 private:
  bool write(std::span<const std::byte> bytes);

  int file_;
  std::uint64_t offset_ = 0;
  std::vector<BundleRecord> records_;
};

}  // namespace tilec::cache

// A bundle mounted: look-ups and listings straight from the file, or from memory.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "bundle.h"

namespace tilec::cache {

namespace {

std::vector<std::string> builders_of(const std::vector<BundleRecord>& records) {
  std::set<std::string> found;
  for (const BundleRecord& record : records) found.insert(record.builder);
  return newest_first({found.begin(), found.end()});
}

}  // namespace

BundleOpening Bundle::open(const std::filesystem::path& path, Trust trust) {
  OpenedPath opened = open_file(path, trust);
  if (opened.refusal) return {nullptr, std::move(opened.refusal)};
  return open(std::move(opened.descriptor), std::move(opened.path));
}

BundleOpening Bundle::open(Descriptor file, std::filesystem::path path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return {nullptr, {"it can't be read: " + error_text(errno)}};
  if (!S_ISREG(info.st_mode)) return {nullptr, {"it is not a file"}};
  std::unique_ptr<Bundle> bundle(new Bundle);
  bundle->read_ = [shared = std::make_shared<const Descriptor>(std::move(file))](
                      std::uint64_t offset, std::span<std::byte> out) {
    return read_at(shared->get(), offset, out);
  };
  BundleIndex index = read_bundle_index(bundle->read_, static_cast<std::uint64_t>(info.st_size));
  if (!index.fault.empty()) return {nullptr, {std::move(index.fault)}};
  bundle->builders_ = std::make_shared<const std::vector<std::string>>(builders_of(index.records));
  bundle->records_ = std::move(index.records);
  bundle->path_ = std::move(path);
  bundle->modified_ = std::chrono::system_clock::from_time_t(info.st_mtim.tv_sec);
  return {std::move(bundle), {}};
}

BundleOpening Bundle::open(std::span<const std::byte> bytes, std::string name) {
  std::unique_ptr<Bundle> bundle(new Bundle);
  bundle->read_ = read_from(bytes);
  BundleIndex index = read_bundle_index(bundle->read_, bytes.size());
  if (!index.fault.empty()) return {nullptr, {std::move(index.fault)}};
  bundle->builders_ = std::make_shared<const std::vector<std::string>>(builders_of(index.records));
  bundle->records_ = std::move(index.records);
  bundle->origin_ = Origin::embedded_bundle;
  bundle->path_ = std::move(name);
  return {std::move(bundle), {}};
}

ReadAt Bundle::reader(const BundleRecord& record) const {
  return [this, start = record.offset, bytes = record.bytes](std::uint64_t offset,
                                                             std::span<std::byte> out) {
    if (offset >= bytes) return std::ptrdiff_t{0};
    return read_(start + offset, out.first(std::min<std::uint64_t>(out.size(), bytes - offset)));
  };
}

Opened Bundle::open_entry(const Key& key, const std::string& builder) const {
  BundleRecord wanted;
  wanted.key = key;
  wanted.builder = builder;
  const auto found = std::ranges::lower_bound(records_, wanted,
                                              [](const auto& a, const auto& b) { return a < b; });
  if (found == records_.end() || found->key != key || found->builder != builder) return Absent{};
  OpenEntry entry;
  entry.read = reader(*found);
  entry.bytes = found->bytes;
  entry.path = path_;
  entry.header_digest = found->header_digest;
  entry.last_used = modified_;
  return entry;
}

std::vector<Miss> Bundle::for_each_name(const Visit& visit) const {
  for (const BundleRecord& record : records_) {
    if (!visit(record.key, record.builder)) break;
  }
  return {};
}

}  // namespace tilec::cache

// Store::export_bundle: every matching entry of every source as one file.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "bundle.h"
#include "store_state.h"

namespace tilec::cache {

namespace {

struct Chosen {
  BundleRecord record;
  const Source* source;
};

// Names only, so that memory does not grow with the payloads. The first source wins.
std::vector<Chosen> choose(const std::vector<std::unique_ptr<Source>>& sources,
                           const Filter& filter, std::vector<Miss>& skipped) {
  std::vector<Chosen> chosen;
  for (const auto& source : sources) {
    std::vector<Miss> unread =
        source->for_each_name([&](const Key& key, const std::string& builder) {
          if (filter.key && *filter.key != key) return true;
          if (!filter.builder.empty() && filter.builder != builder) return true;
          chosen.push_back({{key, builder, 0, 0, {}}, source.get()});
          return true;
        });
    std::ranges::move(unread, std::back_inserter(skipped));
  }
  std::ranges::stable_sort(chosen,
                           [](const Chosen& a, const Chosen& b) { return a.record < b.record; });
  return chosen;
}

bool same_entry(const BundleRecord& a, const BundleRecord& b) {
  return a.key == b.key && a.builder == b.builder;
}

struct Whole {
  std::vector<std::byte> bytes;
  EntryHead head;
};

std::variant<Whole, Fault> read_whole_entry(const OpenEntry& entry, const BundleRecord& record) {
  if (entry.bytes > entry_header_bytes + max_metadata_bytes + max_payload_bytes) {
    return Fault{MissReason::malformed, "larger than any entry"};
  }
  Whole whole;
  whole.bytes.resize(entry.bytes);
  const std::ptrdiff_t count = entry.read(0, whole.bytes);
  if (count < 0) return Fault{MissReason::io_error, "reading failed: " + error_text(errno)};
  whole.bytes.resize(static_cast<std::size_t>(count));
  const ReadAt read = read_from(whole.bytes);
  auto head = read_entry_head(read, whole.bytes.size(), &record.key, record.builder);
  if (Fault* fault = std::get_if<Fault>(&head)) return std::move(*fault);
  whole.head = std::get<EntryHead>(std::move(head));
  auto payload = read_entry_payload(read, whole.head);
  if (Fault* fault = std::get_if<Fault>(&payload)) return std::move(*fault);
  return whole;
}

// Where the bundle is written: beside its name, to be renamed; or straight into a pipe or device.
class Output {
 public:
  explicit Output(const std::filesystem::path& file) : target_(file) {
    struct stat info {};
    const bool there = ::stat(file.c_str(), &info) == 0;
    if (there && !S_ISREG(info.st_mode)) {
      open(file, O_WRONLY | O_NOCTTY);
      return;
    }
    if (there && !may_replace(file)) {
      fault_ = "it exists and is no bundle; remove it, or name another file";
      return;
    }
    temporary_ = file;
    temporary_ += ".tmp-" + random_name();
    open(temporary_, O_WRONLY | O_CREAT | O_EXCL);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (!temporary_.empty() && descriptor_) ::unlink(temporary_.c_str());
  }

  int descriptor() const { return descriptor_.get(); }
  const std::string& fault() const { return fault_; }  // a clause: why there is none

  bool commit(bool sync) {
    if (temporary_.empty()) return true;
    if (sync && !sync_file(descriptor_.get())) return false;
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) return false;
    temporary_.clear();
    if (!sync) return true;
    const std::filesystem::path parent = target_.has_parent_path() ? target_.parent_path() : ".";
    const Descriptor folder(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return !folder || sync_file(folder.get());
  }

 private:
  // An empty file, too, as mktemp makes it.
  static bool may_replace(const std::filesystem::path& file) {
    const Descriptor old(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    return is_bundle_or_empty([&](std::uint64_t offset, std::span<std::byte> out) {
      return old ? read_at(old.get(), offset, out) : -1;
    });
  }

  void open(const std::filesystem::path& file, int flags) {
    descriptor_ = Descriptor(::open(file.c_str(), flags | O_CLOEXEC, 0644));
    if (!descriptor_) fault_ = write_error_text(errno);
  }

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  Descriptor descriptor_;
  std::string fault_;
};

BundleReport& failed(BundleReport& report, const std::filesystem::path& file) {
  report.detail = "writing " + file.string() + " failed: " + write_error_text(errno);
  return report;
}

}  // namespace

BundleReport Store::export_bundle(const std::filesystem::path& file, const Filter& filter) const {
  BundleReport report;
  Output output(file);
  if (output.descriptor() < 0) {
    report.detail = file.string() + " can't be written: " + output.fault();
    return report;
  }
  BundleWriter writer(output.descriptor());
  if (!writer.begin()) return failed(report, file);

  const BundleRecord* last = nullptr;
  std::vector<Chosen> all = choose(state_->sources, filter, report.skipped);
  for (Chosen& each : all) {
    if (last && same_entry(*last, each.record)) continue;
    const Opened opened = each.source->open_entry(each.record.key, each.record.builder);
    const OpenEntry* entry = std::get_if<OpenEntry>(&opened);
    if (const Miss* miss = std::get_if<Miss>(&opened)) report.skipped.push_back(*miss);
    if (!entry) continue;
    auto whole = read_whole_entry(*entry, each.record);
    if (Fault* fault = std::get_if<Fault>(&whole)) {
      report.skipped.push_back({fault->reason, entry->path, std::move(fault->detail), false});
      continue;
    }
    const Whole& good = std::get<Whole>(whole);
    if (!filter.matches(each.record.key, good.head.metadata)) continue;
    each.record.header_digest = good.head.header_digest;
    if (!writer.add(each.record, good.bytes)) return failed(report, file);
    last = &each.record;
    ++report.entries;
  }
  if (!writer.finish() || !output.commit(state_->options.sync)) return failed(report, file);
  report.bytes = writer.bytes();
  report.ok = true;
  return report;
}

}  // namespace tilec::cache

// Store::import_bundle: everything is verified before anything is published, then in batches whose
// files are synced together.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "bundle.h"
#include "publish.h"
#include "store_state.h"
#include "sweep.h"

namespace tilec::cache {

namespace {

constexpr std::size_t batch_entries = 128;  // each holds two descriptors until it is committed
constexpr std::uint64_t batch_bytes = std::uint64_t{64} << 20;

struct Input {
  Descriptor file;
  std::string fault;
};

// A pipe can't be read twice: its bytes go to a nameless file first.
Input spool(Descriptor from, const std::filesystem::path& folder) {
  Descriptor to(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!to) {
    const std::string name = std::string(temporary_prefix) + random_name();
    const std::filesystem::path path = folder / name;
    to = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!to) return {{}, "it can't be spooled to " + folder.string() + ": " + error_text(errno)};
    ::unlink(path.c_str());
  }
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  for (;;) {
    const ssize_t count = ::read(from.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return {{}, "reading failed: " + error_text(errno)};
    if (count == 0) return {std::move(to), {}};
    if (!write_all(to.get(), std::span(buffer).first(static_cast<std::size_t>(count)))) {
      return {{}, "it can't be spooled to " + folder.string() + ": " + write_error_text(errno)};
    }
  }
}

Input open_input(const std::filesystem::path& path, const std::filesystem::path& folder) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0)
    return {{}, "it can't be opened: " + error_text(errno)};
  if (S_ISDIR(info.st_mode)) return {{}, "it is a folder"};
  if (S_ISREG(info.st_mode)) return {std::move(file), {}};
  return spool(std::move(file), folder);
}

struct Member {
  EntryHead head;
  std::vector<std::byte> head_bytes;
  std::vector<std::byte> payload;
};

std::variant<Member, Fault> read_member(const Bundle& bundle, const BundleRecord& record) {
  const ReadAt read = bundle.reader(record);
  auto head = read_entry_head(read, record.bytes, &record.key, record.builder);
  if (Fault* fault = std::get_if<Fault>(&head)) return std::move(*fault);
  Member member;
  member.head = std::get<EntryHead>(std::move(head));
  if (member.head.header_digest != record.header_digest) {
    return Fault{MissReason::checksum, "another entry than the index names"};
  }
  auto payload = read_entry_payload(read, member.head);
  if (Fault* fault = std::get_if<Fault>(&payload)) return std::move(*fault);
  member.payload = std::get<std::vector<std::byte>>(std::move(payload));
  member.head_bytes.resize(member.head.payload_offset);
  if (read(0, member.head_bytes) != static_cast<std::ptrdiff_t>(member.head_bytes.size())) {
    return Fault{MissReason::truncated, "the file changed while it was read"};
  }
  return member;
}

std::string name_of(const BundleRecord& record) {
  return entry_file_name(record.key, record.builder);
}

// Empty if every entry is whole.
std::string verify_all(const Bundle& bundle) {
  for (const BundleRecord& record : bundle.records()) {
    const auto member = read_member(bundle, record);
    if (const Fault* fault = std::get_if<Fault>(&member)) {
      return "entry " + name_of(record) + " is no good (" + std::string(to_string(fault->reason)) +
             ": " + fault->detail + ")";
    }
  }
  return {};
}

class Batch {
 public:
  Batch(const Root& root, BundleReport& report) : root_(root), report_(report) {}

  void add(const BundleRecord& record, const Member& member) {
    StagedEntry entry(root_, record.key, record.builder, false);
    if (!entry.write(member.head_bytes, member.payload)) return skip(entry);
    bytes_ += record.bytes;
    entries_.push_back(std::move(entry));
    if (entries_.size() >= batch_entries || bytes_ >= batch_bytes) commit();
  }

  void commit() {
    if (root_.settings().sync && !entries_.empty() && !sync()) {
      for (StagedEntry& entry : entries_) entry.sync_file_bytes();
    }
    for (StagedEntry& entry : entries_) {
      if (!entry.result() || !entry.commit()) skip(entry);
    }
    entries_.clear();
    bytes_ = 0;
  }

  // One turn of the disk for all. A turn for each file, even if its writing has started before,
  // takes fifteen times as long.
  bool sync() const { return ::syncfs(root_.folder()->descriptor.get()) == 0; }

 private:
  void skip(const StagedEntry& entry) {
    report_.skipped.push_back(
        {MissReason::io_error, entry.result().path, entry.result().detail, false});
  }

  const Root& root_;
  BundleReport& report_;
  std::vector<StagedEntry> entries_;
  std::uint64_t bytes_ = 0;
};

bool is_there(const Root& root, const BundleRecord& record, Depth depth) {
  const auto listed = list_entry(root, record.key, record.builder, depth);
  return listed && !listed->problem;
}

// Asked for now, so used now: what the bound removes are others.
void renew(const Root& root, const BundleRecord& record) {
  const Opened opened = root.open_entry(record.key, record.builder);
  if (const OpenEntry* entry = std::get_if<OpenEntry>(&opened)) root.used(*entry);
}

// Which of the records were there already.
std::vector<bool> publish_all(const Bundle& bundle, const Root& root, BundleReport& report) {
  std::vector<bool> before;
  Batch batch(root, report);
  for (const BundleRecord& record : bundle.records()) {
    before.push_back(is_there(root, record, Depth::payload));
    if (before.back()) {
      renew(root, record);
      continue;
    }
    auto member = read_member(bundle, record);
    if (Fault* fault = std::get_if<Fault>(&member)) {
      report.skipped.push_back({fault->reason, bundle.path(), std::move(fault->detail), false});
      continue;
    }
    batch.add(record, std::get<Member>(member));
  }
  batch.commit();
  if (root.settings().sync) batch.sync();
  return before;
}

// What is there at the end, whatever the bound and other processes have removed.
void take_stock(const Bundle& bundle, const Root& root, const std::vector<bool>& before,
                BundleReport& report) {
  std::uint64_t missing_bytes = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const BundleRecord& record = bundle.records()[i];
    if (!is_there(root, record, Depth::metadata)) {
      ++report.missing;
      missing_bytes += record.bytes;
    } else if (before[i]) {
      ++report.already_there;
    } else {
      ++report.entries;
      report.bytes += record.bytes;
    }
  }
  report.ok = report.missing == 0;
  if (report.missing > report.skipped.size() && root.settings().max_bytes != 0) {
    report.needed_bytes = count_root(root).bytes + missing_bytes;
  }
}

std::string why_missing(const Root& root, const BundleReport& report) {
  if (report.ok) return {};
  const std::uint64_t all = report.entries + report.already_there + report.missing;
  const std::string how_many = std::to_string(report.missing) + " of its " + std::to_string(all) +
                               " entries are not in the cache: ";
  if (!report.skipped.empty()) return how_many + report.skipped.front().detail;
  if (report.needed_bytes == 0) return how_many + "they were removed meanwhile";
  return how_many + "it may hold " + std::to_string(root.settings().max_bytes) +
         " bytes, and would need " + std::to_string(report.needed_bytes);
}

}  // namespace

BundleReport Store::import_bundle(const std::filesystem::path& file) const {
  BundleReport report;
  if (!state_->can_write()) {
    report.detail = "there is no cache folder that can be written";
    return report;
  }
  const Root& root = *state_->own;
  Input input = open_input(file, root.renew().folder->path);
  if (!input.fault.empty()) {
    report.detail = file.string() + " is not imported: " + input.fault;
    return report;
  }
  BundleOpening opening = Bundle::open(std::move(input.file), file);
  std::string fault =
      opening.bundle ? verify_all(*opening.bundle) : std::move(opening.refusal.fault);
  if (!fault.empty()) {
    report.detail = file.string() + " is not imported: " + fault;
    return report;
  }
  const std::vector<bool> before = publish_all(*opening.bundle, root, report);
  sweep_root(root, {.complete = true});
  take_stock(*opening.bundle, root, before, report);
  report.detail = why_missing(root, report);
  return report;
}

}  // namespace tilec::cache

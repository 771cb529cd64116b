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
      return {{}, "it can't be spooled to " + folder.string() + ": " + error_text(errno)};
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
      if (entry.result() && entry.commit()) {
        ++report_.entries;
      } else {
        skip(entry);
      }
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

bool already_there(const Root& root, const BundleRecord& record) {
  const auto listed = list_entry(root, record.key, record.builder, Depth::payload);
  return listed && !listed->problem;
}

void publish_all(const Bundle& bundle, const Root& root, BundleReport& report) {
  Batch batch(root, report);
  for (const BundleRecord& record : bundle.records()) {
    if (already_there(root, record)) {
      ++report.already_there;
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
}

}  // namespace

BundleReport Store::import_bundle(const std::filesystem::path& file) const {
  BundleReport report;
  if (!state_->can_write()) {
    report.detail = "there is no cache folder that can be written";
    return report;
  }
  const Root& root = *state_->own;
  Input input = open_input(file, root.renewed_folder()->path);
  if (!input.fault.empty()) {
    report.detail = file.string() + " is not imported: " + input.fault;
    return report;
  }
  BundleOpening opening = Bundle::open(std::move(input.file), file);
  std::string fault = opening.bundle ? verify_all(*opening.bundle) : std::move(opening.fault);
  if (!fault.empty()) {
    report.detail = file.string() + " is not imported: " + fault;
    return report;
  }
  for (const BundleRecord& record : opening.bundle->records()) report.bytes += record.bytes;
  publish_all(*opening.bundle, root, report);
  sweep_root(root, {.complete = true});
  report.ok = report.skipped.empty();
  if (!report.ok) report.detail = report.skipped.front().detail;
  return report;
}

}  // namespace tilec::cache

#include "publish.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "entry_format.h"
#include "metadata.h"
#include "store_state.h"
#include "sweep.h"

namespace tilec::cache {

namespace {

constexpr int attempts = 3;

PublishFailure failure_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return PublishFailure::no_space;
    case EFBIG:
      return PublishFailure::too_large;
    case EROFS:
    case EACCES:
    case EPERM:
      return PublishFailure::read_only;
    default:
      return PublishFailure::io_error;
  }
}

// Waiting for the lock would do no good: who holds it is a sweep that takes the file for a
// leftover.
bool keep_locked(int file) {
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  struct stat info {};
  return ::fstat(file, &info) == 0 && info.st_nlink > 0;
}

}  // namespace

TemporaryFile TemporaryFile::create(const Descriptor& folder, mode_t mode) {
  TemporaryFile out;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const std::string name = std::string(temporary_prefix) + random_name();
    out.file_ = GuardedDescriptor(
        [&] { return open_beneath(folder.get(), name, O_WRONLY | O_CREAT | O_EXCL, mode); });
    const int file = out.file_.get();
    if (file < 0) {
      if (errno == EEXIST) continue;
      return out;
    }
    if (!keep_locked(file)) {
      errno = EBUSY;
      continue;
    }
    if (set_mode(file, mode)) {
      out.name_ = name;
      return out;
    }
    const int error = errno;
    struct stat info {};
    if (::fstat(file, &info) == 0) out.wide_mode_ = info.st_mode & 07777;
    ::unlinkat(folder.get(), name.c_str(), 0);
    errno = error;
    return out;
  }
  return out;
}

StagedEntry::StagedEntry(const Root& root, const Key& key, std::string builder, bool sync)
    : root_(&root), renewed_(root.renew()), key_(key), builder_(std::move(builder)), sync_(sync) {
  const std::string name = entry_file_name(key_, builder_);
  result_.path = renewed_.folder->path / name.substr(0, 2) / name;
}

StagedEntry::StagedEntry(StagedEntry&& other) noexcept
    : root_(other.root_),
      renewed_(std::move(other.renewed_)),
      key_(other.key_),
      builder_(std::move(other.builder_)),
      sync_(other.sync_),
      shard_(std::move(other.shard_)),
      temporary_(std::exchange(other.temporary_, {})),
      result_(std::move(other.result_)) {}

StagedEntry::~StagedEntry() {
  // Not committed. A failure leaves a file that the next sweep removes.
  if (temporary_) ::unlinkat(shard_.get(), temporary_.name().c_str(), 0);
}

int StagedEntry::shard() const {
  return key_.bytes[0];
}

bool StagedEntry::fail(const Obstacle& obstacle) {
  result_.failure = obstacle.failure;
  result_.detail = obstacle.what;
  if (temporary_) ::unlinkat(shard_.get(), temporary_.name().c_str(), 0);
  temporary_ = {};
  errno = obstacle.error;
  return false;
}

bool StagedEntry::fail(int error, const char* what) {
  std::string clause(what);
  clause += ' ';
  clause += result_.path.string();
  return fail({error, failure_of(error), clause + " failed: " + write_error_text(error)});
}

StagedEntry::Obstacle StagedEntry::open() {
  const auto not_made = [](int error, const std::filesystem::path& what) {
    return Obstacle{error, failure_of(error),
                    "making " + what.string() + " failed: " + write_error_text(error)};
  };
  if (renewed_.refusal) {
    // As if nothing were there: what another has put in its place may be on its way out.
    return {ENOENT, PublishFailure::read_only, renewed_.text()};
  }
  if (!root_->announce(*renewed_.folder, builder_, sync_)) {
    return not_made(errno, renewed_.folder->path / builders_folder);
  }
  shard_ = root_->make_folder(*renewed_.folder, shard_name(shard()), sync_);
  if (!shard_) return not_made(errno, result_.path.parent_path());
  temporary_ = TemporaryFile::create(shard_, renewed_.folder->file_mode);
  if (temporary_) return {};
  if (temporary_.wide_mode() == 0) return not_made(errno, result_.path);
  const int error = errno;
  const RootFolder& root = *renewed_.folder;
  return {error, PublishFailure::io_error,
          "files in " + root.path.string() + " get mode " + mode_text(temporary_.wide_mode()) +
              ", which can't be made " + mode_text(root.file_mode) + ": " +
              write_error_text(error)};
}

bool StagedEntry::write(std::span<const std::byte> head, std::span<const std::byte> payload) {
  Obstacle obstacle = open();
  if (obstacle.error == ENOENT) {
    // Someone removes folders faster than we make them: once more, from the top.
    renewed_ = root_->renew();
    obstacle = open();
  }
  if (obstacle.error != 0) return fail(obstacle);
  const int file = temporary_.descriptor();
  return (write_all(file, head) && write_all(file, payload)) || fail(errno, "writing");
}

bool StagedEntry::sync_file_bytes() {
  return sync_file(temporary_.descriptor()) || fail(errno, "syncing");
}

bool StagedEntry::commit() {
  const std::string name = entry_file_name(key_, builder_);
  if (::renameat(shard_.get(), temporary_.name().c_str(), shard_.get(), name.c_str()) != 0) {
    return fail(errno, "renaming to");
  }
  temporary_ = {};
  return true;
}

void StagedEntry::sync_folder() const {
  sync_file(shard_.get());
}

Published publish_in(const Root& root, const Key& key, const std::string& builder,
                     std::span<const std::byte> head, std::span<const std::byte> payload) {
  const bool sync = root.settings().sync;
  for (int attempt = 1;; ++attempt) {
    StagedEntry entry(root, key, builder, sync);
    if (entry.write(head, payload) && (!sync || entry.sync_file_bytes()) && entry.commit()) {
      if (sync) entry.sync_folder();
      return entry.result();
    }
    // The temporary file or its folder was removed under our hands.
    if (errno != ENOENT || attempt == attempts) return entry.result();
  }
}

Published Store::publish(const Key& key, const Metadata& metadata,
                         std::span<const std::byte> payload) const {
  const auto refuse = [](PublishFailure failure, std::string detail) {
    return Published{failure, std::move(detail), {}};
  };
  if (!state_->own) return refuse(PublishFailure::no_root, "there is no cache folder");
  const RootSettings& settings = state_->own->settings();
  if (!settings.write) return refuse(PublishFailure::read_only, "the cache folder is read-only");
  std::string wrong = check_metadata(metadata);
  if (wrong.empty()) wrong = check_payload(metadata, payload.data(), payload.size());
  if (!wrong.empty()) return refuse(PublishFailure::invalid, std::move(wrong));

  const std::vector<std::byte> head = encode_entry_head(key, metadata, payload);
  const std::uint64_t bytes = head.size() + payload.size();
  if (payload.size() > max_payload_bytes || head.size() > entry_header_bytes + max_metadata_bytes ||
      (settings.max_bytes != 0 && bytes > settings.max_bytes)) {
    return refuse(PublishFailure::too_large,
                  std::to_string(bytes) + " bytes are more than the cache may hold");
  }
  Published result = publish_in(*state_->own, key, metadata.builder, head, payload);
  if (result) sweep_after_publishing(*state_->own, key.bytes[0]);
  return result;
}

}  // namespace tilec::cache

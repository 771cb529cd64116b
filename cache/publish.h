// Publishing into a root: a temporary file beside its final name, written, synced, renamed. A file
// that is not committed is removed. Staged entries belong to one thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "fork_guard.h"
#include "root.h"

namespace tilec::cache {

// A temporary file, locked as long as its writer lives.
class TemporaryFile {
 public:
  TemporaryFile() = default;
  // In the folder; empty, with errno set, on failure.
  static TemporaryFile create(const Descriptor& folder, mode_t mode);
  TemporaryFile(TemporaryFile&&) noexcept = default;
  TemporaryFile& operator=(TemporaryFile&&) noexcept = default;

  explicit operator bool() const { return !name_.empty(); }
  int descriptor() const { return file_.get(); }
  const std::string& name() const { return name_; }
  // After a failure: the mode that a file gets here and that can't be changed, or 0.
  mode_t wide_mode() const { return wide_mode_; }

 private:
  GuardedDescriptor file_;
  std::string name_;
  mode_t wide_mode_ = 0;
};

class StagedEntry {
 public:
  // `sync`: the folders that have to be made. The file itself waits for sync_file_bytes().
  StagedEntry(const Root& root, const Key& key, std::string builder, bool sync);
  ~StagedEntry();
  StagedEntry(StagedEntry&&) noexcept;
  StagedEntry& operator=(StagedEntry&&) = delete;

  // Each returns false after a failure, which result() then explains; nothing is left behind.
  bool write(std::span<const std::byte> head, std::span<const std::byte> payload);
  bool sync_file_bytes();
  bool commit();
  void sync_folder() const;

  const Published& result() const { return result_; }

 private:
  int shard() const;
  // Why something could not be made; no error if it was.
  struct Obstacle {
    int error = 0;
    PublishFailure failure = PublishFailure::none;
    std::string what{};
  };

  bool fail(const Obstacle& obstacle);
  bool fail(int error, const char* what);
  Obstacle open();

  const Root* root_;
  Root::Renewed renewed_;
  Key key_;
  std::string builder_;
  bool sync_;
  Descriptor shard_;
  TemporaryFile temporary_;
  Published result_;
};

Published publish_in(const Root& root, const Key& key, const std::string& builder,
                     std::span<const std::byte> head, std::span<const std::byte> payload);

}  // namespace tilec::cache

#include "lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "bytes.h"
#include "store_state.h"

namespace tilec::cache {

namespace {

constexpr std::size_t stripe_count = 16;

std::string stripe_name(const Key& key) {
  static constexpr char digits[] = "0123456789abcdef";
  return std::string(1, digits[key.bytes[8] % stripe_count]);
}

std::int64_t byte_offset(const Key& key) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < 8; ++i) bits = bits << 8 | key.bytes[i];
  return static_cast<std::int64_t>(bits >> 2);  // below the largest offset a lock may have
}

std::string no_lock_text(const RootFolder& folder, int error) {
  return "no lock in " + (folder.path / locks_folder).string() + ": " + write_error_text(error);
}

}  // namespace

Descriptor open_lock_file(const Root& root, const RootFolder& folder, const std::string& name) {
  Descriptor file =
      open_beneath(folder.descriptor.get(), std::string(locks_folder) + "/" + name, O_RDWR);
  if (file) return file;
  const Descriptor locks = root.make_folder(folder, locks_folder, false);
  if (!locks) return file;
  file = open_beneath(locks.get(), name, O_RDWR | O_CREAT, folder.file_mode);
  if (file) set_mode(file.get(), folder.file_mode);  // an empty file: any mode will do
  return file;
}

KeyLock::KeyLock(const Root& root, const RootFolder& folder, const Key& key)
    : file_([&] { return open_lock_file(root, folder, stripe_name(key)); }),
      offset_(byte_offset(key)) {
  if (file_.get() < 0) error_ = errno;
}

LockState KeyLock::try_lock() {
  const int file = file_.get();
  if (file < 0) {
    if (error_ == 0) error_ = EBADF;
    return LockState::unavailable;
  }
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = offset_;
  range.l_len = 1;
  int result;
  do {
    result = ::fcntl(file, F_OFD_SETLK, &range);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return LockState::held;
  if (errno == EAGAIN || errno == EACCES) return LockState::busy;
  error_ = errno;
  return LockState::unavailable;
}

BuildLock::BuildLock(BuildLock&& other) noexcept
    : ticket_(std::exchange(other.ticket_, 0)),
      waited_(other.waited_),
      why_not_(std::move(other.why_not_)) {}

BuildLock& BuildLock::operator=(BuildLock&& other) noexcept {
  if (this != &other) {
    const GuardedDescriptor old =
        GuardedDescriptor::adopt(std::exchange(ticket_, std::exchange(other.ticket_, 0)));
    waited_ = other.waited_;
    why_not_ = std::move(other.why_not_);
  }
  return *this;
}

BuildLock::~BuildLock() {
  GuardedDescriptor::adopt(ticket_);
}

bool BuildLock::held() const {
  GuardedDescriptor file = GuardedDescriptor::adopt(ticket_);
  const bool open = file.get() >= 0;
  file.release();
  return open;
}

BuildLock Store::lock(const Key& key, std::chrono::milliseconds wait) const {
  BuildLock out;
  if (!state_->own || !state_->own->settings().write) {
    out.why_not_ = "no cache folder that can be written";
    return out;
  }
  const Root::Folder folder = state_->own->renew().folder;
  KeyLock lock(*state_->own, *folder, key);
  const auto deadline = std::chrono::steady_clock::now() + wait;
  std::chrono::milliseconds pause{1};
  for (;;) {
    switch (lock.try_lock()) {
      case LockState::held:
        out.ticket_ = lock.release().release();
        return out;
      case LockState::unavailable:
        out.why_not_ = no_lock_text(*folder, lock.error());
        return out;
      case LockState::busy:
        break;
    }
    out.waited_ = true;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      out.why_not_ = "another process has been building it for longer than the wait allows";
      return out;
    }
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(2 * pause, std::chrono::milliseconds(20));
  }
}

}  // namespace tilec::cache

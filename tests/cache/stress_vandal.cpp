#include "stress_vandal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tilec::cache::test {

Vandal::Vandal(fs::path root, bool own_disk, unsigned seed)
    : root_(std::move(root)), own_disk_(own_disk), random_(seed) {}

void Vandal::strike() {
  ++strikes_;
  if (own_disk_ && filler_turns_ > 0 && --filler_turns_ == 0) fs::remove(filler(), ignored_);
  const fs::path shard = any_of(root_, true);
  const fs::path entry = any_of(shard, false);
  switch (random_() % 40) {
    case 0:
      if (own_disk_) fill_disk();
      break;
    case 1:
      fs::remove_all(shard, ignored_);
      break;
    case 2:
      fs::remove_all(root_ / "builders", ignored_);
      break;
    case 3:
      damage(root_ / "usage");
      break;
    case 4:
      fs::rename(shard, root_ / "away", ignored_);
      fs::remove_all(root_ / "away", ignored_);
      break;
    case 5:
      ::chmod(shard.c_str(), random_() % 2 == 0 ? 0 : 0755);
      break;
    default:
      if (!entry.empty()) damage_entry(entry);
  }
}

void Vandal::tidy() {
  fs::remove(filler(), ignored_);
  // What can't be looked into can't be told from what is clean.
  fs::directory_iterator each(root_, ignored_);
  for (; !ignored_ && each != fs::directory_iterator(); each.increment(ignored_)) {
    if (each->is_directory(ignored_)) ::chmod(each->path().c_str(), 0700);
  }
}

fs::path Vandal::any_of(const fs::path& folder, bool shards) {
  std::vector<fs::path> all;
  fs::directory_iterator each(folder, ignored_);
  for (; !ignored_ && each != fs::directory_iterator(); each.increment(ignored_)) {
    if (!shards || each->path().filename().string().size() == 2) all.push_back(each->path());
  }
  return all.empty() ? fs::path() : all[random_() % all.size()];
}

void Vandal::damage(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW);
  struct stat info {};
  if (file < 0) return;
  if (::fstat(file, &info) == 0 && info.st_size > 0) {
    const off_t at = static_cast<off_t>(random_() % static_cast<std::uint64_t>(info.st_size));
    unsigned char byte = 0;
    if (::pread(file, &byte, 1, at) == 1) {
      byte = static_cast<unsigned char>(byte ^ 1u << (random_() % 8));
      static_cast<void>(::pwrite(file, &byte, 1, at) == 1);
    }
  }
  ::close(file);
}

void Vandal::damage_entry(const fs::path& entry) {
  switch (random_() % 6) {
    case 0:
      damage(entry);
      break;
    case 1: {
      const auto size = fs::file_size(entry, ignored_);
      if (!ignored_)
        static_cast<void>(::truncate(entry.c_str(), static_cast<off_t>(random_() % (size + 1))) ==
                          0);
      break;
    }
    case 2:
      fs::remove(entry, ignored_);
      break;
    case 3:
      ::chmod(entry.c_str(), random_() % 2 == 0 ? 0 : 0666);
      break;
    case 4: {
      const fs::path other = any_of(any_of(root_, true), false);
      if (!other.empty()) fs::rename(entry, other, ignored_);
      break;
    }
    default: {
      const int file = ::open(entry.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW);
      if (file < 0) return;
      static_cast<void>(::write(file, "more", 4) == 4);
      ::close(file);
    }
  }
}

void Vandal::fill_disk() {
  const int file = ::open(filler().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const std::string block(1 << 16, 'x');
  while (::write(file, block.data(), block.size()) == static_cast<ssize_t>(block.size())) {
  }
  ::close(file);
  filler_turns_ = 10;
}

}  // namespace tilec::cache::test

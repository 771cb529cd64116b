#include "sweep.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <thread>

#include "bytes.h"
#include "fork_guard.h"
#include "lock.h"
#include "store_state.h"

namespace tilec::cache {

namespace {

constexpr const char* sweep_lock = "sweep";
constexpr std::array<std::uint8_t, 8> usage_magic = {0x8e, 'T', 'L', 'C', 'U', '\r', '\n', 1};
constexpr std::size_t usage_head_bytes = 16;  // magic, u32 next shard, u32 zero
constexpr std::size_t usage_bytes = usage_head_bytes + std::size_t{8} * shard_count;
constexpr std::size_t step_entries = 4096;

// A writer needs seconds. Where locks can't tell whether it lives, a temporary file must be older.
constexpr std::chrono::hours dead_without_lock{1};
// After its last use an entry counts as in use for so long.
constexpr std::chrono::minutes use_lasts{10};

struct Usage {
  int next_shard = 0;
  std::array<std::uint64_t, shard_count> bytes{};

  double total() const {
    return std::accumulate(bytes.begin(), bytes.end(), 0.0, [](double sum, std::uint64_t each) {
      return sum + static_cast<double>(each);
    });
  }
};

struct File {
  int shard;
  std::string name;
  std::uint64_t bytes;
  std::int64_t used;  // nanoseconds
};

struct Shard {
  std::vector<File> entries;
  std::uint64_t bytes = 0;
  std::uint64_t temporary_files = 0;
  std::uint64_t removed_temporary_files = 0;
  int error = 0;  // why it could not be read
};

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool is_usage(const Descriptor& file) {
  std::array<std::byte, usage_magic.size()> start{};
  return read_at(file.get(), 0, start) == static_cast<std::ptrdiff_t>(start.size()) &&
         std::memcmp(start.data(), usage_magic.data(), start.size()) == 0;
}

// Empty where something else lies in its place, which is left alone: then there are no counts. What
// has our size is ours and damaged.
Descriptor open_usage(const Root& root, const RootFolder& folder) {
  Descriptor file =
      open_beneath(folder.descriptor.get(), usage_file, O_RDWR | O_CREAT, folder.file_mode);
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Descriptor();
  if (info.st_size != 0 && info.st_size != usage_bytes && !is_usage(file)) return Descriptor();
  // Hints only, so any mode will do.
  if (root.settings().trust == Trust::shared) set_mode(file.get(), folder.file_mode);
  return file;
}

Usage read_usage(const Descriptor& file) {
  std::array<std::byte, usage_bytes> raw{};
  Usage usage;
  if (!file || !is_usage(file) ||
      read_at(file.get(), 0, raw) != static_cast<std::ptrdiff_t>(raw.size())) {
    return usage;
  }
  usage.next_shard = static_cast<int>(load_number<std::uint32_t>(raw.data() + 8) % shard_count);
  for (std::size_t i = 0; i < shard_count; ++i) {
    usage.bytes[i] = load_number<std::uint64_t>(raw.data() + usage_head_bytes + 8 * i);
  }
  return usage;
}

void write_usage(const Descriptor& file, const Usage& usage) {
  if (!file) return;
  std::array<std::byte, usage_bytes> raw{};
  std::memcpy(raw.data(), usage_magic.data(), usage_magic.size());
  store_number(raw.data() + 8, static_cast<std::uint32_t>(usage.next_shard));
  for (std::size_t i = 0; i < shard_count; ++i)
    store_number(raw.data() + usage_head_bytes + 8 * i, usage.bytes[i]);
  write_all_at(file.get(), 0, raw);  // what is not kept is counted again
}

// Of the `shards` before usage.next_shard; the others may have changed meanwhile.
void keep_counts(const Descriptor& file, const Usage& usage, int shards) {
  Usage now = read_usage(file);
  now.next_shard = usage.next_shard;
  for (int back = 1; back <= shards; ++back) {
    const auto index =
        static_cast<std::size_t>((usage.next_shard - back + shard_count) % shard_count);
    now.bytes[index] = usage.bytes[index];
  }
  write_usage(file, now);
}

// True if the file's writer is gone and it was removed.
bool remove_leftover(const Descriptor& shard, const std::string& name, std::chrono::seconds age,
                     std::chrono::seconds least_age) {
  if (age < least_age) return false;
  const GuardedDescriptor file([&] { return open_beneath(shard.get(), name, O_RDONLY); });
  if (file.get() < 0 && errno == ENOENT) return false;
  if (file.get() < 0 || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (file.get() >= 0 && errno == EWOULDBLOCK) return false;
    if (age < dead_without_lock) return false;
  }
  return ::unlinkat(shard.get(), name.c_str(), 0) == 0;
}

struct ScanOptions {
  bool remove_leftovers = false;
  std::chrono::seconds temporary_age{60};
};

Shard scan_shard(const RootFolder& root, int index, const ScanOptions& options) {
  Shard out;
  const Descriptor folder =
      open_beneath(root.descriptor.get(), shard_name(index), O_RDONLY | O_DIRECTORY);
  const auto names = folder ? names_in(folder.get()) : std::nullopt;
  if (!names) {
    if (errno != ENOENT) out.error = errno;
    return out;
  }
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  for (const std::string& name : *names) {
    struct stat info {};
    if (::fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const std::int64_t used = std::min(nanoseconds(info.st_mtim), now);
    if (is_temporary_name(name) && S_ISREG(info.st_mode)) {
      const std::chrono::seconds age((now - used) / 1'000'000'000);
      if (options.remove_leftovers && remove_leftover(folder, name, age, options.temporary_age)) {
        ++out.removed_temporary_files;
      } else {
        ++out.temporary_files;
      }
    } else if (S_ISREG(info.st_mode) && parse_entry_file_name(name)) {
      const auto bytes = static_cast<std::uint64_t>(info.st_size);
      out.entries.push_back(File{index, name, bytes, used});
      out.bytes += bytes;
    }
  }
  return out;
}

// Nothing if another process sweeps. A complete sweep was asked for by a person, who can wait.
std::optional<GuardedDescriptor> take_sweep_lock(const Root& root, const RootFolder& folder,
                                                 std::chrono::milliseconds wait) {
  GuardedDescriptor lock([&] { return open_lock_file(root, folder, sweep_lock); });
  // Where no lock can be had, the bound still holds: sweeping twice at a time does no harm.
  constexpr std::chrono::milliseconds pause{10};
  while (lock.get() >= 0 && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (wait <= pause) return std::nullopt;
    std::this_thread::sleep_for(pause);
    wait -= pause;
  }
  return lock;
}

struct Sample {
  std::vector<File> files;
  double bytes = 0;
  int shards = 0;
};

// Whole shards from usage.next_shard on; counts them on the way.
Sample take_sample(const RootFolder& folder, Usage& usage, const SweepOptions& options,
                   Swept& swept) {
  Sample sample;
  while (sample.shards < shard_count && (options.complete || sample.files.size() < step_entries)) {
    const int index = usage.next_shard;
    Shard shard = scan_shard(folder, index, {true, options.temporary_age});
    if (shard.error != 0) {
      swept.kept.push_back(unread(folder.path / shard_name(index), shard.error));
    }
    usage.bytes[static_cast<std::size_t>(index)] = shard.bytes;
    usage.next_shard = (index + 1) % shard_count;
    sample.bytes += static_cast<double>(shard.bytes);
    swept.removed_temporary_files += shard.removed_temporary_files;
    swept.scanned_entries += shard.entries.size();
    std::ranges::move(shard.entries, std::back_inserter(sample.files));
    ++sample.shards;
  }
  return sample;
}

// What must be left at most, and what a step would rather leave.
struct Goal {
  double most, wished;
};

// For a wish nothing goes that is in use now: it may be one of many that are being built or fetched,
// and that the bound has room for.
void remove_oldest(const RootFolder& folder, Sample& sample, const Goal& goal, bool keep_newest,
                   Usage& usage, Swept& swept) {
  std::ranges::sort(sample.files, [](const File& a, const File& b) {
    return a.used != b.used ? a.used < b.used : a.name < b.name;
  });
  if (keep_newest && !sample.files.empty()) sample.files.pop_back();
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t in_use = nanoseconds(now) - std::chrono::nanoseconds(use_lasts).count();
  double left = sample.bytes;
  for (const File& file : sample.files) {
    if (left <= (file.used > in_use ? goal.most : goal.wished)) break;
    const Descriptor shard =
        open_beneath(folder.descriptor.get(), shard_name(file.shard), O_RDONLY | O_DIRECTORY);
    if (!shard || (::unlinkat(shard.get(), file.name.c_str(), 0) != 0 && errno != ENOENT)) {
      const int error = errno;
      swept.kept.push_back(unremoved(folder.path / shard_name(file.shard) / file.name, error));
      continue;
    }
    left -= static_cast<double>(file.bytes);
    usage.bytes[static_cast<std::size_t>(file.shard)] -= file.bytes;
    ++swept.removed_entries;
    swept.removed_bytes += file.bytes;
  }
}

}  // namespace

Swept sweep_root(const Root& root, const SweepOptions& options, int start) {
  Swept swept;
  const Root::Renewed now = root.renew();
  const Root::Folder& folder = now.folder;
  if (now.refusal) {
    swept.kept.push_back(not_used(now));
    return swept;
  }
  const auto lock = take_sweep_lock(root, *folder, std::chrono::seconds(options.complete ? 10 : 0));
  if (!lock) return swept;
  swept.ran = true;

  const Descriptor file = open_usage(root, *folder);
  Usage usage = read_usage(file);
  if (!file) usage.next_shard = start;
  Sample sample = take_sample(*folder, usage, options, swept);
  const bool all = sample.shards == shard_count;
  // The counts may be anything; never believe them over what the sample shows.
  const double shown = sample.bytes * shard_count / sample.shards;
  const double total = all || !file ? shown : std::min(usage.total(), shown);
  const auto bound = static_cast<double>(options.max_bytes.value_or(root.settings().max_bytes));
  if (bound != 0 && total > bound) {
    const double most = all ? bound : sample.bytes * bound / total;
    // A step goes a little further than it must, so that not every publishing needs one.
    const Goal goal{.most = most, .wished = options.complete ? most : most * 0.9};
    remove_oldest(*folder, sample, goal, all && !options.complete, usage, swept);
  }
  keep_counts(file, usage, sample.shards);
  const double left =
      all || file ? usage.total() : total - static_cast<double>(swept.removed_bytes);
  swept.bytes_left = static_cast<std::uint64_t>(left);
  return swept;
}

void sweep_after_publishing(const Root& root, int shard) {
  const Root::Folder folder = root.folder();
  const Shard counted = scan_shard(*folder, shard, {true, SweepOptions{}.temporary_age});
  const Descriptor file = open_usage(root, *folder);
  Usage usage = read_usage(file);
  if (usage.total() == 0.0) write_usage(file, usage);
  usage.bytes[static_cast<std::size_t>(shard)] = counted.bytes;
  if (file) {
    std::byte raw[8];
    store_number(raw, counted.bytes);
    write_all_at(file.get(), usage_head_bytes + 8 * static_cast<std::size_t>(shard), raw);
  }
  // With no counts to be had, one shard stands for all.
  const double total = file ? usage.total() : static_cast<double>(counted.bytes) * shard_count;
  const std::uint64_t bound = root.settings().max_bytes;
  if (bound != 0 && total > static_cast<double>(bound)) sweep_root(root, {}, shard);
}

bool has_usage(const RootFolder& folder) {
  const Descriptor file = open_beneath(folder.descriptor.get(), usage_file, O_RDONLY);
  return file && is_usage(file);
}

Totals count_root(const Root& root) {
  Totals out;
  const Root::Folder folder = root.renew().folder;
  for (int index = 0; index < shard_count; ++index) {
    const Shard shard = scan_shard(*folder, index, {});
    out.entries += shard.entries.size();
    out.bytes += shard.bytes;
    out.temporary_files += shard.temporary_files;
  }
  return out;
}

}  // namespace tilec::cache

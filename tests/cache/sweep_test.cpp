// The bound on the size, the order of removal, and what killed writers leave.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "doctest/doctest.h"
#include "entry_format.h"
#include "support.h"

namespace tilec::cache::test {
namespace {

constexpr std::size_t entry_bytes = 2000;

// An entry of exactly entry_bytes.
Bytes filling(unsigned number) {
  static const std::size_t around = [] {
    TemporaryFolder folder;
    REQUIRE(Store(quick(folder / "root")).publish(key_of(0), cubin_metadata(), cubin(100)));
    return fs::file_size(entry_path(folder / "root", key_of(0))) - 100;
  }();
  return cubin(entry_bytes - around, number);
}

StoreOptions bounded(const fs::path& root, std::uint64_t entries) {
  StoreOptions options = quick(root);
  options.max_bytes = entries * entry_bytes;
  options.touch_after = std::chrono::seconds(0);
  return options;
}

void set_age(const fs::path& path, std::chrono::seconds age) {
  timespec times[2]{};
  ::clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= age.count();
  times[1] = times[0];
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

// A root with the entries 0 … count - 1, the first the oldest. Publishing them all would take its
// time.
void fill_root(const fs::path& root, unsigned count) {
  REQUIRE(Store(quick(root)).publish(key_of(0), cubin_metadata(), filling(0)));
  for (unsigned number = 0; number < count; ++number) {
    const fs::path path = entry_path(root, key_of(number));
    fs::create_directories(path.parent_path());
    const Bytes payload = filling(number);
    Bytes entry = encode_entry_head(key_of(number), cubin_metadata(), payload);
    entry.insert(entry.end(), payload.begin(), payload.end());
    write_file(path, entry);
    set_age(path, std::chrono::seconds(2 * count - number));
  }
}

TEST_SUITE("cpu tsan") {
  TEST_CASE("the least recently used go first") {
    TemporaryFolder folder;
    const Store store(bounded(folder / "root", 10));
    for (unsigned number = 0; number < 10; ++number) {
      REQUIRE(store.publish(key_of(number), cubin_metadata(), filling(number)));
      set_age(entry_path(folder / "root", key_of(number)), std::chrono::seconds(1000 - number));
    }
    CHECK(store.totals().bytes == 10 * entry_bytes);
    CHECK(store.look_up(key_of(0)));  // is renewed
    REQUIRE(store.publish(key_of(10), cubin_metadata(), filling(10)));
    CHECK(store.totals().entries == 9);
    for (unsigned number = 0; number <= 10; ++number) {
      CAPTURE(number);
      CHECK(store.peek(key_of(number)).has_value() == (number != 1 && number != 2));
    }
  }

  TEST_CASE("what the bound has room for and is in use stays, whatever a step would rather leave") {
    TemporaryFolder folder;
    const Store store(bounded(folder / "root", 20));
    for (unsigned number = 0; number < 3; ++number) {
      REQUIRE(store.publish(key_of(number), cubin_metadata(), filling(number)));
      set_age(entry_path(folder / "root", key_of(number)), std::chrono::seconds(1000 - number));
    }
    for (unsigned number = 3; number < 23; ++number) {
      REQUIRE(store.publish(key_of(number), cubin_metadata(), filling(number)));
    }
    CHECK(store.totals().entries == 20);
    for (unsigned number = 3; number < 23; ++number) CHECK(store.peek(key_of(number)));
    REQUIRE(store.publish(key_of(23), cubin_metadata(), filling(23)));
    CHECK(store.totals().entries == 20);  // no more than it must
  }

  TEST_CASE("a hit renews the last use only when that is due") {
    TemporaryFolder folder;
    StoreOptions options = quick(folder / "root");
    options.touch_after = std::chrono::seconds(100);
    const Store store(options);
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    const fs::path path = entry_path(folder / "root", key_of(1));
    set_age(path, std::chrono::seconds(50));
    const auto recent = fs::last_write_time(path);
    CHECK(store.look_up(key_of(1)));
    CHECK(fs::last_write_time(path) == recent);
    for (const int age : {200, -200}) {
      set_age(path, std::chrono::seconds(age));
      const auto off = fs::last_write_time(path);
      CHECK(store.look_up(key_of(1)));
      CHECK(fs::last_write_time(path) != off);
    }
  }

  TEST_CASE("the bound holds, whatever the counts say") {
    for (const char* damage : {"none", "removed", "random", "huge", "short", "folder"}) {
      CAPTURE(damage);
      TemporaryFolder folder;
      const Store store(bounded(folder / "root", 20));
      const fs::path usage = folder / "root/usage";
      const std::string what = damage;
      std::mt19937 random(1);
      for (unsigned number = 0; number < 60; ++number) {
        REQUIRE(store.publish(key_of(number), cubin_metadata(), filling(number)));
        CHECK(store.peek(key_of(number)));
        const Totals totals = store.totals();
        // Damaged counts may be noticed late, but never by throwing half the cache away.
        CHECK(totals.entries <= (what == "none" ? 20 : 60));
        CHECK(totals.entries >= std::min(number + 1, 17u));
        if (number % 7 != 0) continue;
        if (what == "removed" || what == "folder") fs::remove_all(usage);
        if (what == "folder") fs::create_directory(usage);
        if (what == "short") write_text(usage, "short");
        if (what == "random" || what == "huge") {
          Bytes bytes = read_file(usage);
          REQUIRE(bytes.size() == 16 + 256 * 8);
          for (std::size_t i = what == "huge" ? 16 : 0; i < bytes.size(); ++i) {
            bytes[i] = static_cast<std::byte>(what == "huge" ? 0xff : random());
          }
          write_file(usage, bytes);
        }
      }
      const Swept swept = store.sweep({.complete = true});
      CHECK(swept.ran);
      CHECK(store.totals().bytes <= 20 * entry_bytes);
      CHECK(store.totals().bytes == swept.bytes_left);
      CHECK(store.verify(false).damaged.empty());
    }
  }

  TEST_CASE("pruning on demand") {
    TemporaryFolder folder;
    const Store store(bounded(folder / "root", 0));
    for (unsigned number = 0; number < 30; ++number) {
      REQUIRE(store.publish(key_of(number), cubin_metadata(), filling(number)));
      set_age(entry_path(folder / "root", key_of(number)), std::chrono::seconds(1000 - number));
    }
    CHECK(store.sweep().removed_entries == 0);
    const Swept swept = store.sweep({.max_bytes = 5 * entry_bytes, .complete = true});
    CHECK(swept.removed_entries == 25);
    CHECK(swept.removed_bytes == 25 * entry_bytes);
    CHECK(swept.scanned_entries == 30);
    CHECK(swept.bytes_left == 5 * entry_bytes);
    for (unsigned number = 25; number < 30; ++number) CHECK(store.look_up(key_of(number)));
    // 0 is no bound here, as it is for the store.
    const Store tight(bounded(folder / "root", 1));
    CHECK(tight.sweep({.max_bytes = 0, .complete = true}).removed_entries == 0);
    CHECK(tight.sweep({.complete = true}).removed_entries == 4);
  }

  TEST_CASE("one process sweeps") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    CHECK(store.sweep().ran);
    const int busy = ::open((folder / "root/locks/sweep").c_str(), O_RDWR);
    REQUIRE(::flock(busy, LOCK_EX) == 0);
    CHECK_FALSE(store.sweep().ran);
    ::close(busy);
    CHECK(store.sweep().ran);
  }

  TEST_CASE("the bound holds where nothing can be locked or counted") {
    for (const char* in_the_way : {"locks", "usage"}) {
      CAPTURE(in_the_way);
      TemporaryFolder folder;
      const Store store(bounded(folder / "root", 10));
      write_text(folder / "precious", "precious");
      fs::create_symlink(folder / "precious", folder / "root" / in_the_way);
      for (unsigned number = 0; number < 30; ++number) {
        REQUIRE(store.publish(key_of(number), cubin_metadata(), filling(number)));
        CHECK(store.totals().bytes <= 10 * entry_bytes);
      }
      CHECK(store.sweep({.complete = true}).ran);
      CHECK(fs::is_symlink(folder / "root" / in_the_way));
      CHECK(read_file(folder / "precious").size() == 8);
    }
  }

  TEST_CASE("temporary files of the dead and of the living") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    const fs::path shard = entry_path(folder / "root", key_of(1)).parent_path();
    const fs::path dead = shard / ".tmp-0123456789abcdef0123456789abcdef";
    const fs::path living = shard / ".tmp-1123456789abcdef0123456789abcdef";
    const fs::path young = shard / ".tmp-2123456789abcdef0123456789abcdef";
    for (const fs::path& each : {dead, living, young}) write_text(each, "half an entry");
    set_age(dead, std::chrono::seconds(90));
    set_age(living, std::chrono::hours(2));
    const int writer = ::open(living.c_str(), O_WRONLY);
    REQUIRE(::flock(writer, LOCK_EX) == 0);
    const fs::path not_ours = shard / ".tmp-notes";
    write_text(not_ours, "notes");
    set_age(not_ours, std::chrono::hours(2));
    CHECK(store.totals().temporary_files == 3);
    CHECK(store.sweep().removed_temporary_files == 1);
    CHECK_FALSE(fs::exists(dead));
    CHECK(fs::exists(living));
    CHECK(fs::exists(young));
    CHECK(store.sweep({.temporary_age = std::chrono::seconds(0)}).removed_temporary_files == 1);
    CHECK_FALSE(fs::exists(young));
    CHECK(fs::exists(not_ours));
    ::close(writer);
    write_text(dead, "half an entry");
    set_age(dead, std::chrono::seconds(90));
    // Whoever publishes beside them finds them too.
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    CHECK(store.totals().temporary_files == 0);
    CHECK(store.totals().entries == 1);
  }
}

TEST_SUITE("cpu") {
  TEST_CASE("a large cache is swept in steps, oldest first on the whole") {
    TemporaryFolder folder;
    constexpr unsigned count = 6000;
    fill_root(folder / "root", count);
    const auto damage_counts = [&] {
      Bytes usage = read_file(folder / "root/usage");
      std::fill(usage.begin() + 16, usage.end(), std::byte{0xff});
      write_file(folder / "root/usage", usage);
    };
    damage_counts();
    const Store roomy(bounded(folder / "root", 2 * count));
    REQUIRE(roomy.publish(key_of(count), cubin_metadata(), filling(count)));
    CHECK(roomy.totals().entries == count + 1);

    damage_counts();
    const Store store(bounded(folder / "root", count));
    REQUIRE(store.publish(key_of(count), cubin_metadata(), filling(count)));
    const Totals totals = store.totals();
    const std::uint64_t removed = count + 1 - totals.entries;
    CHECK(removed > 200);         // a step's part of a tenth
    CHECK(removed < count / 10);  // not all of it
    std::uint64_t young = 0;
    for (unsigned number = count / 5; number <= count; ++number)
      young += store.peek(key_of(number)) ? 0 : 1;
    CHECK(young == 0);
    CHECK(store.sweep({.complete = true}).removed_entries == 0);
    CHECK(store.sweep({.max_bytes = 100 * entry_bytes, .complete = true}).removed_entries ==
          totals.entries - 100);
    CHECK(store.look_up(key_of(count)));
  }

  TEST_CASE("a large cache that can't be counted comes under the bound in a few steps") {
    TemporaryFolder folder;
    constexpr unsigned count = 6000;
    fill_root(folder / "root", count);
    write_text(folder / "root/usage", "someone's notes");
    constexpr unsigned bound = 4500;  // more than a step looks at
    const Store store(bounded(folder / "root", bound));
    for (unsigned number = count; number < count + 20; ++number) {
      REQUIRE(store.publish(key_of(number), cubin_metadata(), filling(number)));
    }
    const std::uint64_t left = store.totals().entries;
    CAPTURE(left);
    CHECK(left <= bound + bound / 20);
    CHECK(left >= bound - bound / 5);
    CHECK(read_file(folder / "root/usage").size() == 15);
  }
}

}  // namespace
}  // namespace tilec::cache::test

// Folders and files that are not what they should be: no exception, no harm, a reason.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctest/doctest.h"
#include "support.h"
#include "tests/support/skip.h"

namespace tilec::cache::test {
namespace {

mode_t mode_of(const fs::path& path) {
  struct stat info {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

bool mentions(const std::vector<std::string>& problems, const std::string& text) {
  for (const std::string& each : problems) {
    if (each.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST_SUITE("cpu tsan") {
  TEST_CASE("a root that can't be made") {
    TemporaryFolder folder;
    write_text(folder / "file", "not a folder");
    for (const fs::path& root :
         {folder / "file", folder / "file/below", fs::path("/proc/cache/of/tilec"),
          folder / std::string(300, 'x')}) {
      CAPTURE(root);
      StoreOptions options = quick(root);
      options.root_hint = "set THE_VARIABLE";
      const Store store(options);
      REQUIRE(store.problems().size() == 1);
      CHECK(mentions(store.problems(), root.string()));
      CHECK(mentions(store.problems(), "set THE_VARIABLE"));
      CHECK_FALSE(store.writable());
      CHECK(store.publish(key_of(1), cubin_metadata(), cubin()).failure == PublishFailure::no_root);
      CHECK(store.look_up(key_of(1)).misses.front().reason == MissReason::no_root);
      CHECK_FALSE(store.lock(key_of(1), {}).held());
      CHECK_FALSE(store.sweep().ran);
      CHECK(store.totals().entries == 0);
      CHECK_FALSE(store.import_bundle(folder / "file").ok);
    }
  }

  TEST_CASE("what lies where an entry should") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    const fs::path path = entry_path(folder / "root", key_of(1));
    const auto miss = [&] {
      const LookUp found = store.look_up(key_of(1));
      REQUIRE(found.misses.size() == 1);
      CHECK_FALSE(found.misses.front().removed);
      CHECK(fs::exists(fs::symlink_status(path)));
      return found.misses.front().reason;
    };
    fs::remove(path);
    fs::create_directory(path);
    CHECK(miss() == MissReason::io_error);
    CHECK(store.publish(key_of(1), cubin_metadata(), cubin()).failure == PublishFailure::io_error);
    CHECK(leftovers(folder / "root").empty());
    CHECK(store.totals().entries == 0);
    fs::remove(path);

    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(miss() == MissReason::io_error);
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    CHECK(store.look_up(key_of(1)));
    fs::remove(path);

    write_text(folder / "outside", "precious");
    fs::create_symlink(folder / "outside", path);
    CHECK(miss() == MissReason::untrusted);
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    CHECK(store.look_up(key_of(1)));
    CHECK(read_file(folder / "outside").size() == 8);
    CHECK_FALSE(fs::is_symlink(path));
  }

  TEST_CASE("a good entry behind a link is not followed") {
    TemporaryFolder folder;
    const Store other(quick(folder / "other"));
    REQUIRE(other.publish(key_of(1), cubin_metadata(), cubin()));
    const std::string shard = key_of(1).hex().substr(0, 2);
    const Store store(quick(folder / "root"));
    REQUIRE(store.publish(key_of(2), cubin_metadata(), cubin()));
    fs::create_directory_symlink(folder / "other" / shard, folder / "root" / shard);
    const LookUp found = store.look_up(key_of(1));
    REQUIRE(found.misses.size() == 1);
    CHECK(found.misses.front().reason == MissReason::untrusted);
    CHECK(store.totals().entries == 1);
    CHECK(store.discard(key_of(1)) == 0);
    CHECK(store.clear().removed == 1);

    const Published refused = store.publish(key_of(1), cubin_metadata("nvrtc-14.0.1"), cubin());
    CHECK(refused.failure == PublishFailure::io_error);
    CHECK(refused.detail.find((folder / "root" / shard).string() + " failed: something that is not "
                                                                   "a folder lies there") !=
          std::string::npos);
    CHECK(fs::is_symlink(folder / "root" / shard));
    CHECK(other.totals().entries == 1);
    CHECK(other.look_up(key_of(1)).entry->metadata.builder == "nvrtc-13.0.88");
  }

  TEST_CASE("files, links and folders in place of the cache's own are never removed") {
    for (const std::string name : {"builders", "locks", "usage", "shard"}) {
      for (const std::string what : {"file", "link", "folder"}) {
        CAPTURE(name);
        CAPTURE(what);
        TemporaryFolder folder;
        CHECK(Store(quick(folder / "root")).problems().empty());
        fs::create_directories(folder / "outside");
        const std::string part = name == "shard" ? key_of(1).hex().substr(0, 2) : name;
        const fs::path place = folder / "root" / part;
        if (what == "file") write_text(place, "in the way");
        if (what == "link") fs::create_directory_symlink(folder / "outside", place);
        if (what == "folder") fs::create_directories(place);
        const bool fits = what == "folder" || name == "usage";
        const Store store(quick(folder / "root"));
        CHECK(store.problems().empty());
        CHECK_FALSE(store.look_up(key_of(1)));
        const BuildLock lock = store.lock(key_of(1), {});
        CHECK(lock.held() == (fits || name != "locks"));
        if (!lock.held()) CHECK(lock.why_not().find("not a folder") != std::string::npos);
        const Published published = store.publish(key_of(1), cubin_metadata(), cubin());
        CHECK(static_cast<bool>(published) == (fits || name == "locks"));
        if (!published) {
          CHECK(published.failure == PublishFailure::io_error);
          CHECK(published.detail == "making " + place.string() +
                                        " failed: something that is not a folder lies there; "
                                        "move it away");
        }
        CHECK(static_cast<bool>(store.look_up(key_of(1))) == static_cast<bool>(published));
        store.clear();
        store.sweep({.max_bytes = 1, .complete = true, .temporary_age = std::chrono::seconds(0)});
        CHECK(fs::is_symlink(place) == (what == "link"));
        if (what == "file" && name != "usage") CHECK(read_file(place).size() == 10);
        if (what == "folder") CHECK(fs::is_directory(place));
        CHECK(fs::is_empty(folder / "outside"));
      }
    }
  }

  TEST_CASE("modes do not depend on the umask") {
    for (const mode_t mask : {0000u, 0022u, 0777u}) {
      CAPTURE(mask);
      TemporaryFolder folder;
      const mode_t old = ::umask(mask);
      {
        const Store store(quick(folder / "a/root"));
        CHECK(store.problems().empty());
        CHECK(store.publish(key_of(1), cubin_metadata(), cubin()));
        CHECK(store.lock(key_of(1), {}).held());
        CHECK(store.look_up(key_of(1)));
      }
      ::umask(old);
      CHECK(mode_of(folder / "a") == 0700);
      CHECK(mode_of(folder / "a/root") == 0700);
      for (const auto& each : fs::recursive_directory_iterator(folder / "a/root")) {
        CAPTURE(each.path());
        CHECK((mode_of(each.path()) & 0077) == 0);
        if (each.is_directory()) CHECK(mode_of(each.path()) == 0700);
      }
      CHECK(mode_of(entry_path(folder / "a/root", key_of(1))) == 0600);
    }
  }

  TEST_CASE("no descriptor is left open or inherited by other programs") {
    TemporaryFolder folder;
    const auto descriptors = [] {
      std::vector<std::string> open;
      for (const auto& each : fs::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const std::string target = fs::read_symlink(each.path(), gone).string();
        if (!gone && target.find("tilec-cache-") != std::string::npos)
          open.push_back(each.path().filename());
      }
      return open;
    };
    {
      const Store store(quick(folder / "root"));
      REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
      REQUIRE(store.export_bundle(folder / "bundle").ok);
      REQUIRE(store.import_bundle(folder / "bundle").ok);
      const BuildLock lock = store.lock(key_of(1), {});
      CHECK(store.look_up(key_of(1)));
      store.sweep();
      const auto open = descriptors();
      CHECK(open.size() == 2);  // the root and the lock
      for (const std::string& each : open) {
        CHECK((::fcntl(std::stoi(each), F_GETFD) & FD_CLOEXEC) != 0);
      }
    }
    CHECK(descriptors().empty());
  }
}

TEST_SUITE("cpu") {
  TEST_CASE("a full disk") {
    TemporaryFolder folder;
    const int result = on_small_disk(folder.path(), 256 << 10, [&] {
      const Store store(quick(folder / "root"));
      if (!store.publish(key_of(0), cubin_metadata(), cubin(1000))) return 1;
      unsigned number = 1;
      Published published;
      do {
        published = store.publish(key_of(number), cubin_metadata(), cubin(20'000, number));
      } while (published && ++number < 100);
      if (published.failure != PublishFailure::no_space) return 2;
      if (published.detail.find("root") == std::string::npos) return 3;
      if (!leftovers(folder / "root").empty()) return 4;
      for (unsigned each = 1; each < number; ++each) {
        const LookUp found = store.look_up(key_of(each));
        if (!found.entry || found.entry->payload != cubin(20'000, each)) return 5;
      }
      if (store.look_up(key_of(number)).misses.front().reason != MissReason::never_built) return 6;
      if (store.export_bundle(folder / "bundle").ok || fs::exists(folder / "bundle")) return 7;
      if (store.sweep({.max_bytes = 60'000, .complete = true}).removed_entries == 0) return 8;
      return store.publish(key_of(number), cubin_metadata(), cubin(20'000, number)) ? 0 : 9;
    });
    if (result < 0) return tilec::test::skip("no small file system can be mounted here");
    CHECK(result == 0);
  }

  TEST_CASE("a disk with no room for anything") {
    TemporaryFolder folder;
    const int result = on_small_disk(folder.path(), 4096, [&] {
      const Store store(quick(folder / "root"));
      const Published published = store.publish(key_of(0), cubin_metadata(), cubin(10'000));
      if (published.failure != PublishFailure::no_space) return 1;
      return store.look_up(key_of(0)) ? 2 : 0;
    });
    if (result < 0) return tilec::test::skip("no small file system can be mounted here");
    CHECK(result == 0);
  }

  TEST_CASE("folders and files that the user may not use") {
    if (!is_root()) return tilec::test::skip("needs root, to become another user");
    TemporaryFolder folder;
    REQUIRE(::chown(folder.path().c_str(), 54321, 54321) == 0);
    const int result = as_user(54321, [&] {
      {
        const Store store(quick(folder / "root"));
        if (!store.publish(key_of(1), cubin_metadata(), cubin())) return 1;
      }
      const fs::path path = entry_path(folder / "root", key_of(1));
      const fs::path shard = path.parent_path();
      const Store store(quick(folder / "root"));
      ::chmod(path.c_str(), 0);
      if (store.look_up(key_of(1)).misses.front().reason != MissReason::io_error) return 2;
      if (!fs::exists(path)) return 3;
      if (!store.publish(key_of(1), cubin_metadata(), cubin()) || !store.look_up(key_of(1)))
        return 4;
      // Our own folder without its modes: publishing sets them right.
      ::chmod(shard.c_str(), 0);
      if (store.look_up(key_of(1)).misses.front().reason != MissReason::io_error) return 5;
      if (!store.publish(key_of(1), cubin_metadata(), cubin()) || !store.look_up(key_of(1)))
        return 6;
      ::chmod((folder / "root").c_str(), 0500);
      const Store frozen(quick(folder / "root"));
      if (frozen.writable() || !mentions(frozen.problems(), "root")) return 7;
      if (!frozen.look_up(key_of(1))) return 8;
      if (frozen.publish(key_of(99), cubin_metadata("nvrtc-14"), cubin())) return 9;
      ::chmod((folder / "root").c_str(), 0);
      const Store closed(quick(folder / "root"));
      if (closed.problems().empty() || closed.look_up(key_of(1))) return 10;
      if (closed.publish(key_of(1), cubin_metadata(), cubin())) return 11;
      return 0;
    });
    CHECK(result == 0);
  }

  TEST_CASE("a home that is read-only") {
    if (!is_root()) return tilec::test::skip("needs root, to become another user");
    TemporaryFolder folder;
    const int result = as_user(54321, [&] {
      StoreOptions options = quick(folder / "home/.cache/tilec");
      options.root_hint = "set THE_VARIABLE";
      const Store store(options);
      if (store.problems().size() != 1 || !mentions(store.problems(), "home/.cache/tilec"))
        return 1;
      if (!mentions(store.problems(), "set THE_VARIABLE")) return 2;
      return store.publish(key_of(1), cubin_metadata(), cubin()) ? 3 : 0;
    });
    CHECK(result == 0);
  }
}

}  // namespace
}  // namespace tilec::cache::test

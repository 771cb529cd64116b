// The mark of a root: which folders are taken as one, and that nothing else is ever touched.
#include "mark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "doctest/doctest.h"
#include "support.h"
#include "tests/support/skip.h"

namespace tilec::cache::test {
namespace {

// Every path below a folder, and what is there.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& each : fs::recursive_directory_iterator(folder)) {
    std::string what = "folder";
    if (each.is_symlink()) {
      what = "link to " + fs::read_symlink(each.path()).string();
    } else if (each.is_regular_file()) {
      const Bytes bytes = read_file(each.path());
      what.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    out[fs::relative(each.path(), folder)] = what;
  }
  return out;
}

bool mentions(const Store& store, const std::string& text) {
  for (const std::string& each : store.problems()) {
    if (each.find(text) != std::string::npos) return true;
  }
  return false;
}

// A cache as the tilec that knew no marks left it.
void make_old_root(const fs::path& root) {
  REQUIRE(Store(quick(root)).publish(key_of(1), cubin_metadata(), cubin()));
  fs::remove(root / mark_file);
  fs::remove(root / tag_file);
}

// Everything that writes to a root, or removes from it.
void use(const Store& store) {
  static_cast<void>(store.lock(key_of(1), {}));
  static_cast<void>(store.publish(key_of(1), cubin_metadata(), cubin()));
  static_cast<void>(store.look_up(key_of(1)));
  store.discard(key_of(1));
  store.clear();
  store.verify(true);
  store.sweep({.max_bytes = 1, .complete = true, .temporary_age = std::chrono::seconds(0)});
}

TEST_SUITE("cpu tsan") {
  TEST_CASE("a root that is made, or an empty folder, is marked") {
    for (const std::string what : {"missing", "empty", "lost+found"}) {
      CAPTURE(what);
      TemporaryFolder folder;
      const fs::path root = folder / "root";
      if (what != "missing") fs::create_directory(root);
      if (what == "lost+found") fs::create_directory(root / what);
      fs::permissions(folder.path(), fs::perms::owner_all);
      if (what != "missing") fs::permissions(root, fs::perms::owner_all);
      const Store store(quick(root));
      CHECK(store.problems().empty());
      REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
      const auto files = contents(root);
      CHECK(files.at("tilec-cache").starts_with("tilec kernel cache\n"));
      CHECK(files.at("CACHEDIR.TAG").starts_with("Signature: 8a477f597d28d172789f06886806bc55\n"));
      CHECK(Store(quick(root)).look_up(key_of(1)));
      CHECK(store.clear().removed == 1);
      CHECK(Store(quick(root)).problems().empty());
    }
  }

  TEST_CASE("a folder that holds anything else is refused, and left as it was") {
    TemporaryFolder outside;
    const std::vector<std::pair<std::string, std::function<void(const fs::path&)>>> folders{
        {"notes.txt", [](const fs::path& at) { write_text(at / "notes.txt", "precious"); }},
        {"the names of ours",
         [&](const fs::path& at) {
           write_text(at / "usage", "precious usage");
           write_text(at / "builders", "precious builders");
           fs::create_directory_symlink(outside.path(), at / "locks");
         }},
        {"a shard's name", [](const fs::path& at) { fs::create_directory(at / "ab"); }},
        {"a short usage", [](const fs::path& at) { write_text(at / "usage", ""); }},
        {"another program's cache",
         [](const fs::path& at) {
           write_text(at / "CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
           fs::create_directory(at / "debug");
         }},
        {"another's file of our mark's name",
         [](const fs::path& at) { write_text(at / "tilec-cache", "#!/bin/sh\n"); }},
        {"our mark as a link",
         [&](const fs::path& at) { fs::create_symlink(outside / "nothing", at / "tilec-cache"); }},
        {"our mark as a folder",
         [](const fs::path& at) { fs::create_directory(at / "tilec-cache"); }},
        {"an old root with a stranger's file",
         [](const fs::path& at) {
           make_old_root(at);
           write_text(at / "notes.txt", "precious");
         }},
    };
    for (const auto& each : folders) {
      CAPTURE(each.first);
      TemporaryFolder folder;
      const fs::path root = folder / "root";
      REQUIRE(Store(quick(folder / "other")).publish(key_of(2), cubin_metadata(), cubin()));
      fs::create_directory(root);
      fs::permissions(root, fs::perms::owner_all);
      each.second(root);
      const auto before = contents(root);
      StoreOptions options = quick(root);
      options.root_hint = "set THE_VARIABLE";
      options.read_only_roots = {folder / "other"};
      const Store store(options);
      CHECK(store.problems().size() == 1);
      CHECK(mentions(store, "the cache folder " + root.string() + " is not used: it holds "));
      CHECK(mentions(store, "set THE_VARIABLE"));
      CHECK(mentions(store, (root / "tilec-cache").string()));
      const bool has_one =
          fs::symlink_status(root / "tilec-cache").type() != fs::file_type::not_found;
      CHECK(mentions(store, "it holds a tilec-cache that is not tilec's") == has_one);
      CHECK_FALSE(store.writable());
      CHECK(store.publish(key_of(1), cubin_metadata(), cubin()).failure == PublishFailure::no_root);
      use(store);
      CHECK(contents(root) == before);
      CHECK(store.look_up(key_of(2)));  // elsewhere, all goes on
    }
    CHECK(fs::is_empty(outside.path()));
  }

  TEST_CASE("the user may say that a folder is a cache") {
    TemporaryFolder folder;
    make_old_root(folder / "root");
    write_text(folder / "root/notes.txt", "precious");
    CHECK_FALSE(Store(quick(folder / "root")).problems().empty());
    write_text(folder / "root/tilec-cache", "");
    const Store store(quick(folder / "root"));
    CHECK(store.problems().empty());
    use(store);
    CHECK(read_file(folder / "root/notes.txt").size() == 8);
  }

  TEST_CASE("a file of the user's in the place of the counts stays as it is in a marked root") {
    TemporaryFolder folder;
    fs::create_directory(folder / "root");
    write_text(folder / "root" / std::string(mark_file), "");
    write_text(folder / "root/usage", "notes\n");
    StoreOptions options = quick(folder / "root");
    const Store roomy(options);
    CHECK(roomy.problems().empty());
    REQUIRE(roomy.publish(key_of(1), cubin_metadata(), cubin()));
    REQUIRE(roomy.publish(key_of(2), cubin_metadata(), cubin()));
    options.max_bytes = roomy.totals().bytes - 1;
    CHECK(Store(options).sweep({.complete = true}).removed_entries == 1);  // the bound holds
    CHECK(read_file(folder / "root/usage").size() == 6);
  }

  TEST_CASE("a cache of the version before is ours") {
    for (const bool copied : {false, true}) {
      TemporaryFolder folder;
      make_old_root(folder / "root");
      const fs::path root = folder / (copied ? "copy" : "root");
      if (copied) fs::copy(folder / "root", root, fs::copy_options::recursive);
      fs::permissions(root, fs::perms::owner_all);
      const Store store(quick(root));
      CHECK(store.problems().empty());
      CHECK(store.look_up(key_of(1)));
      CHECK(fs::exists(root / mark_file));
      // Whoever removes only the mark loses nothing either.
      fs::remove(root / mark_file);
      CHECK(Store(quick(root)).look_up(key_of(1)));
      CHECK(fs::exists(root / mark_file));
    }
  }

  TEST_CASE("so is one that never kept anything, unless its files are someone's") {
    for (const bool empty : {true, false}) {
      TemporaryFolder folder;
      const fs::path root = folder / "root";
      CHECK(Store(quick(root)).lock(key_of(1), {}).held());
      fs::remove(root / mark_file);
      fs::remove(root / tag_file);
      if (!empty) write_text(root / "locks/0", "precious");
      CHECK(Store(quick(root)).problems().empty() == empty);
      CHECK(fs::exists(root / mark_file) == empty);
    }
  }

  TEST_CASE("a mark cut short by a crash is a mark") {
    for (const std::size_t size : {0u, 1u, 10u, 19u, 40u}) {
      CAPTURE(size);
      TemporaryFolder folder;
      const fs::path root = folder / "root";
      REQUIRE(Store(quick(root)).publish(key_of(1), cubin_metadata(), cubin()));
      fs::resize_file(root / mark_file, size);
      fs::remove(root / "usage");
      CHECK(Store(quick(root)).look_up(key_of(1)));
    }
  }

  TEST_CASE("read-only roots need no mark and get none") {
    TemporaryFolder folder;
    make_old_root(folder / "root");
    write_text(folder / "root/notes.txt", "precious");
    const auto before = contents(folder / "root");
    StoreOptions options;
    options.read_only_roots = {folder / "root"};
    CHECK(Store(options).problems().empty());
    CHECK(Store(options).look_up(key_of(1)));
    options = quick(folder / "root");
    options.read_only = true;
    CHECK(Store(options).look_up(key_of(1)));
    CHECK(contents(folder / "root") == before);
  }

  TEST_CASE("a root made anew while it is in use is judged anew") {
    TemporaryFolder folder;
    const fs::path root = folder / "root";
    const Store store(quick(root));
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    fs::remove_all(root);
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    CHECK(fs::exists(root / mark_file));
    fs::remove_all(root);
    fs::create_directory(root);
    fs::permissions(root, fs::perms::owner_all);
    write_text(root / "usage", "precious");
    const auto before = contents(root);
    CHECK_FALSE(store.publish(key_of(1), cubin_metadata(), cubin()));
    use(store);
    CHECK(contents(root) == before);
  }

  TEST_CASE("what takes the place of a root in use is judged, and nothing goes where it has gone") {
    struct Case {
      std::function<void(const fs::path&)> make;
      std::string why;
    };
    const auto folder_of_mode = [](fs::perms mode) {
      return [mode](const fs::path& path) {
        fs::create_directory(path);
        fs::permissions(path, mode);
      };
    };
    const Case cases[] = {
        {folder_of_mode(fs::perms::all), "it may be written to by others (mode 0777); `chmod go-w"},
        {[&](const fs::path& path) {
           folder_of_mode(fs::perms::owner_all)(path);
           write_text(path / "usage", "precious");
         },
         "it holds usage but no file tilec-cache"},
        {[](const fs::path& path) { write_text(path, "a file"); }, "Not a directory"}};
    for (const Case& each : cases) {
      CAPTURE(each.why);
      TemporaryFolder folder;
      const fs::path root = folder / "root";
      const Store store(quick(root));
      REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
      fs::rename(root, folder / "gone");
      each.make(root);
      const auto before = contents(folder.path());
      const Published published = store.publish(key_of(2), cubin_metadata(), cubin());
      CHECK(published.failure == PublishFailure::read_only);
      CHECK(published.detail.find("the cache folder " + root.string() +
                                  " was removed or replaced since it was opened, and what is there "
                                  "now is not used: ") == 0);
      CHECK(published.detail.find(each.why) != std::string::npos);
      const Cleared cleared = store.clear();
      REQUIRE(cleared.kept.size() == 1);
      CHECK(cleared.kept.front().detail == published.detail);
      const Swept swept = store.sweep({.max_bytes = 1, .complete = true});
      CHECK_FALSE(swept.ran);
      REQUIRE(swept.kept.size() == 1);
      CHECK(swept.kept.front().detail == published.detail);
      CHECK(contents(folder.path()) == before);
      // It is looked at again each time.
      fs::remove_all(root);
      fs::rename(folder / "gone", root);
      CHECK(store.publish(key_of(2), cubin_metadata(), cubin()));
      CHECK(store.look_up(key_of(1)));
    }
  }

  TEST_CASE("a root made anew is made where it was, wherever the program is then") {
    TemporaryFolder folder;
    fs::create_directories(folder / "here");
    fs::create_directories(folder / "there");
    CHECK(in_child([&] {
            fs::current_path(folder / "here");
            const Store store(quick("root"));
            fs::current_path(folder / "there");
            fs::remove_all(folder / "here/root");
            return store.publish(key_of(1), cubin_metadata(), cubin()) ? 0 : 1;
          }) == 0);
    CHECK(fs::exists(entry_path(folder / "here/root", key_of(1))));
    CHECK(fs::is_empty(folder / "there"));
  }
}

TEST_SUITE("cpu") {
  TEST_CASE("many processes mark one root") {
    for (int round = 0; round < 20; ++round) {
      TemporaryFolder folder;
      int ends[2];
      REQUIRE(::pipe(ends) == 0);
      std::vector<pid_t> children;
      for (unsigned number = 0; number < 8; ++number) {
        const pid_t child = ::fork();
        if (child == 0) {
          ::close(ends[1]);
          char byte;
          if (::read(ends[0], &byte, 1) < 0) ::_exit(1);
          const Store store(quick(folder / "root"));
          ::_exit(store.problems().empty() &&
                          store.publish(key_of(number), cubin_metadata(), cubin())
                      ? 0
                      : 1);
        }
        children.push_back(child);
      }
      ::close(ends[0]);
      ::close(ends[1]);
      for (const pid_t child : children) CHECK(exit_status(child) == 0);
    }
  }

  TEST_CASE("no room for the mark: not kept until there is, and no folder that is no one's") {
    TemporaryFolder folder;
    const int result = on_small_disk(folder.path(), 64 << 10, [&] {
      fs::create_directory(folder / "root");
      ::chmod((folder / "root").c_str(), 0700);
      // All inodes.
      unsigned files = 0;
      const auto filler = [&](unsigned number) { return folder / ("x" + std::to_string(number)); };
      for (;; ++files) {
        const int file = ::open(filler(files).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0) break;
        ::close(file);
      }
      const Store store(quick(folder / "root"));
      if (!store.problems().empty()) return 1;
      if (store.publish(key_of(1), cubin_metadata(), cubin()).failure != PublishFailure::no_space)
        return 2;
      if (store.lock(key_of(1), {}).held() || !fs::is_empty(folder / "root")) return 3;
      for (unsigned each = 0; each < files; ++each) fs::remove(filler(each));
      if (!store.publish(key_of(1), cubin_metadata(), cubin())) return 4;
      return fs::exists(folder / "root" / mark_file) ? 0 : 5;
    });
    if (result < 0) return tilec::test::skip("no small file system can be mounted here");
    CHECK(result == 0);
  }

  TEST_CASE("a mark that others of a shared root can't read") {
    if (!is_root()) return tilec::test::skip("needs root, to become other users");
    constexpr unsigned alice = 54321, bob = 54322, team = 4711;
    TemporaryFolder folder;
    const fs::path root = folder / "team";
    fs::create_directory(root);
    REQUIRE(::chown(root.c_str(), alice, team) == 0);
    REQUIRE(::chmod(root.c_str(), 02770) == 0);
    StoreOptions options = quick(root);
    options.trust_shared = {root};
    CHECK(as_user(alice, team, [&] {
            // Killed before it set the mode.
            return write_text(root / "tilec-cache", ""), 0;
          }) == 0);
    CHECK(as_user(bob, team, [&] {
            const Store store(options);
            return store.problems().empty() && store.publish(key_of(1), cubin_metadata(), cubin())
                       ? 0
                       : 1;
          }) == 0);
  }
}

}  // namespace
}  // namespace tilec::cache::test

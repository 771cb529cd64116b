// Strangers: whose folders and files are believed.
#include <sys/stat.h>
#include <unistd.h>

#include "doctest/doctest.h"
#include "support.h"
#include "tests/support/skip.h"

namespace tilec::cache::test {
namespace {

constexpr unsigned alice = 54321;
constexpr unsigned mallory = 54322;

void give(const fs::path& path, unsigned user, unsigned group, unsigned mode) {
  REQUIRE(::lchown(path.c_str(), user, group) == 0);
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

bool has_problem(const Store& store, const std::string& text) {
  for (const std::string& each : store.problems()) {
    if (each.find(text) != std::string::npos) return true;
  }
  return false;
}

// A folder of alice's that holds a cache of hers with one entry.
struct AlicesCache {
  TemporaryFolder folder;
  fs::path root = folder / "home/cache";

  AlicesCache() {
    fs::create_directories(folder / "home");
    give(folder / "home", alice, alice, 0755);
    REQUIRE(as_user(alice, [&] {
              return Store(quick(root)).publish(key_of(1), cubin_metadata(), cubin()) ? 0 : 1;
            }) == 0);
    ::chmod(root.c_str(), 0755);
  }
};

TEST_SUITE("cpu") {
  TEST_CASE("the own root must be the user's alone") {
    if (!is_root()) return tilec::test::skip("needs root, to become other users");
    struct Case {
      const char* what;
      const char* where;  // below the temporary folder
      unsigned user, group, mode;
      bool used;
    };
    for (const Case& each : std::vector<Case>{
             {"as made", "home/cache", alice, alice, 0700, true},
             {"readable by all", "home/cache", alice, alice, 0755, true},
             {"writable by the user's private group", "home/cache", alice, alice, 0775, true},
             {"writable by another group", "home/cache", alice, mallory, 0770, false},
             {"writable by all", "home/cache", alice, alice, 0777, false},
             {"writable by all, sticky", "home/cache", alice, alice, 01777, false},
             {"a stranger's", "home/cache", mallory, mallory, 0777, false},
             {"parent writable by all", "home", alice, alice, 0777, false},
             {"parent writable by another group", "home", alice, mallory, 0775, false},
             {"parent writable by all, sticky", "home", alice, alice, 01777, true},
             {"parent is root's", "home", 0, 0, 0755, true},
             {"parent is a stranger's", "home", mallory, mallory, 0755, false},
             {"parent is a stranger's, sticky", "home", mallory, mallory, 01777, false}}) {
      CAPTURE(each.what);
      AlicesCache cache;
      give(cache.folder / each.where, each.user, each.group, each.mode);
      const auto as_alice = [&](const StoreOptions& options, bool used) {
        return as_user(alice, [&] {
          const Store store(options);
          if (store.problems().empty() != used) return 1;
          if (!used && !has_problem(store, options.root.string())) return 2;
          if (!used && !has_problem(store, "trust_shared")) return 3;
          if (static_cast<bool>(store.look_up(key_of(1))) != used) return 4;
          return static_cast<bool>(store.publish(key_of(1), cubin_metadata(), cubin())) == used ? 0
                                                                                                : 5;
        });
      };
      CHECK(as_alice(quick(cache.root), each.used) == 0);
      if (each.used) continue;
      StoreOptions shared = quick(cache.root);
      shared.trust_shared = {cache.root};
      CHECK(as_alice(shared, true) == 0);
    }
  }

  TEST_CASE("a cache of root's, in an image, for anyone") {
    if (!is_root()) return tilec::test::skip("needs root, to become other users");
    TemporaryFolder folder;
    const fs::path root = folder / "opt/cache";
    REQUIRE(Store(quick(root)).publish(key_of(1), cubin_metadata(), cubin()));
    for (const unsigned group_mode : {0u, 020u}) {  // as made, and group-writable for gid 0
      ::chmod((folder / "opt").c_str(), 0755 | group_mode);
      for (const auto& each : fs::recursive_directory_iterator(folder / "opt")) {
        ::chmod(each.path().c_str(), (each.is_directory() ? 0755u : 0644u) | group_mode);
      }
      for (const unsigned group : {0u, 4711u}) {
        CAPTURE(group_mode);
        CAPTURE(group);
        const int result = as_user(1000640000, group, [&] {
          StoreOptions extra;
          extra.read_only_roots = {root};
          if (!Store(extra).problems().empty() || !Store(extra).look_up(key_of(1))) return 1;
          // Named as the own root it serves too, but takes nothing.
          const Store own(quick(root));
          if (!has_problem(own, root.string()) || !own.look_up(key_of(1))) return 2;
          return own.publish(key_of(2), cubin_metadata(), cubin()) ? 3 : 0;
        });
        CHECK(result == 0);
      }
    }
  }

  TEST_CASE("read-only roots and bundles of strangers") {
    if (!is_root()) return tilec::test::skip("needs root, to become other users");
    AlicesCache cache;
    REQUIRE(as_user(alice, [&] {
              return Store(quick(cache.root)).export_bundle(cache.folder / "home/bundle").ok ? 0
                                                                                             : 1;
            }) == 0);
    for (const auto& each : fs::recursive_directory_iterator(cache.root)) {
      ::chmod(each.path().c_str(), each.is_directory() ? 0755 : 0644);
    }
    StoreOptions options;
    options.read_only_roots = {cache.root};
    options.bundles = {{.path = cache.folder / "home/bundle"}};
    StoreOptions named = options;
    named.trust_shared = {cache.root, cache.folder / "home/bundle"};
    CHECK(as_user(alice, [&] { return Store(options).problems().empty() ? 0 : 1; }) == 0);
    CHECK(as_user(mallory, [&] {
            const Store store(options);
            if (store.problems().size() != 2 || !has_problem(store, "trust_shared")) return 1;
            if (store.look_up(key_of(1)).misses.front().reason != MissReason::no_root) return 2;
            const Store trusting(named);
            return trusting.problems().empty() && trusting.look_up(key_of(1)) ? 0 : 3;
          }) == 0);
    // Importing is another matter: the user named the file, and everything in it is checked.
    TemporaryFolder other;
    give(other.path(), mallory, mallory, 0755);
    CHECK(
        as_user(mallory, [&] {
          return Store(quick(other / "root")).import_bundle(cache.folder / "home/bundle").entries ==
                         1
                     ? 0
                     : 1;
        }) == 0);
  }

  TEST_CASE(
      "a bundle of one's own in a folder that all may write to, but not to each other's files") {
    TemporaryFolder folder;
    REQUIRE(Store(quick(folder / "root")).publish(key_of(1), cubin_metadata(), cubin()));
    fs::create_directory(folder / "tmp");
    const fs::path bundle = folder / "tmp/bundle";
    REQUIRE(Store(quick(folder / "root")).export_bundle(bundle).ok);
    StoreOptions options;
    options.bundles = {{.path = bundle}};
    REQUIRE(::chmod((folder / "tmp").c_str(), 01777) == 0);
    CHECK(Store(options).problems().empty());
    REQUIRE(::chmod((folder / "tmp").c_str(), 0777) == 0);
    const Store open(options);
    REQUIRE(open.problems().size() == 1);
    CHECK(has_problem(open, "others may write to " + (folder / "tmp").string() +
                                ", a folder above it (mode 0777)"));
    REQUIRE(::chmod((folder / "tmp").c_str(), 0755) == 0);
    REQUIRE(::chmod(bundle.c_str(), 0666) == 0);
    CHECK(has_problem(Store(options), "it may be written to by others (mode 0666); `chmod go-w " +
                                          bundle.string() + "` ends that"));
  }

  TEST_CASE("a bundle reached through links is judged on every step of the way") {
    TemporaryFolder folder;
    REQUIRE(Store(quick(folder / "root")).publish(key_of(1), cubin_metadata(), cubin()));
    fs::create_directories(folder / "real");
    const fs::path bundle = folder / "real/bundle";
    REQUIRE(Store(quick(folder / "root")).export_bundle(bundle).ok);
    fs::create_directories(folder / "way");
    fs::create_symlink("../real/bundle", folder / "way/link");
    const auto mounted = [](const fs::path& path) {
      StoreOptions options;
      options.bundles = {{.path = path}};
      return Store(options);
    };
    const Store good = mounted(folder / "way/link");
    CHECK(good.problems().empty());
    const LookUp found = good.look_up(key_of(1));
    REQUIRE(found);
    CHECK(found.entry->path == fs::canonical(bundle));
    // Whoever may replace the link chooses what is loaded, however well its target lies.
    fs::permissions(folder / "way", fs::perms::all);
    CHECK(has_problem(mounted(folder / "way/link"),
                      "others may write to " + (folder / "way").string()));
    fs::permissions(folder / "way", fs::perms::owner_all);
    if (is_root()) {
      REQUIRE(::lchown((folder / "way/link").c_str(), mallory, mallory) == 0);
      CHECK(has_problem(mounted(folder / "way/link"),
                        (folder / "way/link").string() + " is a link of user 54322"));
    }
  }

  TEST_CASE("what is named as a bundle and is none") {
    TemporaryFolder folder;
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    fs::create_symlink("loop", folder / "loop");
    write_text(folder / "file", "no bundle");
    struct Case {
      const char *path, *fault;
    };
    for (const auto& [path, fault] :
         {Case{"pipe", "it is not a file"}, Case{"", "it is not a file"},
          Case{"absent", "it does not exist"}, Case{"absent/bundle", "can't be opened: No such"},
          Case{"file/", "can't be opened: Not a directory"},
          Case{"loop", "can't be opened: Too many levels of symbolic links"}}) {
      StoreOptions options;
      options.bundles = {{.path = folder.path() / path}};
      const Store store(options);
      CAPTURE(path);
      REQUIRE(store.problems().size() == 1);
      CHECK(store.problems().front().starts_with("the bundle " + options.bundles[0].path.string() +
                                                 " is not used: "));
      CHECK(has_problem(store, fault));
    }
  }

  TEST_CASE("entries of strangers") {
    if (!is_root()) return tilec::test::skip("needs root, to become other users");
    AlicesCache cache;
    const fs::path path = entry_path(cache.root, key_of(1));
    struct Case {
      unsigned user, mode;
      bool served;
    };
    for (const Case& each :
         {Case{alice, 0600, true}, Case{alice, 0644, true}, Case{alice, 0666, false},
          Case{mallory, 0644, false}, Case{0, 0644, false}}) {
      CAPTURE(each.user);
      CAPTURE(each.mode);
      give(path, each.user, each.user, each.mode);
      CHECK(as_user(alice, [&] {
              const Store store(quick(cache.root));
              const LookUp found = store.look_up(key_of(1));
              if (each.served) return found.entry ? 0 : 1;
              if (found.entry || found.misses.front().reason != MissReason::untrusted) return 2;
              return fs::exists(path) ? 0 : 3;
            }) == 0);
    }
    CHECK(as_user(alice, [&] {
            const Store store(quick(cache.root));
            return store.publish(key_of(1), cubin_metadata(), cubin()) && store.look_up(key_of(1))
                       ? 0
                       : 1;
          }) == 0);
  }

  TEST_CASE("a folder that is shared on purpose") {
    if (!is_root()) return tilec::test::skip("needs root, to become other users");
    TemporaryFolder folder;
    const fs::path root = folder / "team";
    fs::create_directory(root);
    give(root, alice, 4711, 02770);
    StoreOptions options = quick(root);
    options.trust_shared = {root / ""};
    for (const unsigned user : {alice, mallory}) {
      CHECK(as_user(user, 4711, [&] {
              const Store store(options);
              if (!store.problems().empty()) return 1;
              if (!store.publish(key_of(user), cubin_metadata(), cubin())) return 2;
              return store.lock(key_of(user), {}).held() ? 0 : 3;
            }) == 0);
    }
    CHECK(as_user(mallory, 4711, [&] {
            const Store store(options);
            if (!store.look_up(key_of(alice)) || !store.look_up(key_of(mallory))) return 1;
            write_text(root / "spoilt", "damage");
            fs::rename(root / "spoilt", entry_path(root, key_of(alice)));
            if (!store.look_up(key_of(alice)).misses.front().removed) return 2;
            return store.publish(key_of(alice), cubin_metadata(), cubin()) ? 0 : 3;
          }) == 0);
  }

  TEST_CASE("a rootless container, where root's folders seem nobody's") {
    TemporaryFolder folder;
    constexpr int no_namespace = 200;
    const auto body = [&] {
      if (!enter_user_namespace()) return no_namespace;
      struct stat info {};
      if (::stat("/", &info) != 0 || info.st_uid == 0) return no_namespace;
      const Store store(quick(folder / "cache"));
      if (!store.problems().empty()) return 1;
      if (!store.publish(key_of(1), cubin_metadata(), cubin()) || !store.look_up(key_of(1)))
        return 2;
      // Only for what lies above: a cache of the outside's is a stranger's.
      StoreOptions outside;
      outside.read_only_roots = {"/"};
      return Store(outside).problems().size() == 1 ? 0 : 3;
    };
    if (is_root()) give(folder.path(), alice, alice, 0755);
    const int result = is_root() ? as_user(alice, body) : in_child(body);
    if (result == no_namespace) return tilec::test::skip("no user namespaces here");
    CHECK(result == 0);
  }

  TEST_CASE("nobody is a stranger where there is no namespace") {
    if (!is_root()) return tilec::test::skip("needs root, to give a folder away");
    AlicesCache cache;
    give(cache.folder / "home", 65534, 65534, 0755);
    CHECK(as_user(alice, [&] { return has_problem(Store(quick(cache.root)), "65534") ? 0 : 1; }) ==
          0);
  }

  TEST_CASE("root does not write into a user's cache") {
    if (!is_root()) return tilec::test::skip("needs root");
    AlicesCache cache;
    const Store store(quick(cache.root));
    CHECK_FALSE(store.problems().empty());
    CHECK_FALSE(store.look_up(key_of(1)));
    CHECK_FALSE(store.publish(key_of(2), cubin_metadata(), cubin()));
  }

  TEST_CASE("a root reached through a link is judged by where it lies") {
    TemporaryFolder folder;
    fs::create_directories(folder / "real");
    fs::permissions(folder / "real", fs::perms::owner_all);
    fs::create_directory_symlink(folder / "real", folder / "link");
    const Store store(quick(folder / "link/cache"));
    CHECK(store.problems().empty());
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    CHECK(fs::exists(entry_path(folder / "real/cache", key_of(1))));
    fs::permissions(folder / "real", fs::perms::all);
    const std::string real = (folder / "real").string();
    const Store refused(quick(folder / "link/cache"));
    // Which folder, what is wrong with it, what ends that, and the options.
    CHECK(has_problem(refused, "/cache is not used: others may write to " + real +
                                   ", a folder above it (mode 0777), and could put another in "
                                   "its place; `chmod go-w " +
                                   real +
                                   "` ends that; to use this cache folder all the same, name it "
                                   "in trust_shared; choose another cache root"));
  }

  TEST_CASE("nobody is told to take a folder like /tmp from others") {
    TemporaryFolder folder;
    REQUIRE(::chmod(folder.path().c_str(), 01777) == 0);
    const Store refused(quick(folder.path()));
    CHECK(has_problem(refused,
                      "it may be written to by others (mode 1777); a folder in it can be "
                      "named in its place"));
    CHECK_FALSE(has_problem(refused, "chmod"));
    CHECK(Store(quick(folder / "in it")).problems().empty());
  }

  TEST_CASE("a remedy says who can bring it about") {
    if (!is_root()) return tilec::test::skip("needs root, to become another user");
    TemporaryFolder folder;
    fs::permissions(folder.path(), fs::perms::all);
    const std::string wanted = "`chmod go-w " + folder.path().string() + "` by user 0 ends that";
    CHECK(as_user(54321, [&] {
            return has_problem(Store(quick(folder / "cache")), wanted) ? 0 : 1;
          }) == 0);
  }
}

}  // namespace
}  // namespace tilec::cache::test

// Listings, verification, clearing, and the nearest entries.
#include <set>

#include "doctest/doctest.h"
#include "support.h"

namespace tilec::cache::test {
namespace {

struct Filled {
  TemporaryFolder folder;
  Store store{quick(folder / "root")};

  Filled() {
    add(1, "gemm_regn", "sm_90", 90, "64");
    add(2, "gemm_regn", "sm_80", 80, "64");
    add(3, "gemm_regn", "sm_90", 90, "32");
    add(4, "add", "sm_90", 90, "64");
  }
  void add(unsigned number, const std::string& name, const std::string& target, unsigned sm,
           const std::string& tile) {
    Metadata metadata = cubin_metadata("nvrtc-13.0.88", sm);
    metadata.template_name = name;
    metadata.target = target;
    metadata.parameters["TILE"] = tile;
    REQUIRE(store.publish(key_of(number), metadata, cubin(64 + number, number, sm)));
  }
  std::set<Key> listed(const Filter& filter) const {
    std::set<Key> keys;
    store.for_each(filter, Depth::metadata,
                   [&](const Listed& each) { return keys.insert(each.key), true; });
    return keys;
  }
};

// Clears and sweeps a cache whose one shard may not be written to.
bool entry_stays() {
  const TemporaryFolder folder;
  const Store store(quick(folder / "root"));
  if (!store.publish(key_of(1), cubin_metadata(), cubin())) return false;
  const fs::path entry = entry_path(folder / "root", key_of(1));
  fs::permissions(entry.parent_path(), fs::perms::owner_read | fs::perms::owner_exec);
  const Cleared cleared = store.clear();
  const Swept swept = store.sweep({.max_bytes = 1, .complete = true});
  fs::permissions(entry.parent_path(), fs::perms::owner_all);
  const auto tells = [&](const std::vector<Miss>& kept) {
    return kept.size() == 1 && kept.front().path == entry &&
           kept.front().detail == "it can't be removed: Permission denied";
  };
  return cleared.removed == 0 && tells(cleared.kept) && swept.removed_entries == 0 &&
         swept.bytes_left > 0 && tells(swept.kept) && store.look_up(key_of(1));
}

TEST_SUITE("cpu tsan") {
  TEST_CASE("filters") {
    const Filled filled;
    CHECK(filled.listed({}).size() == 4);
    CHECK(filled.listed({.target = "sm_80"}) == std::set<Key>{key_of(2)});
    CHECK(filled.listed({.template_name = "gemm_regn"}).size() == 3);
    CHECK(filled.listed({.target = "sm_90", .template_name = "gemm_regn"}) ==
          std::set<Key>{key_of(1), key_of(3)});
    CHECK(filled.listed({.builder = "nvrtc-12"}).empty());
    CHECK(filled.listed({.kind = "cubin"}).size() == 4);
    CHECK(filled.listed({.kind = "ptx"}).empty());
    CHECK(filled.listed({.key = key_of(4)}) == std::set<Key>{key_of(4)});
    int seen = 0;
    filled.store.for_each({}, Depth::payload, [&](const Listed&) { return ++seen < 2; });
    CHECK(seen == 2);
  }

  TEST_CASE("a listing shows damage, and what it weighs") {
    const Filled filled;
    const fs::path path = entry_path(filled.folder / "root", key_of(1));
    Bytes bytes = read_file(path);
    bytes.back() ^= std::byte{1};
    write_file(path, bytes);
    write_text(filled.folder / "root" / key_of(1).hex().substr(0, 2) / "stray.txt", "not an entry");
    int problems = 0;
    filled.store.for_each({}, Depth::payload, [&](const Listed& each) {
      if (each.problem) {
        CHECK(each.key == key_of(1));
        CHECK(each.problem->reason == MissReason::checksum);
        CHECK(each.path == path);
        ++problems;
      } else {
        CHECK(each.bytes == fs::file_size(each.path));
        CHECK(each.payload_bytes < each.bytes);
      }
      return true;
    });
    CHECK(problems == 1);
    CHECK(filled.store.totals().entries == 4);

    VerifyReport report = filled.store.verify(false);
    CHECK(report.good == 3);
    REQUIRE(report.damaged.size() == 1);
    CHECK_FALSE(report.damaged.front().removed);
    report = filled.store.verify(true);
    REQUIRE(report.damaged.size() == 1);
    CHECK(report.damaged.front().removed);
    CHECK(filled.store.verify(true).damaged.empty());
    CHECK(filled.store.totals().entries == 3);
  }

  TEST_CASE("clear") {
    const Filled filled;
    CHECK(filled.store.clear({.target = "sm_80"}).removed == 1);
    CHECK(filled.store.clear({.template_name = "add"}).removed == 1);
    CHECK(filled.store.clear({.key = key_of(9)}).removed == 0);
    write_text(entry_path(filled.folder / "root", key_of(3)), "damage");
    CHECK(filled.store.clear().removed == 2);
    CHECK(filled.store.totals().entries == 0);
    CHECK(filled.store.totals().bytes == 0);
  }

  TEST_CASE("what lies in the way of reading or removing is told, and stays") {
    const Filled filled;
    const fs::path root = filled.folder / "root";
    const auto shard = [&](unsigned number) { return root / key_of(number).hex().substr(0, 2); };
    fs::remove_all(shard(1));
    write_text(shard(1), "a file in the place of a folder");
    fs::remove(entry_path(root, key_of(2)));
    fs::create_directories(entry_path(root, key_of(2)) / "inside");

    const std::vector<Miss> unread =
        filled.store.for_each({}, Depth::metadata, [](const Listed&) { return true; });
    REQUIRE(unread.size() == 1);
    CHECK(unread.front().path == shard(1));
    CHECK(unread.front().detail ==
          "it can't be read: something that is not a folder lies there; move it away");

    std::set<fs::path> paths;
    for (const Miss& miss : filled.store.verify(true).damaged) {
      CHECK_FALSE(miss.removed);
      paths.insert(miss.path);
    }
    CHECK(paths == std::set<fs::path>{shard(1), entry_path(root, key_of(2))});

    const BundleReport exported = filled.store.export_bundle(filled.folder / "bundle");
    CHECK(exported.entries == 2);
    CHECK(exported.skipped.size() == 2);

    const Swept swept = filled.store.sweep({.max_bytes = 1, .complete = true});
    CHECK(swept.removed_entries == 2);
    REQUIRE(swept.kept.size() == 1);
    CHECK(swept.kept.front().path == shard(1));

    const Cleared cleared = filled.store.clear();
    CHECK(cleared.removed == 0);
    paths.clear();
    for (const Miss& miss : cleared.kept) paths.insert(miss.path);
    CHECK(paths == std::set<fs::path>{shard(1), entry_path(root, key_of(2))});
    CHECK(fs::is_directory(entry_path(root, key_of(2)) / "inside"));
    CHECK(fs::is_regular_file(shard(1)));
  }

  TEST_CASE("an entry that can't be removed is kept, and told") {
    if (is_root()) {
      // Root may remove anything, so another user tries.
      CHECK(as_user(54321, [] { return entry_stays() ? 0 : 1; }) == 0);
    } else {
      CHECK(entry_stays());
    }
  }

  TEST_CASE("the nearest entries, and what differs") {
    const Filled filled;
    Wanted wanted{.key = key_of(10),
                  .template_name = "gemm_regn",
                  .parameters = {{"TILE", "64"}, {"TN", "8"}},
                  .target = "sm_80"};
    auto nearest = filled.store.nearest(wanted, 3);
    REQUIRE(nearest.size() == 3);
    CHECK(nearest[0].entry.key == key_of(2));
    REQUIRE(nearest[0].differences.size() == 1);
    CHECK(nearest[0].differences[0].field == "source, headers or options");
    CHECK(nearest[2].differences.size() == 2);

    wanted.target = "sm_100";
    wanted.builder = "nvrtc-14.0";
    wanted.parameters["STAGES"] = "3";
    nearest = filled.store.nearest(wanted, 1);
    REQUIRE(nearest.size() == 1);
    std::set<std::string> fields;
    for (const Difference& each : nearest[0].differences) fields.insert(each.field);
    CHECK(fields == std::set<std::string>{"target", "builder", "parameter STAGES"});

    wanted.template_name = "conv";
    CHECK(filled.store.nearest(wanted, 3).empty());
  }
}

}  // namespace
}  // namespace tilec::cache::test

// Look-ups over builders, roots and time.
#include <sys/stat.h>

#include "doctest/doctest.h"
#include "support.h"

namespace tilec::cache::test {
namespace {

std::string builder_found(const LookUp& found) {
  return found.entry ? found.entry->metadata.builder : "none";
}

TEST_SUITE("cpu tsan") {
  TEST_CASE("builders side by side") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    for (const char* builder : {"nvrtc-12.8.93", "nvrtc-13.0.88", "nvrtc-12.10.1"}) {
      REQUIRE(store.publish(key_of(1), cubin_metadata(builder), cubin(64, 1)));
    }
    REQUIRE(store.publish(key_of(2), cubin_metadata("nvrtc-12.8.93"), cubin(64, 2)));

    CHECK(builder_found(store.look_up(key_of(1))) == "nvrtc-13.0.88");
    CHECK(builder_found(store.look_up(key_of(2))) == "nvrtc-12.8.93");
    CHECK(builder_found(store.look_up(key_of(1), {.require_builder = "nvrtc-12.8.93"})) ==
          "nvrtc-12.8.93");
    CHECK(builder_found(store.look_up(key_of(1), {.skip_builders = {"nvrtc-13.0.88"}})) ==
          "nvrtc-12.10.1");
    CHECK(store.builders() ==
          std::vector<std::string>{"nvrtc-13.0.88", "nvrtc-12.10.1", "nvrtc-12.8.93"});

    const LookUp pinned = store.look_up(key_of(2), {.require_builder = "nvrtc-13.0.88"});
    REQUIRE(pinned.misses.size() == 1);
    CHECK(pinned.misses.front().reason == MissReason::other_builder);
    CHECK(pinned.misses.front().detail.find("nvrtc-12.8.93") != std::string::npos);
    const LookUp rejected = store.look_up(key_of(2), {.skip_builders = {"nvrtc-12.8.93"}});
    REQUIRE(rejected.misses.size() == 1);
    CHECK(rejected.misses.front().reason == MissReason::other_builder);
    // Required and rejected: nothing serves.
    const LookUpOptions both{.require_builder = "nvrtc-12.8.93",
                             .skip_builders = {"nvrtc-12.8.93"}};
    const LookUp none = store.look_up(key_of(2), both);
    CHECK_FALSE(none);
    REQUIRE(none.misses.size() == 1);
    CHECK(none.misses.front().detail == "the entry of builder nvrtc-12.8.93 was rejected");
    CHECK_FALSE(store.peek(key_of(2), both));
    const LookUp nothing = store.look_up(key_of(3), {.require_builder = "../../etc/passwd"});
    CHECK(nothing.misses.front().reason == MissReason::never_built);

    const Bytes old = read_file(entry_path(folder / "root", key_of(1), "nvrtc-12.8.93"));
    write_text(entry_path(folder / "root", key_of(1), "nvrtc-13.0.88"), "damage");
    const LookUp next = store.look_up(key_of(1));
    CHECK(builder_found(next) == "nvrtc-12.10.1");
    REQUIRE(next.misses.size() == 1);
    CHECK(next.misses.front().removed);
    CHECK(read_file(entry_path(folder / "root", key_of(1), "nvrtc-12.8.93")) == old);
  }

  TEST_CASE("a builder that came after the store was opened") {
    TemporaryFolder folder;
    const Store early(quick(folder / "root"));
    CHECK_FALSE(early.look_up(key_of(1)));
    const Store late(quick(folder / "root"));
    REQUIRE(late.publish(key_of(1), cubin_metadata(), cubin()));
    CHECK(early.look_up(key_of(1)));
    CHECK(early.peek(key_of(1)));
    REQUIRE(late.publish(key_of(2), cubin_metadata("nvrtc-14.0.1"), cubin()));
    CHECK(early.peek(key_of(2)));
  }

  TEST_CASE("the target that was asked for") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    CHECK(store.look_up(key_of(1), {.target = "sm_90"}));
    const LookUp other = store.look_up(key_of(1), {.target = "sm_80"});
    REQUIRE(other.misses.size() == 1);
    CHECK(other.misses.front().reason == MissReason::wrong_target);
    CHECK_FALSE(other.misses.front().removed);
    CHECK_FALSE(store.peek(key_of(1), {.target = "sm_80"}));
    CHECK(store.look_up(key_of(1)));
  }

  TEST_CASE("markers tidied away are made anew") {
    TemporaryFolder folder;
    REQUIRE(Store(quick(folder / "root")).publish(key_of(1), cubin_metadata(), cubin()));
    fs::remove_all(folder / "root/builders");
    StoreOptions options;
    options.read_only_roots = {folder / "root"};
    CHECK(Store(options).look_up(key_of(1)));
    CHECK_FALSE(fs::exists(folder / "root/builders"));
    CHECK(Store(quick(folder / "root")).look_up(key_of(1)));
    CHECK(fs::exists(folder / "root/builders/nvrtc-13.0.88"));
  }

  TEST_CASE("the folder is removed while it is in use") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    fs::remove_all(folder / "root");
    CHECK_FALSE(store.look_up(key_of(1)));
    CHECK(store.lock(key_of(1), {}).held());
    REQUIRE(store.publish(key_of(1), cubin_metadata(), cubin()));
    CHECK(store.look_up(key_of(1)));
    CHECK(Store(quick(folder / "root")).look_up(key_of(1)));
    fs::rename(folder / "root", folder / "old");
    REQUIRE(store.publish(key_of(2), cubin_metadata(), cubin()));
    CHECK(fs::exists(entry_path(folder / "root", key_of(2))));
  }

  TEST_CASE("a cache can be moved and copied") {
    TemporaryFolder folder;
    REQUIRE(Store(quick(folder / "root")).publish(key_of(1), cubin_metadata(), cubin(500, 1)));
    fs::copy(folder / "root", folder / "ein Ort mit Ümläuten und 日本",
             fs::copy_options::recursive);
    fs::permissions(folder / "ein Ort mit Ümläuten und 日本", fs::perms::owner_all);
    fs::rename(folder / "root", folder / "moved");
    for (const fs::path& root : {folder / "moved", folder / "ein Ort mit Ümläuten und 日本"}) {
      const LookUp found = Store(quick(root)).look_up(key_of(1));
      REQUIRE(found.entry);
      CHECK(found.entry->payload == cubin(500, 1));
      CHECK(Store(quick(root)).verify(false).damaged.empty());
    }
  }

  TEST_CASE("own root, then read-only roots, then bundles") {
    TemporaryFolder folder;
    const auto fill = [&](const std::string& name, unsigned seed) {
      const Store store(quick(folder / name));
      for (std::uint64_t number = seed; number < 4; ++number) {
        REQUIRE(store.publish(key_of(number), cubin_metadata(), cubin(64, seed)));
      }
    };
    fill("own", 3);
    fill("first", 2);
    fill("second", 1);
    fill("packed", 0);
    REQUIRE(Store(quick(folder / "packed")).export_bundle(folder / "bundle").ok);

    StoreOptions options = quick(folder / "own");
    options.read_only_roots = {folder / "first", folder / "missing", folder / "second"};
    options.bundles = {{.path = folder / "bundle"}};
    const Store store(options);
    REQUIRE(store.problems().size() == 1);
    CHECK(store.problems().front().find((folder / "missing").string()) != std::string::npos);
    const Origin origins[] = {Origin::bundle, Origin::read_only_root, Origin::read_only_root,
                              Origin::own_root};
    for (unsigned number = 0; number < 4; ++number) {
      const LookUp found = store.look_up(key_of(number));
      REQUIRE(found.entry);
      CHECK(found.entry->payload == cubin(64, number));
      CHECK(found.entry->origin == origins[number]);
    }
  }

  TEST_CASE("damage in a read-only root is skipped, not removed") {
    TemporaryFolder folder;
    for (const char* name : {"a", "b"}) {
      REQUIRE(Store(quick(folder / name)).publish(key_of(1), cubin_metadata(), cubin()));
    }
    write_text(entry_path(folder / "a", key_of(1)), "damage");
    StoreOptions options;
    options.read_only_roots = {folder / "a", folder / "b"};
    const Store store(options);
    const LookUp found = store.look_up(key_of(1));
    REQUIRE(found.entry);
    REQUIRE(found.misses.size() == 1);
    CHECK_FALSE(found.misses.front().removed);
    CHECK(store.verify(true).damaged.size() == 1);
    CHECK(fs::exists(entry_path(folder / "a", key_of(1))));
    CHECK_FALSE(store.writable());
    CHECK(store.discard(key_of(1)) == 0);
    CHECK(store.clear().removed == 0);

    StoreOptions frozen = quick(folder / "a");
    frozen.read_only = true;
    CHECK_FALSE(Store(frozen).look_up(key_of(1)));
    CHECK(Store(frozen).publish(key_of(2), cubin_metadata(), cubin()).failure ==
          PublishFailure::read_only);
    CHECK(fs::exists(entry_path(folder / "a", key_of(1))));
    frozen.root = folder / "never made";
    CHECK(Store(frozen).problems().size() == 1);
    CHECK_FALSE(fs::exists(folder / "never made"));
  }

  TEST_CASE("what may not be published") {
    TemporaryFolder folder;
    StoreOptions options = quick(folder / "root");
    options.max_bytes = 10'000;
    const Store store(options);
    const auto failure = [&](const Metadata& metadata, const Bytes& payload) {
      const Published result = store.publish(key_of(1), metadata, payload);
      CHECK_FALSE(result.detail.empty());
      return result.failure;
    };
    Metadata kind = cubin_metadata();
    kind.kind = "";
    Metadata target = cubin_metadata();
    target.target = "";
    CHECK(failure(kind, cubin()) == PublishFailure::invalid);
    CHECK(failure(target, cubin()) == PublishFailure::invalid);
    CHECK(failure(cubin_metadata("../../up"), cubin()) == PublishFailure::invalid);
    CHECK(failure(cubin_metadata("nvrtc-13", 80), cubin()) == PublishFailure::invalid);
    CHECK(failure(cubin_metadata(), {}) == PublishFailure::invalid);
    CHECK(failure(cubin_metadata(), cubin(10'000)) == PublishFailure::too_large);
    CHECK(store.totals().entries == 0);
  }

  TEST_CASE("discard") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    for (const char* builder : {"nvrtc-12.8.93", "nvrtc-13.0.88"}) {
      REQUIRE(store.publish(key_of(1), cubin_metadata(builder), cubin()));
      REQUIRE(store.publish(key_of(2), cubin_metadata(builder), cubin()));
    }
    CHECK(store.discard(key_of(1), "nvrtc-13.0.88") == 1);
    CHECK(store.discard(key_of(1), "nvrtc-13.0.88") == 0);
    CHECK(store.discard(key_of(1), "../x") == 0);
    CHECK(builder_found(store.look_up(key_of(1))) == "nvrtc-12.8.93");
    CHECK(store.discard(key_of(2)) == 2);
    CHECK(store.totals().entries == 1);
  }
}

}  // namespace
}  // namespace tilec::cache::test

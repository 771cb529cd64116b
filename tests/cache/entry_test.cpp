// An entry's bytes: what was published comes back; anything changed is a miss with its reason, is
// removed, and heals.
#include <cstring>
#include <random>

#include "bytes.h"
#include "doctest/doctest.h"
#include "entry_format.h"
#include "metadata.h"
#include "support.h"

namespace tilec::cache::test {
namespace {

// A store with one small entry, whose file a test may spoil.
struct OneEntry {
  TemporaryFolder folder;
  Store store{quick(folder / "root")};
  Key key = key_of(1);
  Bytes payload = cubin(80, 3);
  fs::path path = entry_path(folder / "root", key);

  OneEntry() { publish(); }
  void publish() { REQUIRE(store.publish(key, cubin_metadata(), payload)); }

  // The miss that spoilt bytes give; checks that they did no harm.
  Miss spoil(std::span<const std::byte> bytes) {
    write_file(path, bytes);
    const LookUp found = store.look_up(key);
    REQUIRE_FALSE(found.entry);
    REQUIRE(found.misses.size() == 1);
    return found.misses.front();
  }
};

Bytes concatenated(Bytes head, const Bytes& payload) {
  head.insert(head.end(), payload.begin(), payload.end());
  return head;
}

// A header whose checksum is right although `offset` holds something else.
template <class Number>
Bytes with_header_number(Bytes entry, std::size_t offset, Number value) {
  store_number(entry.data() + offset, value);
  const Digest whole = digest(std::span(entry).first(80));
  std::memcpy(entry.data() + 80, whole.data(), whole.size());
  return entry;
}

Bytes with_metadata(const Key& key, const std::string& fields, const Bytes& payload) {
  Bytes out(96);
  const Bytes model = encode_entry_head(key, cubin_metadata(), payload);
  std::memcpy(out.data(), model.data(), 96);
  store_number(out.data() + 16, std::uint64_t{fields.size()});
  const Digest of_fields = digest(as_bytes(fields));
  std::memcpy(out.data() + 48, of_fields.data(), 16);
  out = with_header_number(out, 16, std::uint64_t{fields.size()});
  const auto bytes = as_bytes(fields);
  out.insert(out.end(), bytes.begin(), bytes.end());
  return concatenated(std::move(out), payload);
}

TEST_SUITE("cpu tsan") {
  TEST_CASE("what was published comes back") {
    TemporaryFolder folder;
    const Store store(quick(folder / "a/b/c"));
    Metadata metadata = cubin_metadata();
    metadata.log = "ptxas info : Used 96 registers\n";
    metadata.notes = {{"problem", "{\"M\": 1024}"}, {"", "empty name"}};
    metadata.entries.push_back(
        {.name = "reduce", .local_bytes = 16, .spill_store_bytes = 4, .spill_load_bytes = 8});
    metadata.parameters["ü"] = std::string("a\0b\n", 4);
    metadata.least_driver = -1;
    metadata.build_seconds = 1.234567;
    for (const std::size_t size : {64u, 65u, 4096u, 100'000u}) {
      const Bytes payload = cubin(size, 5);
      REQUIRE(store.publish(key_of(size), metadata, payload));
      const LookUp found = store.look_up(key_of(size));
      REQUIRE(found.entry);
      CHECK(found.misses.empty());
      CHECK(found.entry->metadata == metadata);
      CHECK(found.entry->payload == payload);
      CHECK(found.entry->key == key_of(size));
      CHECK(found.entry->origin == Origin::own_root);
      CHECK(found.entry->path == entry_path(folder / "a/b/c", key_of(size)));
      const auto seen = store.peek(key_of(size));
      REQUIRE(seen);
      CHECK(seen->metadata == metadata);
      CHECK(seen->payload_bytes == size);
    }
    CHECK(store.problems().empty());
  }

  TEST_CASE("a miss says why") {
    TemporaryFolder folder;
    const Store store(quick(folder / "root"));
    const LookUp found = store.look_up(key_of(1));
    CHECK_FALSE(found);
    REQUIRE(found.misses.size() == 1);
    CHECK(found.misses.front().reason == MissReason::never_built);
    const Store nowhere(StoreOptions{});
    REQUIRE(nowhere.look_up(key_of(1)).misses.size() == 1);
    CHECK(nowhere.look_up(key_of(1)).misses.front().reason == MissReason::no_root);
    CHECK(nowhere.publish(key_of(1), cubin_metadata(), cubin()).failure == PublishFailure::no_root);
  }

  TEST_CASE("other bytes under the name") {
    OneEntry one;
    const Bytes good = read_file(one.path);
    const Bytes other =
        concatenated(encode_entry_head(key_of(2), cubin_metadata(), one.payload), one.payload);
    const Bytes other_builder = concatenated(
        encode_entry_head(one.key, cubin_metadata("nvrtc-12.8.93"), one.payload), one.payload);
    const Bytes other_target = concatenated(
        encode_entry_head(one.key, cubin_metadata("nvrtc-13.0.88", 80), one.payload), one.payload);
    Bytes longer = good;
    longer.push_back(std::byte{0});
    struct Case {
      const char* what;
      Bytes bytes;
      MissReason reason;
    };
    for (const Case& each : std::vector<Case>{
             {"another key's entry", other, MissReason::wrong_key},
             {"another builder's entry", other_builder, MissReason::wrong_key},
             {"a cubin for another target", other_target, MissReason::wrong_payload},
             {"a byte more", longer, MissReason::truncated},
             {"nothing", {}, MissReason::truncated},
             {"text", Bytes(200, std::byte{'x'}), MissReason::bad_magic},
             {"zeros", Bytes(good.size()), MissReason::bad_magic},
             {"metadata of 2^63 bytes", with_header_number(good, 16, std::uint64_t{1} << 63),
              MissReason::malformed},
             {"metadata of 2^64-1 bytes", with_header_number(good, 16, ~std::uint64_t{0}),
              MissReason::malformed},
             {"a payload of 2^62 bytes", with_header_number(good, 24, std::uint64_t{1} << 62),
              MissReason::malformed},
             {"format 0", with_header_number(good, 8, std::uint32_t{0}), MissReason::malformed},
             {"fields that end early", with_metadata(one.key, "abc", one.payload),
              MissReason::malformed},
             {"a number that is none",
              with_metadata(
                  one.key,
                  [] {
                    FieldWriter fields;
                    fields.add("least_driver", "12x");
                    return fields.str();
                  }(),
                  one.payload),
              MissReason::malformed},
             {"no kind", with_metadata(one.key, "", one.payload), MissReason::malformed}}) {
      CAPTURE(each.what);
      const Miss miss = one.spoil(each.bytes);
      CHECK(miss.reason == each.reason);
      CHECK(miss.removed);
      CHECK(miss.path == one.path);
      CHECK_FALSE(miss.detail.empty());
      CHECK_FALSE(fs::exists(one.path));
      one.publish();
      CHECK(one.store.look_up(one.key));
    }
  }

  TEST_CASE("a later format is left alone, and may be built over") {
    OneEntry one;
    const Bytes later = with_header_number(read_file(one.path), 8, std::uint32_t{2});
    const Miss miss = one.spoil(later);
    CHECK(miss.reason == MissReason::newer_format);
    CHECK_FALSE(miss.removed);
    CHECK(read_file(one.path) == later);
    one.publish();
    CHECK(one.store.look_up(one.key));
  }

  TEST_CASE("fields that a later tilec adds are passed over") {
    OneEntry one;
    FieldWriter more;
    more.add("colour", "green");
    write_file(one.path,
               with_metadata(one.key, encode_metadata(cubin_metadata()) + more.str(), one.payload));
    const LookUp found = one.store.look_up(one.key);
    REQUIRE(found.entry);
    CHECK(found.entry->metadata == cubin_metadata());
  }

  TEST_CASE("truncated at each length") {
    OneEntry one;
    const Bytes good = read_file(one.path);
    for (std::size_t size = 0; size < good.size(); ++size) {
      CAPTURE(size);
      const Miss miss = one.spoil(std::span(good).first(size));
      CHECK(miss.reason == MissReason::truncated);
      CHECK(miss.removed);
    }
    one.publish();
    CHECK(read_file(one.path) == good);
  }

  TEST_CASE("random bytes of any length") {
    OneEntry one;
    std::mt19937 random(1);
    for (int i = 0; i < 300; ++i) {
      Bytes bytes(random() % 400);
      for (std::byte& each : bytes) each = static_cast<std::byte>(random());
      const Miss miss = one.spoil(bytes);
      CHECK((miss.reason == MissReason::bad_magic || miss.reason == MissReason::truncated));
      CHECK(miss.removed);
    }
  }
}

TEST_SUITE("cpu") {
  TEST_CASE("every single bit") {
    OneEntry one;
    const Bytes good = read_file(one.path);
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      CAPTURE(bit);
      Bytes bad = good;
      bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      const Miss miss = one.spoil(bad);
      CHECK(miss.reason == (bit < 64 ? MissReason::bad_magic : MissReason::checksum));
      CHECK(miss.removed);
    }
    CHECK_FALSE(fs::exists(one.path));
    one.publish();
    CHECK(read_file(one.path) == good);
  }
}

}  // namespace
}  // namespace tilec::cache::test

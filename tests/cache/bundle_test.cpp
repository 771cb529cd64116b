// Bundles: out and in again, mounted from a file and from memory, and hostile ones.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include "bundle.h"
#include "bytes.h"
#include "doctest/doctest.h"
#include "entry_format.h"
#include "support.h"

namespace tilec::cache::test {
namespace {

Bytes entry_bytes(const Key& key, const Metadata& metadata, const Bytes& payload) {
  Bytes out = encode_entry_head(key, metadata, payload);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

struct Member {
  BundleRecord record;
  Bytes bytes;
};

Member member(unsigned number, const std::string& builder = "nvrtc-13.0.88") {
  const Bytes payload = cubin(64, number);
  Member out{{key_of(number), builder, 0, 0, {}},
             entry_bytes(key_of(number), cubin_metadata(builder), payload)};
  std::memcpy(out.record.header_digest.data(), out.bytes.data() + 80, 16);
  return out;
}

// A bundle whose checksums hold, whatever its members are.
void write_bundle(const fs::path& path, const std::vector<Member>& members) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  BundleWriter writer(file.get());
  REQUIRE(writer.begin());
  for (const Member& each : members) REQUIRE(writer.add(each.record, each.bytes));
  REQUIRE(writer.finish());
}

constexpr std::size_t record_bytes = 112;
constexpr std::size_t footer_bytes = 64;

// Makes the checksums of index and footer right again after `change` has been at the bytes.
Bytes with_lies(Bytes bytes, std::size_t index_offset, const std::function<void(Bytes&)>& change) {
  change(bytes);
  const std::size_t footer = bytes.size() - footer_bytes;
  const std::span all(bytes);
  const Digest index = digest(all.subspan(index_offset, footer - index_offset));
  std::memcpy(bytes.data() + footer + 16, index.data(), 16);
  DigestStream whole;
  whole.add(all.first(32));
  whole.add(all.subspan(footer, 32));
  whole.add(all.subspan(footer + 48));
  const Digest value = whole.finish();
  std::memcpy(bytes.data() + footer + 32, value.data(), 16);
  return bytes;
}

std::vector<Member> sorted(std::vector<Member> members) {
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.record < b.record; });
  return members;
}

// A store of three entries of two builders, and its bundle.
struct Exported {
  TemporaryFolder folder;
  Store store{quick(folder / "source")};
  fs::path bundle = folder / "bundle";

  Exported() {
    REQUIRE(store.publish(key_of(1), cubin_metadata("nvrtc-13.0.88"), cubin(500, 1)));
    REQUIRE(store.publish(key_of(1), cubin_metadata("nvrtc-12.8.93"), cubin(400, 2)));
    Metadata other = cubin_metadata("nvrtc-13.0.88", 80);
    other.template_name = "add";
    REQUIRE(store.publish(key_of(2), other, cubin(300, 3, 80)));
  }
  BundleReport write(const Filter& filter = {}) const {
    return store.export_bundle(bundle, filter);
  }
};

Store mounted(const fs::path& path) {
  StoreOptions options;
  options.bundles = {{.path = path}};
  return Store(options);
}

TEST_SUITE("cpu tsan") {
  TEST_CASE("out and in again") {
    const Exported from;
    const BundleReport report = from.write();
    REQUIRE(report.ok);
    CHECK(report.entries == 3);
    CHECK(report.bytes == fs::file_size(from.bundle));
    CHECK(report.skipped.empty());

    const Store to(quick(from.folder / "target"));
    BundleReport in = to.import_bundle(from.bundle);
    REQUIRE(in.ok);
    CHECK(in.entries == 3);
    CHECK(in.already_there == 0);
    for (const char* builder : {"nvrtc-12.8.93", "nvrtc-13.0.88"}) {
      CHECK(read_file(entry_path(from.folder / "source", key_of(1), builder)) ==
            read_file(entry_path(from.folder / "target", key_of(1), builder)));
    }
    CHECK(to.look_up(key_of(1)).entry->payload == cubin(500, 1));
    CHECK(to.look_up(key_of(2)).entry->metadata.template_name == "add");
    CHECK(leftovers(from.folder / "target").empty());

    write_text(entry_path(from.folder / "target", key_of(2)), "damage");
    in = to.import_bundle(from.bundle);
    CHECK(in.entries == 1);
    CHECK(in.already_there == 2);
    CHECK(to.verify(false).good == 3);
    CHECK(to.export_bundle(from.folder / "again").ok);
    CHECK(read_file(from.bundle) == read_file(from.folder / "again"));
  }

  TEST_CASE("filters") {
    const Exported from;
    CHECK(from.write({.target = "sm_80"}).entries == 1);
    CHECK(from.write({.template_name = "gemm_regn"}).entries == 2);
    CHECK(from.write({.builder = "nvrtc-12.8.93"}).entries == 1);
    CHECK(from.write({.kind = "ptx"}).entries == 0);
    CHECK(mounted(from.bundle).problems().empty());
    CHECK(from.write({.key = key_of(1)}).entries == 2);
  }

  TEST_CASE("mounted from a file and from memory") {
    const Exported from;
    REQUIRE(from.write().ok);
    const Bytes bytes = read_file(from.bundle);
    StoreOptions embedded;
    embedded.bundles = {{.bytes = bytes, .name = "kernels of the program"}};
    for (const Store& store : {mounted(from.bundle), Store(embedded)}) {
      CHECK(store.problems().empty());
      const LookUp newest = store.look_up(key_of(1));
      REQUIRE(newest.entry);
      CHECK(newest.entry->payload == cubin(500, 1));
      CHECK(store.look_up(key_of(1), {.skip_builders = {"nvrtc-13.0.88"}}).entry->payload ==
            cubin(400, 2));
      CHECK(store.look_up(key_of(2), {.require_builder = "nvrtc-12.8.93"}).misses.front().reason ==
            MissReason::other_builder);
      CHECK(store.look_up(key_of(3)).misses.front().reason == MissReason::never_built);
      CHECK(store.verify(true).good == 3);
      CHECK(store.builders().size() == 2);
      CHECK(store.export_bundle(from.folder / "copy").ok);
      CHECK(read_file(from.folder / "copy") == bytes);
    }
    CHECK(mounted(from.bundle).look_up(key_of(1)).entry->origin == Origin::bundle);
    CHECK(mounted(from.bundle).look_up(key_of(1)).entry->path == from.bundle);
    CHECK(Store(embedded).look_up(key_of(1)).entry->origin == Origin::embedded_bundle);
  }

  TEST_CASE("an export leaves damage out, and merges roots") {
    const Exported from;
    write_text(entry_path(from.folder / "source", key_of(2)), "damage");
    BundleReport report = from.write();
    CHECK(report.ok);
    CHECK(report.entries == 2);
    CHECK(report.skipped.size() == 1);
    // A second root has the entry whole, and another's version of one that the first has too.
    const Store second(quick(from.folder / "second"));
    REQUIRE(second.publish(key_of(2), cubin_metadata(), cubin(300, 3)));
    REQUIRE(second.publish(key_of(1), cubin_metadata(), cubin(500, 9)));
    StoreOptions options = quick(from.folder / "source");
    options.read_only_roots = {from.folder / "second"};
    report = Store(options).export_bundle(from.bundle);
    CHECK(report.entries == 3);
    CHECK(mounted(from.bundle).look_up(key_of(2)));
    CHECK(mounted(from.bundle).look_up(key_of(1)).entry->payload == cubin(500, 1));
  }

  TEST_CASE("files that the first tilec wrote stay readable") {
    TemporaryFolder folder;
    const fs::path corpus = TILEC_CACHE_CORPUS;
    const Store store(quick(folder / "root"));
    REQUIRE(store.import_bundle(corpus / "bundle/three").entries == 3);
    Metadata metadata = cubin_metadata();
    metadata.log = "info";
    metadata.notes = {{"a", "b"}};
    const LookUp found = store.look_up(key_of(1));
    REQUIRE(found.entry);
    CHECK(found.entry->metadata == metadata);
    CHECK(found.entry->payload == cubin(64, 1));
    // And today's are the same, byte for byte.
    CHECK(read_file(found.entry->path) == read_file(corpus / "entry/cubin"));
    REQUIRE(store.publish(key_of(1), metadata, cubin(64, 1)));
    CHECK(read_file(found.entry->path) == read_file(corpus / "entry/cubin"));
    REQUIRE(store.export_bundle(folder / "bundle").ok);
    CHECK(read_file(folder / "bundle") == read_file(corpus / "bundle/three"));
  }

  TEST_CASE("through a pipe") {
    const Exported from;
    REQUIRE(from.write().ok);
    const fs::path pipe = from.folder / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    BundleReport out;
    std::jthread writing([&] { out = from.store.export_bundle(pipe); });
    const Store to(quick(from.folder / "target"));
    const BundleReport in = to.import_bundle(pipe);
    writing.join();
    CHECK(out.ok);
    CHECK(in.ok);
    CHECK(in.entries == 3);
    CHECK(leftovers(from.folder / "target").empty());
    CHECK_FALSE(fs::is_regular_file(pipe));
  }

  TEST_CASE("what can't be written or read") {
    const Exported from;
    const BundleReport nowhere = from.store.export_bundle(from.folder / "no/such/folder/bundle");
    CHECK_FALSE(nowhere.ok);
    CHECK(nowhere.detail.find("no/such/folder") != std::string::npos);
    CHECK_FALSE(from.store.export_bundle(from.folder.path()).ok);
    // Only a bundle is replaced, and an empty file.
    for (const std::string text : {"int main() {}\n", "x"}) {
      write_text(from.folder / "main.cpp", text);
      const BundleReport refused = from.store.export_bundle(from.folder / "main.cpp");
      CHECK_FALSE(refused.ok);
      CHECK(refused.detail == (from.folder / "main.cpp").string() +
                                  " can't be written: it exists and is no bundle; remove it, or "
                                  "name another file");
      CHECK(read_file(from.folder / "main.cpp").size() == text.size());
    }
    write_text(from.folder / "main.cpp", "");
    for (int time = 0; time < 2; ++time) {
      CHECK(from.store.export_bundle(from.folder / "main.cpp").ok);
    }
    for (const fs::path& path :
         {from.folder / "missing", from.folder.path(), fs::path("/dev/null")}) {
      const BundleReport in = from.store.import_bundle(path);
      CHECK_FALSE(in.ok);
      CHECK(in.detail.find(path.string()) != std::string::npos);
    }
    CHECK(mounted(from.folder / "missing").problems().size() == 1);
    CHECK(mounted(from.folder.path()).problems().size() == 1);
    CHECK(mounted("/dev/null").problems().size() == 1);
  }

  TEST_CASE("hostile members") {
    struct Case {
      std::string what;
      std::vector<Member> members;
    };
    Member wrong_name = member(1);
    wrong_name.record.key = key_of(2);
    Member wrong_builder = member(1);
    wrong_builder.record.builder = "nvrtc-12.8.93";
    Member wrong_digest = member(1);
    wrong_digest.record.header_digest[0] ^= 1;
    Member wrong_target{member(1).record,
                        entry_bytes(key_of(1), cubin_metadata("nvrtc-13.0.88", 80), cubin())};
    std::memcpy(wrong_target.record.header_digest.data(), wrong_target.bytes.data() + 80, 16);
    Member damaged = member(1);
    damaged.bytes.back() ^= std::byte{1};
    Member short_member = member(1);
    short_member.bytes.pop_back();
    Member empty_member = member(1);
    empty_member.bytes.clear();
    std::vector<Member> reversed = sorted({member(1), member(2), member(3)});
    std::swap(reversed.front(), reversed.back());
    std::vector<Case> cases = {{"a member under another's name", {wrong_name}},
                               {"a member under another builder", {wrong_builder}},
                               {"another entry than the index names", {wrong_digest}},
                               {"a cubin for another target", {wrong_target}},
                               {"a damaged member", sorted({member(2), damaged, member(3)})},
                               {"a short member", {short_member}},
                               {"an empty member", {empty_member}},
                               {"the same member twice", {member(1), member(1)}},
                               {"members out of order", reversed}};
    for (const char* name : {"../../../up", "/etc/passwd", "..", ".hidden", "a/b", "", "a b"}) {
      Member escaping = member(1);
      escaping.record.builder = name;
      cases.push_back({name, {escaping}});
    }
    for (const Case& each : cases) {
      CAPTURE(each.what);
      TemporaryFolder folder;
      write_bundle(folder / "bundle", each.members);
      const Store store(quick(folder / "root"));
      const BundleReport report = store.import_bundle(folder / "bundle");
      CHECK_FALSE(report.ok);
      CHECK_FALSE(report.detail.empty());
      CHECK(store.totals().entries == 0);
      CHECK_FALSE(mounted(folder / "bundle").look_up(key_of(1)).entry.has_value());
      for (const auto& file : fs::recursive_directory_iterator(folder.path())) {
        const std::string name = file.path().string();
        CHECK((file.is_directory() || file.path() == folder / "bundle" ||
               name.find("/root/") != std::string::npos));
      }
    }
    TemporaryFolder folder;
    write_bundle(folder / "bundle", sorted({member(1), member(2), member(2, "nvrtc-12.8.93")}));
    CHECK(Store(quick(folder / "root")).import_bundle(folder / "bundle").entries == 3);
    write_bundle(folder / "bundle", {});
    CHECK(Store(quick(folder / "root")).import_bundle(folder / "bundle").ok);
  }

  TEST_CASE("an index that lies") {
    TemporaryFolder folder;
    write_bundle(folder / "bundle", sorted({member(1), member(2)}));
    const Bytes good = read_file(folder / "bundle");
    const std::size_t footer = good.size() - footer_bytes;
    const std::size_t index = footer - 2 * record_bytes;
    const std::uint64_t first_bytes = load_number<std::uint64_t>(good.data() + index + 24);
    struct Case {
      std::string what;
      std::size_t at;
      std::uint64_t value;
    };
    const auto index_of = [&](const std::vector<Case>& lies) {
      const Bytes bytes = with_lies(good, index, [&](Bytes& each) {
        for (const Case& lie : lies) store_number(each.data() + lie.at, lie.value);
      });
      return read_bundle_index(read_from(bytes), bytes.size());
    };
    CHECK(index_of({}).fault.empty());
    CHECK(index_of({}).records.size() == 2);
    for (const Case& each : std::vector<Case>{
             {"the first begins in the header", index + 16, 0},
             {"the first begins late", index + 16, 33},
             {"the first is shorter", index + 24, first_bytes - 1},
             {"the first reaches into the second", index + 24, first_bytes + 1},
             {"the first is endless", index + 24, ~std::uint64_t{0}},
             {"the first ends where it began, around", index + 24, ~std::uint64_t{31}},
             {"the second is the first", index + record_bytes + 16, 32},
             {"the second reaches into the index", index + record_bytes + 24, first_bytes + 1},
             {"the index begins in the header", footer, 0},
             {"the index begins behind the end", footer, good.size()},
             {"the index begins nowhere", footer, ~std::uint64_t{0}},
             {"no entries", footer + 8, 0},
             {"one entry", footer + 8, 1},
             {"entries without end", footer + 8, ~std::uint64_t{0}},
             {"entries that overflow", footer + 8, (~std::uint64_t{0} / record_bytes) + 3}}) {
      CAPTURE(each.what);
      CHECK_FALSE(index_of({each}).fault.empty());
      CHECK(index_of({each}).records.empty());
    }
    CHECK_FALSE(index_of({{"later format", 8, 2 | std::uint64_t{32} << 32}}).fault.empty());
    CHECK_FALSE(index_of({{"not ASCII", index + 48, ~std::uint64_t{0}}}).fault.empty());
    CHECK_FALSE(index_of({{"bytes behind the builder's name", index + 48 + 56, 1}}).fault.empty());
    // Both records move together: then the first entry has bytes before it that are nobody's.
    CHECK_FALSE(index_of({{"a gap", index + 16, 33},
                          {"a gap", index + record_bytes + 16, 33 + first_bytes}})
                    .fault.empty());
  }

  TEST_CASE("damage in a mounted bundle is a miss, and is left alone") {
    TemporaryFolder folder;
    write_bundle(folder / "bundle", sorted({member(1), member(2)}));
    const Store store = mounted(folder / "bundle");
    const Bytes good = read_file(folder / "bundle");
    Bytes bad = good;
    for (std::size_t i = 200; i < 300; ++i) bad[i] ^= std::byte{0xff};
    {
      const Descriptor file(::open((folder / "bundle").c_str(), O_WRONLY));
      REQUIRE(write_all(file.get(), bad));
    }
    int hits = 0;
    for (unsigned number : {1u, 2u}) {
      const LookUp found = store.look_up(key_of(number));
      if (found.entry) ++hits;
      if (!found.entry) CHECK(found.misses.front().reason == MissReason::checksum);
    }
    CHECK(hits == 1);
    CHECK(read_file(folder / "bundle") == bad);
    fs::resize_file(folder / "bundle", 100);
    CHECK(store.look_up(key_of(1)).misses.front().reason == MissReason::truncated);
    CHECK(store.look_up(key_of(2)).misses.front().reason == MissReason::truncated);
  }
}

TEST_SUITE("cpu") {
  TEST_CASE("every bit and every length of a small bundle") {
    TemporaryFolder folder;
    write_bundle(folder / "bundle", {member(1)});
    const Bytes good = read_file(folder / "bundle");
    const Store store(quick(folder / "root"));
    const auto refused = [&](std::span<const std::byte> bytes) {
      const BundleIndex index = read_bundle_index(read_from(bytes), bytes.size());
      if (index.fault.empty()) {
        // The index is whole: then a member is not, and reading it says so.
        REQUIRE(index.records.size() == 1);
        StoreOptions options;
        options.bundles = {{.bytes = bytes, .name = "bundle"}};
        const LookUp found = Store(options).look_up(key_of(1));
        if (found.entry) return false;
      }
      write_file(folder / "bundle", bytes);
      return !store.import_bundle(folder / "bundle").ok;
    };
    REQUIRE_FALSE(refused(good));
    REQUIRE(store.import_bundle(folder / "bundle").entries == 1);
    REQUIRE(store.clear().removed == 1);
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      CAPTURE(bit);
      Bytes bad = good;
      bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      CHECK(refused(bad));
    }
    for (std::size_t size = 0; size < good.size(); ++size) {
      CAPTURE(size);
      CHECK(refused(std::span(good).first(size)));
    }
    Bytes longer = good;
    longer.push_back(std::byte{0});
    CHECK(refused(longer));
    CHECK(store.totals().entries == 0);
  }

  TEST_CASE("many entries, more than one batch, and a bound") {
    TemporaryFolder folder;
    const Store from(quick(folder / "source"));
    constexpr unsigned count = 600;
    for (unsigned number = 0; number < count; ++number) {
      REQUIRE(from.publish(key_of(number), cubin_metadata(), cubin(1000 + number, number)));
    }
    REQUIRE(from.export_bundle(folder / "bundle").entries == count);
    StoreOptions options = quick(folder / "target");
    options.sync = true;
    const Store to(options);
    CHECK(to.import_bundle(folder / "bundle").entries == count);
    CHECK(to.verify(false).good == count);
    for (unsigned number = 0; number < count; number += 37) {
      CHECK(to.look_up(key_of(number)).entry->payload == cubin(1000 + number, number));
    }
    StoreOptions small = quick(folder / "small");
    small.max_bytes = 100'000;
    const Store bounded(small);
    const BundleReport part = bounded.import_bundle(folder / "bundle");
    CHECK(bounded.totals().bytes <= 100'000);
    CHECK(bounded.totals().entries > 30);
    // What the bound removes again is not said to be imported.
    CHECK_FALSE(part.ok);
    CHECK(part.entries == bounded.totals().entries);
    CHECK(part.bytes == bounded.totals().bytes);
    CHECK(part.missing == count - part.entries);
    CHECK(part.skipped.empty());
    CHECK(part.detail.find(std::to_string(part.needed_bytes)) != std::string::npos);
    // The size it names is the size it takes, and what is there counts as wanted.
    small.max_bytes = part.needed_bytes;
    const BundleReport whole = Store(small).import_bundle(folder / "bundle");
    CHECK(whole.ok);
    CHECK(whole.missing == 0);
    CHECK(whole.already_there == part.entries);
    CHECK(whole.entries == part.missing);
    CHECK(whole.needed_bytes == 0);
  }
}

}  // namespace
}  // namespace tilec::cache::test

// From a problem to an artifact, across processes: one compile for all, the same key wherever and
// whoever, disk hits that open no compiler, caches of other users.
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "small_engine.h"

namespace tilec::test {
namespace {

constexpr unsigned kSomeone = 54321;  // a user with no account

std::string value(const Ended& ended, const std::string& name) {
  const std::string mark = "\n" + name + "=";
  const std::string text = "\n" + ended.output;
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) return "no " + name + " in:\n" + ended.output;
  const std::size_t start = at + mark.size();
  return text.substr(start, text.find('\n', start) - start);
}

Environment cache_at(const fs::path& folder) {
  return {{"TILEC_CACHE_DIR", folder.string()}};
}

Environment operator+(Environment one, const Environment& other) {
  for (const auto& [name, text] : other) one[name] = text;
  return one;
}

TEST_SUITE("nvrtc") {
  TEST_CASE("processes: at a barrier with an empty cache, one compiles") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Child child{.arguments = {"plan", "barrier"}, .environment = cache_at(folder / "cache")};
    std::set<std::string> keys;
    int compiles = 0;
    for (const Ended& ended : run_together(std::vector<Child>(12, child))) {
      CAPTURE(ended.output);
      CHECK(ended.status == 0);
      compiles += std::stoi(value(ended, "compiles"));
      keys.insert(value(ended, "key"));
    }
    CHECK(compiles == 1);
    CHECK(keys.size() == 1);
    CHECK(entries_in(folder / "cache").size() == 1);
  }

  TEST_CASE("processes: a disk hit opens neither NVRTC nor the driver") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Child child{.arguments = {"plan"}, .environment = cache_at(folder / "cache")};
    const Ended cold = run(child);
    CHECK(value(cold, "origin") == "compiler");
    CHECK(value(cold, "nvrtc") == "1");
    const Ended hit = run(child);
    CHECK(value(hit, "origin") == "disk");
    CHECK(value(hit, "nvrtc") == "0");
    CHECK(value(hit, "driver") == "0");
    CHECK(value(hit, "key") == value(cold, "key"));
    CHECK(value(hit, "path") == entries_in(folder / "cache").at(0).string());
    Child must = child;
    must.environment["TILEC_CACHE_POLICY"] = "must_hit";
    must.arguments.push_back("number=2");
    const Ended miss = run(must);
    CHECK(value(miss, "error").starts_with("cache_miss"));
    CHECK(value(miss, "nvrtc") == "0");
  }

  TEST_CASE("processes: the same key whatever folder, locale, user, cache and NVRTC's place") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    fs::permissions(folder.path().parent_path(), fs::perms(0755));
    fs::permissions(folder.path(), fs::perms(0755));
    fs::create_directories(folder / "elsewhere");
    const Ended first = run({.arguments = {"plan"}, .environment = cache_at(folder / "first")});
    const std::string key = value(first, "key");
    CHECK(key.size() == 32);

    std::vector<Child> children;
    children.push_back({.arguments = {"plan"},
                        .environment = cache_at(folder / "second"),
                        .folder = folder / "elsewhere"});
    children.push_back(
        {.arguments = {"plan", "locale=comma"}, .environment = cache_at(folder / "third")});
    children.push_back({.arguments = {"plan"},
                        .environment = cache_at("relative/cache") + Environment{{"HOME", {}}},
                        .folder = folder / "elsewhere"});
    children.push_back(
        {.arguments = {"plan"},
         .environment =
             cache_at(folder / "fourth") +
             Environment{{"USER", "someone"}, {"TZ", "Asia/Tokyo"}, {"SOURCE_DATE_EPOCH", "1"}}});
    if (is_root() && has_nvrtc(kSomeone)) {
      fs::create_directories(folder / "theirs");
      REQUIRE(chown((folder / "theirs").c_str(), kSomeone, kSomeone) == 0);
      children.push_back({.arguments = {"plan"},
                          .environment = cache_at(folder / "theirs" / "cache"),
                          .user = kSomeone});
    }
    for (const Child& child : children) {
      const Ended ended = run(child);
      CHECK_MESSAGE(value(ended, "origin") == "compiler", ended.output);
      CHECK(value(ended, "key") == key);
    }
    // And the code is the same, byte for byte.
    std::set<std::string> images;
    for (const char* name : {"first", "second", "third", "fourth", "elsewhere/relative/cache"}) {
      const cache::Store store({.root = folder / name});
      const cache::LookUp found = store.look_up(*cache::Key::parse(key));
      CAPTURE(std::string(name));
      REQUIRE(found);
      images.emplace(reinterpret_cast<const char*>(found.entry->payload.data()),
                     found.entry->payload.size());
    }
    CHECK(images.size() == 1);
    // A cache that was moved serves as before.
    fs::rename(folder / "first", folder / "moved");
    CHECK(value(run({.arguments = {"plan"}, .environment = cache_at(folder / "moved")}),
                "origin") == "disk");
  }

  TEST_CASE("processes: headers that lie about in the working directory are not taken") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const std::string trap = "#error a stray header was taken\n";
    for (const char* name : {"cuda_fp16.h", "tilec/numeric.h", "tilec/add_args.h", "numeric.h"}) {
      write_text(folder.path() / name, trap);
    }
    const Ended ended = run({.arguments = {"plan"},
                             .environment = cache_at(folder / "cache"),
                             .folder = folder.path()});
    CHECK_MESSAGE(value(ended, "origin") == "compiler", ended.output);
    const Ended toolkit = run({.arguments = {"plan", "header=cuda_fp16.h"},
                               .environment = cache_at(folder / "cache"),
                               .folder = folder.path()});
    CHECK_FALSE(contains(toolkit.output, "a stray header"));
    const std::string end = value(toolkit, "error");  // none, or that the toolkit has no headers
    CHECK_MESSAGE((value(toolkit, "origin") == "compiler" || contains(toolkit.output, "CUDA_HOME")),
                  toolkit.output);
  }

  TEST_CASE("processes: another user's cache") {
    if (!has_nvrtc()) return skip("no NVRTC");
    if (!is_root()) return skip("needs root, to be other users");
    if (!has_nvrtc(kSomeone)) return skip("NVRTC lies where other users aren't let in");
    const TemporaryFolder folder;
    fs::permissions(folder.path().parent_path(), fs::perms(0755));
    fs::permissions(folder.path(), fs::perms(0755));
    // As in a container image: filled by root, read-only to all.
    REQUIRE(run({.arguments = {"plan"}, .environment = cache_at(folder / "image")}).status == 0);
    for (const auto& file : fs::recursive_directory_iterator(folder / "image")) {
      fs::permissions(file.path(), fs::perms(file.is_directory() ? 0755 : 0644));
    }
    fs::permissions(folder / "image", fs::perms(0755));

    Child child{.arguments = {"plan"}, .environment = cache_at(folder / "image"), .user = kSomeone};
    child.environment["HOME"] = std::nullopt;
    const Ended own = run(child);
    CHECK_MESSAGE(value(own, "origin") == "disk", own.output);
    CHECK(value(own, "nvrtc") == "0");
    CHECK(contains(value(own, "problem"), (folder / "image").string()));

    child.environment = {{"TILEC_CACHE_ROOTS", (folder / "image").string()},
                         {"TILEC_CACHE_DIR", "/nowhere/at/all"},
                         {"HOME", std::nullopt}};
    const Ended root = run(child);
    CHECK_MESSAGE(value(root, "origin") == "disk", root.output);

    // What is not there is compiled, and works from memory.
    child.arguments.push_back("number=7");
    const Ended compiled = run(child);
    CHECK_MESSAGE(value(compiled, "origin") == "compiler", compiled.output);
    CHECK(entries_in(folder / "image").size() == 1);

    // A folder that anyone can write to is refused, unless it is named.
    fs::permissions(folder / "image", fs::perms(0777));
    child.arguments.back() = "number=1";
    const Ended refused = run(child);
    CHECK(value(refused, "origin") == "compiler");
    CHECK_MESSAGE(contains(refused.output, "TILEC_CACHE_TRUST_SHARED"), refused.output);
    child.environment["TILEC_CACHE_TRUST_SHARED"] = (folder / "image").string();
    CHECK(value(run(child), "origin") == "disk");
  }

  TEST_CASE("processes: no HOME, no account, nowhere to write") {
    if (!has_nvrtc()) return skip("no NVRTC");
    if (!is_root()) return skip("needs root, to be other users");
    if (!has_nvrtc(kSomeone)) return skip("NVRTC lies where other users aren't let in");
    const TemporaryFolder folder;
    fs::permissions(folder.path().parent_path(), fs::perms(0755));
    fs::permissions(folder.path(), fs::perms(0755));
    const Ended ended = run({.arguments = {"plan"},
                             .environment = {{"TILEC_CACHE_DIR", {}},
                                             {"XDG_CACHE_HOME", {}},
                                             {"HOME", {}},
                                             {"TMPDIR", folder.path().string()}},
                             .user = kSomeone});
    CHECK(ended.status == 0);
    CHECK_MESSAGE(value(ended, "origin") == "compiler", ended.output);
    CHECK(contains(value(ended, "problem"), "tilec-cache-54321"));
  }

  TEST_CASE("processes: a forked child plans with an engine of its own") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Engine engine(offline(), options_in(folder.path()));
    engine.register_template(small_add());
    const auto plan = [&](int number) { return engine.plan(kProblem, small(number)); };
    plan(1);
    CHECK(in_child([&] {
            const Engine mine = engine_for("sm_80", engine.options());
            return mine.plan(kProblem, small(1)).origin() == Origin::disk &&
                           mine.plan(kProblem, small(2)).origin() == Origin::compiler
                       ? 0
                       : 1;
          }) == 0);
    CHECK(plan(2).origin() == Origin::disk);
    CHECK(plan(3).origin() == Origin::compiler);
  }

  TEST_CASE("processes: an engine and plans that are static objects end in silence") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    for (int i = 0; i < 2; ++i) {
      const Ended ended = run({.arguments = {"static"}, .environment = cache_at(folder / "cache")});
      CHECK(ended.status == 0);
      CHECK(ended.output == "");
    }
  }
}

TEST_SUITE("host") {
  TEST_CASE("processes: static objects on the host device end in silence") {
    const TemporaryFolder folder;
    const Ended ended =
        run({.arguments = {"static", "device=host"}, .environment = cache_at(folder / "cache")});
    if (contains(ended.output, "without the host device")) return skip("no host device");
    CHECK(ended.status == 0);
    CHECK(ended.output == "");
  }
}

}  // namespace
}  // namespace tilec::test

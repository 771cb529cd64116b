// What a forked child may do with its parent's engine, and that it never waits for its parent's
// threads.
#include "fork.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "small_engine.h"

namespace tilec::test {
namespace {

// As in_child, but ended by a signal where it waits for ever.
int in_mortal_child(const std::function<int()>& body) {
  return in_child([&] {
    alarm(60);
    return body();
  });
}

// How many of the calls do not say that the parent's engine is not for this process.
int not_refused(const std::vector<std::function<void()>>& calls) {
  int wrong = 0;
  for (const auto& call : calls) {
    try {
      call();
      ++wrong;
    } catch (const Error& error) {
      wrong += error.kind() != ErrorKind::driver ||
               !contains(error.what(), "made before this process was forked");
    }
  }
  return wrong;
}

std::vector<std::function<void()>> entries(const Engine& engine) {
  return {[&] { engine.plan(8, 8, 8); },
          [&] { engine.plan(GemmProblem{.M = 8, .N = 8, .K = 8}); },
          [&] { engine.plan(kProblem, small()); },
          [&] { engine.register_template(small_add("another")); },
          [&] { engine.templates(); },
          [&] { engine.selectable(); },
          [&] { engine.preview(kProblem); },
          [&] { engine.source(kProblem); },
          [&] { engine.stats(); },
          [&] { engine.cache_problems(); },
          [&] { engine.trim(); }};
}

TEST_SUITE("cpu") {
  TEST_CASE("fork: every entry of the parent's engine throws in the child, and a new one works") {
    const TemporaryFolder folder;
    const Options options = without_nvrtc(options_in(folder.path()));
    auto engine = std::make_unique<Engine>(engine_for("sm_80", options));
    publish_made_up(*engine, kProblem, small());
    engine->plan(kProblem, small());  // in the memo: not even what is at hand is touched
    CHECK(in_mortal_child([&] {
            if (const int wrong = not_refused(entries(*engine)); wrong > 0) return wrong;
            if (engine->device().target().name() != "sm_80") return 100;
            if (engine->options().cache_dir != folder.path()) return 101;
            const Engine mine = engine_for("sm_80", options);
            if (mine.plan(kProblem, small()).origin() != Origin::disk) return 102;
            const int grandchild = in_child([&] { return not_refused(entries(mine)); });
            if (grandchild != 0) return 103;
            engine.reset();
            return 0;
          }) == 0);
    CHECK(engine->plan(kProblem, small()).origin() == Origin::memory);
  }

  TEST_CASE(
      "fork: while another thread is inside NVRTC or the driver, neither works in the child") {
    const TemporaryFolder folder;
    const Options options = without_nvrtc(options_in(folder.path()));
    publish_made_up(engine_for("sm_80", options), kProblem, small(1));
    const auto message = [](const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& error) {
        return std::string(to_string(error.kind())) + ": " + error.what();
      }
      return std::string("no error");
    };
    const auto child = [&] {
      const Engine mine = engine_for("sm_80", options);
      if (mine.plan(kProblem, small(1)).origin() != Origin::disk) return 1;
      const std::string plan = message([&] { mine.plan(kProblem, small(2)); });
      if (!contains(plan, "driver: ") || !contains(plan, "forked while another thread")) return 2;
      const std::string device = message([] { Device::cuda(0); });
      return contains(device, "driver: ") && contains(device, "forked") ? 0 : 3;
    };
    {
      const InLibrary nvrtc(Library::nvrtc), driver(Library::driver);
      CHECK(in_mortal_child(child) == 0);
    }
    CHECK(in_mortal_child(child) == 2);  // nobody was inside: the compiler is looked for
  }
}

TEST_SUITE("host") {
  TEST_CASE("fork: in the midst of a compile") {
    const TemporaryFolder folder;
    const fs::path started = folder / "started", go_on = folder / "go_on";
    REQUIRE(mkfifo(started.c_str(), 0600) == 0);
    REQUIRE(mkfifo(go_on.c_str(), 0600) == 0);
    // A compiler that says when it was called, and waits to be told to fail.
    write_text(folder / "c++", "#!/bin/sh\necho > '" + started.string() + "'\nread line < '" +
                                   go_on.string() + "'\nexit 1\n");
    fs::permissions(folder / "c++", fs::perms(0700));
    Options options = options_in(folder / "cache");
    options.host_compiler = folder / "c++";
    std::unique_ptr<Engine> engine;
    try {
      engine = std::make_unique<Engine>(Device::host(), options);
    } catch (const Error&) {
      return skip("no host device");
    }
    std::thread compiling([&] { error_of([&] { engine->plan(kProblem); }); });
    std::string line;
    std::ifstream ready(started);
    std::getline(ready, line);
    CHECK(in_mortal_child([&] {
            const int wrong = not_refused({[&] { engine->plan(kProblem); }});
            engine.reset();
            return wrong;
          }) == 0);
    std::ofstream(go_on) << "\n";
    compiling.join();
  }
}

}  // namespace
}  // namespace tilec::test

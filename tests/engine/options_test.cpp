// Options::from_env: what each variable does, and that nothing else looks at the environment.
#include "tilec/options.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "support.h"

namespace tilec::test {
namespace {

// The options under exactly these variables, in a child; as text, for comparison.
std::string under(const Environment& variables, const std::function<std::string(Options)>& tell) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const int status = in_child([&] {
    clearenv();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value->c_str(), 1);
    std::string text;
    try {
      text = tell(Options::from_env());
    } catch (const Error& error) {
      text = std::string(to_string(error.kind())) + ": " + error.what();
    }
    return write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1;
  });
  close(ends[1]);
  CHECK(status == 0);
  char buffer[4096];
  const ssize_t size = read(ends[0], buffer, sizeof buffer);
  close(ends[0]);
  return std::string(buffer, size > 0 ? static_cast<std::size_t>(size) : 0);
}

std::string joined(const std::vector<fs::path>& paths) {
  std::string text;
  for (const fs::path& path : paths) text += path.string() + "|";
  return text;
}

TEST_SUITE("cpu") {
  TEST_CASE("from_env: where the cache lives") {
    const passwd* account = getpwuid(geteuid());
    REQUIRE(account != nullptr);
    const std::string home = account->pw_dir;
    const struct {
      Environment variables;
      std::string cache_dir;
    } rows[] = {
        {{{"TILEC_CACHE_DIR", "/a/b"}, {"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}, "/a/b"},
        {{{"TILEC_CACHE_DIR", ""}, {"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}, "/x/tilec"},
        {{{"TILEC_CACHE_DIR", "relative"}, {"HOME", "/h"}},
         (fs::current_path() / "relative").string()},
        {{{"TILEC_CACHE_DIR", "~/k/l"}, {"HOME", "/h"}}, "/h/k/l"},
        {{{"TILEC_CACHE_DIR", "~"}, {"HOME", "/h"}}, "/h"},
        {{{"TILEC_CACHE_DIR", "~/"}, {"HOME", "/h"}}, "/h"},
        {{{"TILEC_CACHE_DIR", "~//k"}, {"HOME", "/h"}}, "/h/k"},
        {{{"TILEC_CACHE_DIR", "~///"}, {"HOME", "/h"}}, "/h"},
        {{{"TILEC_CACHE_DIR", "~/k"}}, home + "/k"},
        {{{"TILEC_CACHE_DIR", "./~k"}, {"HOME", "/h"}}, (fs::current_path() / "./~k").string()},
        {{{"XDG_CACHE_HOME", "relative"}, {"HOME", "/h"}}, "/h/.cache/tilec"},
        {{{"XDG_CACHE_HOME", ""}, {"HOME", "/h"}}, "/h/.cache/tilec"},
        {{{"HOME", "/häuser/日本"}}, "/häuser/日本/.cache/tilec"},
        {{}, home + "/.cache/tilec"},
    };
    for (const auto& row : rows) {
      CHECK(under(row.variables, [](const Options& options) {
              return options.cache_dir.string();
            }) == row.cache_dir);
    }
  }

  TEST_CASE("from_env: no HOME and no account still gives a folder of one's own") {
    if (!is_root()) return skip("needs root, to be a user with no account");
    for (const bool home_is_root : {false, true}) {
      Environment variables{{"TMPDIR", "/tmp"}};
      if (home_is_root) variables["HOME"] = "/";
      CHECK(under(variables, [](const Options&) {
              if (setuid(54321) != 0) return std::string("no setuid");
              return Options::from_env().cache_dir.string();
            }) == "/tmp/tilec-cache-54321");
    }
  }

  TEST_CASE("from_env: paths are resolved where they are read") {
    const Environment variables{
        {"HOME", "/h"},
        {"TILEC_CACHE_ROOTS", "r1:~/r2:/r3"},
        {"TILEC_CACHE_BUNDLES", "b/c.bundle"},
        {"TILEC_CACHE_TRUST_SHARED", "~/t:t"},
        {"TILEC_NVRTC", "n/libnvrtc.so"},
        {"CUDA_HOME", "~/cuda"},
        {"CUDA_PATH", "cuda"},
        {"TILEC_HOST_COMPILER", "./c++"},
        {"TILEC_DUMP_DIR", "dump"},
        {"TILEC_RECORD", "~/record.json"},
    };
    const std::string text = under(variables, [](const Options& o) {
      return joined(o.read_only_roots) + "\n" + joined(o.bundle_files) + "\n" +
             joined(o.trust_shared) + "\n" + o.nvrtc.library.string() + "\n" +
             joined(o.nvrtc.toolkits) + "\n" + o.host_compiler.string() + "\n" +
             o.dump_dir.string() + "\n" + o.record.string();
    });
    const std::string here = fs::current_path().string();
    CHECK(text == here + "/r1|/h/r2|/r3|\n" + here + "/b/c.bundle|\n/h/t|" + here + "/t|\n" + here +
                      "/n/libnvrtc.so\n/h/cuda|" + here + "/cuda|\n" + here + "/./c++\n" + here +
                      "/dump\n/h/record.json");

    // Names that are looked for where the system keeps such files.
    CHECK(under({{"TILEC_NVRTC", "libnvrtc.so.12"}, {"TILEC_HOST_COMPILER", "g++-13"}},
                [](const Options& o) {
                  return o.nvrtc.library.string() + " " + o.host_compiler.string();
                }) == "libnvrtc.so.12 g++-13");
  }

  TEST_CASE("from_env: another user's home folder is refused, by each variable's name") {
    for (const char* name : {"TILEC_CACHE_DIR", "TILEC_CACHE_ROOTS", "TILEC_CACHE_BUNDLES",
                             "TILEC_CACHE_TRUST_SHARED", "TILEC_NVRTC", "CUDA_HOME", "CUDA_PATH",
                             "TILEC_HOST_COMPILER", "TILEC_DUMP_DIR", "TILEC_RECORD"}) {
      const std::string message =
          under({{name, "~someone/x"}, {"HOME", "/h"}}, [](const Options&) { return "taken"; });
      CHECK_MESSAGE(contains(message, std::string("invalid_argument: ") + name + " = '~someone/x'"),
                    message);
      CHECK(contains(message, "only ~ and ~/"));
    }
  }

  TEST_CASE("options: what a program sets is resolved by the engine, not by its later folder") {
    const TemporaryFolder folder;
    const fs::path here = fs::canonical(folder.path());
    CHECK(in_child([&] {
            if (chdir(here.c_str()) != 0) return 1;
            Options options;
            options.cache_dir = "cache";
            options.read_only_roots = {"root"};
            options.bundle_files = {"bundle"};
            options.trust_shared = {"root"};
            options.nvrtc = {.library = "x/libnvrtc.so", .toolkits = {"toolkit"}};
            options.host_compiler = "x/c++";
            options.dump_dir = "dump";
            options.record = "record.jsonl";
            options.logger = Messages().logger();
            const Engine engine(offline(), options);
            if (chdir("/") != 0) return 2;
            const Options& o = engine.options();
            if (o.cache_dir != here / "cache" || o.dump_dir != here / "dump") return 3;
            if (joined(o.read_only_roots) != joined({here / "root"})) return 4;
            if (joined(o.bundle_files) != joined({here / "bundle"})) return 5;
            if (joined(o.trust_shared) != joined({here / "root"})) return 6;
            if (o.nvrtc.library != here / "x/libnvrtc.so") return 7;
            if (joined(o.nvrtc.toolkits) != joined({here / "toolkit"})) return 8;
            if (o.host_compiler != here / "x/c++") return 9;
            error_of([&] { engine.plan(8, 8, 8); });  // there is no such NVRTC
            return fs::exists(here / "record.jsonl") && fs::exists(here / "cache") ? 0 : 10;
          }) == 0);
    Options tilde;
    tilde.dump_dir = "~someone/x";
    const Error error = error_of([&] { Engine(offline(), tilde); });
    CHECK(error.kind() == ErrorKind::invalid_argument);
    CHECK(contains(error.what(), "Options::dump_dir = '~someone/x'"));
  }

  TEST_CASE("from_env: a set-user-id program looks at no variable, and says so once") {
    if (!is_root()) return skip("needs root, to make a set-user-id program");
    const TemporaryFolder folder;
    fs::permissions(folder.path().parent_path(), fs::perms(0755));
    fs::permissions(folder.path(), fs::perms(0755));
    const fs::path program = folder / "child";
    fs::copy_file(engine_child(), program);
    REQUIRE(chmod(program.c_str(), 04755) == 0);
    const std::string bad = "/nowhere/of/a/stranger";
    const Environment stranger{{"TILEC_CACHE_DIR", bad},
                               {"TILEC_CACHE_POLICY", "nonsense"},
                               {"TILEC_CACHE_ROOTS", bad},
                               {"TILEC_CACHE_MAX_BYTES", "nonsense"},
                               {"TILEC_CACHE_BUNDLES", bad},
                               {"TILEC_CACHE_TRUST_SHARED", bad},
                               {"TILEC_NVRTC", bad},
                               {"TILEC_REQUIRE_BUILDER", "nonsense"},
                               {"CUDA_HOME", bad},
                               {"CUDA_PATH", bad},
                               {"TILEC_DUMP_DIR", bad},
                               {"TILEC_RECORD", bad},
                               {"XDG_CACHE_HOME", bad},
                               {"TILEC_HOST_COMPILER", bad},
                               {"HOME", bad},
                               {"TMPDIR", bad}};
    const Ended ended =
        run({.arguments = {"options"}, .environment = stranger, .user = 65534, .program = program});
    if (!contains(ended.output, "secure=1")) return skip("set-user-id has no effect here");
    CHECK(ended.status == 0);
    const passwd* root = getpwuid(0);
    REQUIRE(root != nullptr);
    CHECK_MESSAGE(contains(ended.output, "cache=" + std::string(root->pw_dir) + "/.cache/tilec\n"),
                  ended.output);
    CHECK_FALSE(contains(ended.output, bad));
    CHECK_FALSE(contains(ended.output, "nonsense"));
    const std::size_t warning = ended.output.find("rights that its caller has not (set-user-id)");
    REQUIRE(warning != std::string::npos);
    CHECK(ended.output.find("rights that its caller has not (set-user-id)", warning + 1) ==
          std::string::npos);
    for (const auto& [name, value] : stranger) {
      if (name != "HOME" && name != "TMPDIR") CHECK_MESSAGE(contains(ended.output, name), name);
    }

    // The same program for its own user takes them all.
    REQUIRE(chmod(program.c_str(), 0755) == 0);
    const Ended plain = run({.arguments = {"options"},
                             .environment = {{"TILEC_CACHE_DIR", "/nowhere/at/all"}},
                             .user = 65534,
                             .program = program});
    CHECK_MESSAGE(contains(plain.output, "cache=/nowhere/at/all\n"), plain.output);
    CHECK_FALSE(contains(plain.output, "set-user-id"));
  }

  TEST_CASE("from_env: every variable") {
    const Environment variables{
        {"HOME", "/h"},
        {"TILEC_CACHE_POLICY", "must_hit"},
        {"TILEC_CACHE_MAX_BYTES", "512M"},
        {"TILEC_CACHE_ROOTS", ":/r 1::/r2:"},
        {"TILEC_CACHE_BUNDLES", "/b1.bundle"},
        {"TILEC_CACHE_TRUST_SHARED", "/r2:/t"},
        {"TILEC_REQUIRE_BUILDER", "nvrtc-13.0.88"},
        {"TILEC_NVRTC", "/n/libnvrtc.so"},
        {"CUDA_HOME", "/cuda home"},
        {"CUDA_PATH", "/cuda path"},
        {"TILEC_HOST_COMPILER", "/usr/bin/c++"},
        {"TILEC_DUMP_DIR", "/dump"},
        {"TILEC_RECORD", "/record.json"},
    };
    const std::string text = under(variables, [](const Options& o) {
      return std::to_string(static_cast<int>(o.cache_policy)) + "\n" +
             std::to_string(o.cache_max_bytes) + "\n" + joined(o.read_only_roots) + "\n" +
             joined(o.bundle_files) + "\n" + joined(o.trust_shared) + "\n" + o.require_builder +
             "\n" + o.nvrtc.library.string() + "\n" + joined(o.nvrtc.toolkits) + "\n" +
             o.host_compiler.string() + "\n" + o.dump_dir.string() + "\n" + o.record.string();
    });
    CHECK(text ==
          "1\n536870912\n/r 1|/r2|\n/b1.bundle|\n/r2|/t|\nnvrtc-13.0.88\n/n/libnvrtc.so\n"
          "/cuda home|/cuda path|\n/usr/bin/c++\n/dump\n/record.json");
  }

  TEST_CASE("from_env: without variables, the defaults") {
    const std::string text = under({{"HOME", "/h"}}, [](const Options& o) {
      const Options defaults;
      const bool same =
          o.cache_policy == defaults.cache_policy &&
          o.cache_max_bytes == defaults.cache_max_bytes && o.read_only_roots.empty() &&
          o.bundle_files.empty() && o.bundles.empty() && o.trust_shared.empty() &&
          o.require_builder.empty() && o.nvrtc.library.empty() && o.nvrtc.toolkits.empty() &&
          o.host_compiler.empty() && o.dump_dir.empty() && o.record.empty() && o.logger == nullptr;
      return std::string(same ? "same" : "different");
    });
    CHECK(text == "same");
  }

  TEST_CASE("from_env: policies and sizes, good and bad") {
    const auto policy = [](const std::string& value) {
      return under({{"TILEC_CACHE_POLICY", value}}, [](const Options& options) {
        return std::to_string(static_cast<int>(options.cache_policy));
      });
    };
    CHECK(policy("") == "0");
    CHECK(policy("normal") == "0");
    CHECK(policy("refresh") == "2");
    CHECK(policy("off") == "3");
    for (const char* bad : {"Normal", "none", "must_hit ", "0"}) {
      const std::string message = policy(bad);
      CHECK_MESSAGE(contains(message, "invalid_argument: TILEC_CACHE_POLICY = '"), message);
      CHECK(contains(message, bad));
      CHECK(contains(message, "normal, must_hit, refresh or off"));
    }

    const auto size = [](const std::string& value) {
      return under({{"TILEC_CACHE_MAX_BYTES", value}},
                   [](const Options& options) { return std::to_string(options.cache_max_bytes); });
    };
    CHECK(size("0") == "0");
    CHECK(size("10") == "10");
    CHECK(size("3K") == "3072");
    CHECK(size("2G") == "2147483648");
    CHECK(size("17179869183G") == "18446744072635809792");
    const std::string half = std::to_string(std::uint64_t{512} << 20);
    for (const char* same :
         {"512M", "512m", "512MB", "512mb", "512MiB", "512mib", "512 M", "512  MiB", "0.5G", ".5g",
          "0.5 GiB", "536870912", "536870912B", "524288 KB"}) {
      CHECK_MESSAGE(size(same) == half, same);
    }
    CHECK(size("1T") == "1099511627776");
    CHECK(size("1.5G") == "1610612736");
    CHECK(size("0G") == "0");
    for (const char* bad : {"-1", "G", "10 X", "18446744073709551616", "17179869184G", "16777216T",
                            "16777216.0T", "0x10", "1.5", "0.0001K", "1,5G", "1e3", "nan", "inf",
                            "1GG", "1iB", "1.2.3G", " 1", "M"}) {
      const std::string message = size(bad);
      CHECK_MESSAGE(contains(message, "invalid_argument: TILEC_CACHE_MAX_BYTES = '"), message);
      CHECK(contains(message, bad));
      CHECK(contains(message, "K, M, G or T"));
    }
  }

  TEST_CASE("from_env: no other source reads the environment") {
    int sources = 0;
    for (const char* floor : {"engine", "cache", "kernel_templates"}) {
      for (const auto& file :
           fs::recursive_directory_iterator(fs::path(TILEC_SOURCE_DIR) / floor)) {
        const std::string extension = file.path().extension().string();
        if (extension != ".cpp" && extension != ".h" && extension != ".cu") continue;
        ++sources;
        if (file.path().filename() == "options.cpp") continue;
        const std::string text = read_text(file.path());
        CAPTURE(file.path());
        CHECK_FALSE(contains(text, "getenv"));
        CHECK_FALSE(contains(text, "environ["));
      }
    }
    CHECK(sources > 50);
  }
}

}  // namespace
}  // namespace tilec::test

// Options::from_env: what each variable does, and that nothing else looks at the environment.
#include "tilec/options.h"

#include <pwd.h>
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
        {{{"TILEC_CACHE_DIR", "relative"}, {"HOME", "/h"}}, "relative"},
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
    for (const char* bad :
         {"-1", "1.5G", "G", "10 M", "1T", "18446744073709551616", "17179869184G", "1MB", "0x10"}) {
      const std::string message = size(bad);
      CHECK_MESSAGE(contains(message, "invalid_argument: TILEC_CACHE_MAX_BYTES = '"), message);
      CHECK(contains(message, bad));
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

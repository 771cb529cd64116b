// The host compiler: what it makes, and what it says where it can't.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/engine/host_kernels.h"

namespace tilec::test {
namespace {

namespace fs = std::filesystem;

TEST_SUITE_BEGIN("host");

constexpr const char* kEmpty = R"(extern "C" __global__ void kernel(const Args) {})";

// A folder for temporary files, by that name, as long as it lives.
class TemporaryPlace {
 public:
  explicit TemporaryPlace(const std::string& name)
      : path_(fs::temp_directory_path() / (name + std::to_string(getpid()))) {
    if (const char* const before = getenv("TMPDIR")) before_ = before;
    fs::create_directories(path_);
    setenv("TMPDIR", path_.c_str(), 1);
  }
  ~TemporaryPlace() {
    if (before_) {
      setenv("TMPDIR", before_->c_str(), 1);
    } else {
      unsetenv("TMPDIR");
    }
    fs::remove_all(path_);
  }
  TemporaryPlace(const TemporaryPlace&) = delete;
  TemporaryPlace& operator=(const TemporaryPlace&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  std::optional<std::string> before_;
};

TEST_CASE("host compiler: what it makes") {
  const Artifact artifact = compile_for_host(host_kernel_text(kEmpty));
  CHECK(artifact.kind == "host");
  CHECK(artifact.image.size() > 1000);
  REQUIRE(artifact.entries.size() == 1);
  CHECK(artifact.entries[0].name == "kernel");
  CHECK(cache::valid_builder(artifact.builder));
  CHECK((artifact.builder.starts_with("g++-") || artifact.builder.starts_with("clang++-")));
  CHECK(artifact.log.empty());
  CHECK(artifact.seconds > 0);
  // The same bytes again, from another folder.
  CHECK(artifact.image == compile_for_host(host_kernel_text(kEmpty)).image);
}

TEST_CASE("host compiler: options are the target's, and stand for the shim too") {
  const auto compiler = host_compiler("/nonexistent/c++");  // not opened for this
  const std::vector<std::string> options = compiler->options(Target::host());
  CHECK(options == compiler->options(Target::host()));
  CHECK(options.front() == "-std=c++20");
  const auto has = [&](const std::string& start) {
    for (const std::string& option : options) {
      if (option.starts_with(start)) return true;
    }
    return false;
  };
  CHECK(has("-ffp-contract=off"));
  CHECK(has("-DTILEC_HOST_SHIM=0x"));
  CHECK_FALSE(has("-march"));
  message_of(ErrorKind::unsupported, [&] { compiler->options(Target::parse("sm_90")); });
}

TEST_CASE("host compiler: leaves nothing behind, whatever the folder is called") {
  for (const std::string name : {"tilec plain ", "tilec mit Leerzeichen, Umläuten: ü "}) {
    const TemporaryPlace place(name);
    const Artifact artifact = compile_for_host(host_kernel_text(kEmpty));
    CHECK_NOTHROW(HostKernelRun(artifact).launch({}, {}));
    message_of(ErrorKind::compile, [] { compile_for_host("nonsense"); });
    CHECK(fs::is_empty(place.path()));
  }
}

TEST_CASE("host compiler: a temporary folder that is not there") {
  const TemporaryPlace place("tilec gone ");
  fs::remove(place.path());
  const std::string message =
      message_of(ErrorKind::unsupported, [] { compile_for_host(host_kernel_text(kEmpty)); });
  CHECK(contains(message, "TMPDIR"));
}

TEST_CASE("host compiler: errors name the kernel, the options and the template's own line") {
  struct Case {
    std::string body;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases{
      {"\nextern \"C\" __global__ void kernel(const Args args) {\n  undeclared = 1;\n}",
       {"/tilec/test.cu:3:", "undeclared"}},
      {"#include \"tilec/broken.h\"\n", {"tilec/broken.h:2:", "unfinished"}},
      {"extern \"C\" __global__ void kernel(Args a, int b) {}",
       {"a kernel takes exactly one argument, a struct by value"}},
      {"extern \"C\" __global__ void other(Args a) {}",
       {"there is no kernel called 'kernel'", "extern \"C\" __global__"}},
      {"__device__ void missing();\nextern \"C\" __global__ void kernel(Args a) { missing(); }",
       {"undefined", "missing"}}};
  for (const Case& c : cases) {
    CompileRequest request = host_request(host_kernel_text(c.body));
    request.source.headers.push_back(
        {.name = "tilec/broken.h", .text = "// a header\nunfinished\n"});
    try {
      host_compiler({})->compile(request);
#if !defined(__SANITIZE_ADDRESS__)  // whose kernels find missing functions when they are loaded
      FAIL_CHECK("no error");
#endif
    } catch (const Error& error) {
      const std::string message = error.what();
      CAPTURE(message);
      CHECK(error.kind() == ErrorKind::compile);
      CHECK(contains(message, "test kernel does not compile"));
      CHECK(contains(message, "-std=c++20"));
      CHECK_FALSE(error.log().empty());
      CHECK(contains(message, error.log()));
      for (const std::string& part : c.parts) CHECK(contains(message, part));
      CHECK_FALSE(contains(message, fs::temp_directory_path().string() + "/tilec-"));
    }
  }
}

TEST_CASE("host compiler: headers and macros of the user's") {
  CompileRequest request = host_request(host_kernel_text(R"(
    #include "mine/value.h"
    #include <other.h>
    extern "C" __global__ void kernel(const Args args) {
      *static_cast<int*>(args.out) = VALUE + OTHER + MACRO + SECOND + THIRD + FOURTH + FIFTH;
    })"));
  request.source.headers.push_back(
      {.name = "mine/value.h", .text = "#include \"mine/deep/x.h\"\n"});
  request.source.headers.push_back({.name = "mine/deep/x.h", .text = "constexpr int VALUE = 1;\n"});
  request.source.headers.push_back({.name = "other.h", .text = "constexpr int OTHER = 20;\n"});
  request.options = {"--maxrregcount=64",
                     "-DMACRO=300",
                     "-Xptxas",
                     "-v",
                     "-D",
                     "SECOND=4000",
                     "--define-macro=THIRD=50000",
                     "--define-macro",
                     "FOURTH=600000",
                     " -DFIFTH=7000000"};
  int out = 0;
  HostKernelRun(host_compiler({})->compile(request)).launch({}, {.out = &out});
  CHECK(out == 7654321);

  request.source.headers.push_back({.name = "../escape.h", .text = ""});
  CHECK(contains(
      message_of(ErrorKind::invalid_argument, [&] { host_compiler({})->compile(request); }),
      "'../escape.h'"));
}

TEST_CASE("host compiler: what is said beside its own words, where they do not say enough") {
  const auto fault = [](const std::string& text, std::vector<std::string> toolkit_headers = {}) {
    CompileRequest request = host_request(text);
    request.source.toolkit_headers = std::move(toolkit_headers);
    return message_of(ErrorKind::compile, [&] { host_compiler({})->compile(request); });
  };
  const std::string kernel = "extern \"C\" __global__ void kernel(const int) {}\n";
  CHECK(contains(fault("extern \"C\" __global__ void other(const int) {}\n"),
                 "there is no kernel called 'kernel'"));
  CHECK_FALSE(contains(fault("#error this one\n"), "there is no kernel called"));
  CHECK(contains(fault("#include <cub/none.h>\n" + kernel, {"cub/none.h"}),
                 "cub/none.h is included and neither tilec's nor the template's"));
}

TEST_CASE("host compiler: none on the machine") {
  struct Case {
    std::string program, part;
  };
  for (const Case& c : {Case{"/nonexistent/c++", "/nonexistent/c++: No such file or directory"},
                        Case{"no-such-compiler", "no-such-compiler: No such file or directory"},
                        Case{"/bin/true", "/bin/true: is no GCC or Clang"}}) {
    const auto compiler = host_compiler(c.program);
    const std::string message = message_of(
        ErrorKind::unsupported, [&] { compiler->compile(host_request(host_kernel_text(kEmpty))); });
    CAPTURE(message);
    CHECK(contains(message, c.part));
    CHECK(contains(message, "TILEC_HOST_COMPILER"));
    CHECK(contains(message, "Options::host_compiler"));
    CHECK(contains(message, "g++"));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tilec::test

// What a program that embeds tilec may count on: typed errors out of plugins, its own logging.
#include <dlfcn.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "support.h"

namespace tilec::test {
namespace {

TEST_SUITE("cpu") {
  TEST_CASE("embedding: an error thrown by a plugin is caught by its type") {
    void* const plugin = dlopen(TILEC_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(plugin != nullptr, dlerror());
    const auto plan_nonsense = reinterpret_cast<void (*)()>(dlsym(plugin, "plan_nonsense"));
    REQUIRE((plan_nonsense != nullptr));
    try {
      plan_nonsense();
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::invalid_argument);
      CHECK(contains(error.what(), "there is no template 'nonsense'"));
    }
    CHECK_THROWS_AS(plan_nonsense(), std::runtime_error);
  }

  TEST_CASE("embedding: the host program's spdlog is left alone") {
    std::ostringstream text;
    const auto mine = std::make_shared<spdlog::logger>(
        "tilec", std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
    spdlog::register_logger(mine);  // by the very name that tilec's own logger has
    const auto before = spdlog::default_logger();
    const auto level = spdlog::get_level();
    const TemporaryFolder folder;
    write_text(folder / "file", "");
    {
      Options options;
      options.cache_dir = folder / "file";  // a warning
      options.cache_policy = CachePolicy::must_hit;
      const Engine engine(offline(), options);
      error_of([&] { engine.plan(8, 8, 8); });
      CHECK(engine.cache_problems().size() == 1);
      CHECK(spdlog::get("tilec") == mine);
    }
    CHECK(spdlog::get("tilec") == mine);
    CHECK(spdlog::default_logger() == before);
    CHECK(spdlog::get_level() == level);
    int registered = 0;
    spdlog::apply_all([&](const std::shared_ptr<spdlog::logger>&) { ++registered; });
    CHECK(registered == 2);
    CHECK(text.str().empty());
    spdlog::drop("tilec");
  }

  TEST_CASE("embedding: a logger of the host program's gets the messages") {
    const TemporaryFolder folder;
    write_text(folder / "file", "");
    const Messages messages;
    Options options;
    options.cache_dir = folder / "file";
    options.logger = messages.logger();
    const Engine engine(offline(), options);
    CHECK(messages.warnings().size() == 1);
    CHECK(engine.options().logger == options.logger);
  }

  TEST_CASE("embedding: engines can be moved") {
    Engine one(offline("sm_80"), Options{});
    Engine other(std::move(one));
    CHECK(other.device().target().name() == "sm_80");
    Engine third(offline("sm_90a"), Options{});
    third = std::move(other);
    CHECK(third.device().target().name() == "sm_80");
  }

  TEST_CASE("embedding: templates that can't work are refused when registered") {
    const Engine engine(offline(), Options{});
    const auto refusal = [&](auto change) {
      KernelTemplate kernel = small_add();
      change(kernel);
      const Error error = error_of([&] { engine.register_template(kernel); });
      CHECK(error.kind() == ErrorKind::invalid_argument);
      return std::string(error.what());
    };
    using K = KernelTemplate&;
    CHECK(contains(refusal([](K k) { k.name = "not an identifier"; }), "not an identifier"));
    CHECK(contains(refusal([](K k) { k.source = ""; }), "no source"));
    CHECK(contains(refusal([](K k) { k.launch = nullptr; }), "launch"));
    CHECK(contains(refusal([](K k) { k.dtypes = {}; }), "no dtype"));
    CHECK(contains(refusal([](K k) { k.args_version = 2; }), "version 2"));
    CHECK(contains(refusal([](K k) { k.parameters.push_back(k.parameters[0]); }), "twice"));
    CHECK(contains(refusal([](K k) { k.parameters[0].name = "T"; }), "'T'"));
    CHECK(engine.templates().size() == catalog().size());
  }

  TEST_CASE("embedding: compiler options that bring in files are refused when registered") {
    const Engine engine(offline(), Options{});
    const std::vector<std::vector<std::string>> all{{"-I/opt/include"},
                                                    {"-I", "/opt/include"},
                                                    {"--include-path=/opt"},
                                                    {"-include-path", "x"},
                                                    {"-include", "x.h"},
                                                    {"--pre-include=x.h"},
                                                    {"-include=x.h"},
                                                    {"--pch"},
                                                    {"--create-pch=x"},
                                                    {"--use-pch=x"},
                                                    {"--pch-dir=x"},
                                                    {"--options-file=x"},
                                                    {"-optf", "x"},
                                                    {" -I/opt"},
                                                    {"-DX=1", "-I/opt"},
                                                    {"\n-I/opt"},
                                                    {"\v\r--include-path=/opt"},
                                                    {"-Xptxas=-v,-optf=x"},
                                                    {"-Xptxas", "-v,--options-file=x"},
                                                    {"--ptxas-options=--options-file=x"},
                                                    {"-time=x"},
                                                    {"--fdevice-time-trace=x"}};
    for (const std::vector<std::string>& options : all) {
      KernelTemplate kernel = small_add("with_files");
      kernel.options = options;
      const Error error = error_of([&] { engine.register_template(kernel); });
      CHECK(error.kind() == ErrorKind::invalid_argument);
      const bool second = options[0] == "-DX=1" || options[0] == "-Xptxas";
      CHECK_MESSAGE(contains(error.what(), "compiler option '" + options[second ? 1 : 0] + "'"),
                    error.what());
      CHECK(contains(error.what(), "KernelTemplate::headers"));
    }
    KernelTemplate kernel = small_add("without");
    kernel.options = {"-DI=1",
                      "--maxrregcount=32",
                      "-lineinfo",
                      "--pch-messages=true",
                      "--pch-verbose=true",
                      "-D",
                      "I=2",
                      "--use_fast_math",
                      "-dopt=on",
                      "-Xptxas=-O3,--warn-on-spills",
                      "-DTEXT=-I/opt"};
    engine.register_template(kernel);
    for (const char* target :
         {"--gpu-architecture=sm_90", "-arch", "-arch=sm_90", "-Xptxas=--gpu-name=sm_90"}) {
      kernel.options = {target};
      const Error error = error_of([&] { engine.register_template(kernel); });
      CHECK_MESSAGE(contains(error.what(), "its device's"), error.what());
    }
  }

  TEST_CASE("embedding: an include of a file that no key sees is refused when registered") {
    const Engine engine(offline(), Options{});
    const auto refusal = [&](const std::string& text, std::vector<Header> headers = {}) {
      KernelTemplate kernel = small_add("reading");
      kernel.source = text + "\n" + kernel.source;
      kernel.headers = std::move(headers);
      try {
        engine.register_template(kernel);
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::invalid_argument);
        CHECK_MESSAGE(contains(error.what(), "KernelTemplate::headers"), error.what());
        return std::string(error.what());
      }
      return std::string();
    };
    CHECK(contains(refusal("#include \"/opt/mine.h\""), "'/opt/mine.h'"));
    CHECK(contains(refusal("#include <../../../opt/mine.h>"), "'../../../opt/mine.h'"));
    CHECK(contains(refusal("#inc\\\nlude </opt/mine.h>"), "'/opt/mine.h'"));
    CHECK(contains(refusal("/* a */ %: include /* b */ \"/opt/mine.h\""), "'/opt/mine.h'"));
    CHECK(contains(refusal("#include MINE"), "`#include MINE`"));
    CHECK(contains(refusal("#include </opt//mine.h>"), "'/opt//mine.h'"));
    CHECK(contains(refusal("/**/#/**/include </opt/*mine.h>"), "'/opt/*mine.h'"));
    CHECK(contains(refusal("#include </opt/mine.h"), "`#include </opt/mine.h`"));
    CHECK(contains(refusal("#if __has_include(MINE)\n#endif"), "`__has_include`"));
    CHECK(contains(refusal("#embed <mine.h>"), "`#embed <mine.h>`"));
    // Where one compiler sees a comment's or line's end and another does not.
    CHECK(contains(refusal("// a \\ \n#include MINE"), "`#include MINE`"));
    CHECK(contains(refusal("#inc\\ \nlude MINE"), "MINE`"));
    // Quotes that begin a literal behind a word, and one that does not.
    for (const char* before :
         {"int a = U'\"'; // \"", "case'\"': f(\"/*\");", "int a = 1'0; int b = '\"';"}) {
      CHECK(contains(refusal(std::string(before) + "\n#include MINE"), "`#include MINE`"));
    }
    CHECK(contains(refusal("#include \"a.h\"", {{"a.h", "#include \"/b.h\""}}), "'/b.h'"));
    CHECK(refusal("#include \"/opt/mine.h\"", {{"/opt/mine.h", ""}}) == "");
    CHECK(refusal("// #include MINE\n/*\n#include MINE\n*/") == "");
  }

  TEST_CASE("embedding: problems that can't be are refused with their values") {
    const Engine engine(offline(), Options{});
    const auto refusal = [&](const GemmProblem& problem, ErrorKind kind) {
      const Error error = error_of([&] { engine.plan(problem); });
      CHECK(error.kind() == kind);
      CHECK(error_of([&] { engine.preview(problem); }).kind() == kind);
      CHECK(error_of([&] { engine.source(problem); }).kind() == kind);
      return std::string(error.what());
    };
    const auto invalid = ErrorKind::invalid_argument;
    CHECK(contains(refusal({.M = -1, .N = 1, .K = 1}, invalid), "M = -1"));
    const std::string lda = refusal({.M = 4, .N = 4, .K = 8, .lda = 7}, invalid);
    CHECK(contains(lda, "lda = 7"));
    CHECK(contains(lda, "K = 8"));
    CHECK(contains(refusal({.M = 4, .N = 4, .K = 8, .ldb = 3}, invalid), "ldb = 3"));
    CHECK(contains(refusal({.M = 4, .N = 4, .K = 8, .ldc = 3}, invalid), "ldc = 3"));
    CHECK(contains(refusal({.M = 4, .N = 4, .K = 8, .ldd = 3}, invalid), "ldd = 3"));
    refusal({.M = 4, .N = 4, .K = 8, .lda = -8}, invalid);
    const std::string mixed =
        refusal({.M = 4, .N = 4, .K = 4, .a = f16, .d = f32}, ErrorKind::unsupported);
    CHECK(contains(mixed, "A is f16, B is f16, C and D are f32"));
    const Error none = error_of([&] { engine.plan(AddProblem{}); });
    CHECK(none.kind() == invalid);
    CHECK(contains(none.what(), "1 to 4 extents"));
  }
}

}  // namespace
}  // namespace tilec::test

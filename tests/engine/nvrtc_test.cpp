// NVRTC wherever it lies and whichever it is: odd folders, links, missing builtins, CUDA's own
// headers, two generations in one cache. For the last, TILEC_NVRTC_OTHER names another NVRTC than
// the one at hand, of any version from 12.0 on:
//   pip download --no-deps nvidia-cuda-nvrtc-cu12==12.8.93; unzip -d other nvidia_cuda_nvrtc*.whl
//   TILEC_NVRTC_OTHER=other/nvidia/cuda_nvrtc/lib/libnvrtc.so.12 ctest -R generations
#include <cstdlib>

#include "support.h"
#include "tilec/toolchain.h"

namespace tilec::test {
namespace {

const AddProblem kProblem{.shape = {100}};

// Children run with these options' NVRTC, so that none is loaded already.
Ended plan_with(const fs::path& library, const fs::path& cache, std::vector<std::string> words = {},
                const Environment& more = {}) {
  words.insert(words.begin(), "plan");
  Environment environment{{"TILEC_NVRTC", library.string()},
                          {"TILEC_CACHE_DIR", cache.string()},
                          {"CUDA_HOME", std::nullopt},
                          {"CUDA_PATH", std::nullopt}};
  for (const auto& [name, value] : more) environment[name] = value;
  return run({.arguments = words, .environment = environment});
}

fs::path nvrtc_at_hand() {
  return fs::canonical(find_nvrtc(Options::from_env().nvrtc).path);
}

std::optional<fs::path> other_nvrtc() {
  const char* path = std::getenv("TILEC_NVRTC_OTHER");
  return path == nullptr || *path == '\0' ? std::nullopt : std::optional<fs::path>(path);
}

std::string half_body() {
  return "__half sum = __hadd(__float2half(1.0f), __float2half(float(NUMBER)));\n"
         "if (args.n > 0) *static_cast<__half*>(args.out) = sum;";
}

KernelTemplate with_toolkit_header() {
  KernelTemplate kernel = small_add("with_half", half_body());
  kernel.source = "#include <cuda_fp16.h>\n" + kernel.source;
  return kernel;
}

TEST_SUITE("nvrtc") {
  TEST_CASE("nvrtc: in folders with spaces, accents and CJK") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder("a toolkit, très 日本");
    const fs::path library = nvrtc_at_hand();
    fs::create_directory_symlink(library.parent_path(), folder / "lib 64");
    const Ended ended = plan_with(folder / "lib 64" / library.filename(), folder / "cache");
    CHECK_MESSAGE(contains(ended.output, "origin=compiler"), ended.output);
  }

  TEST_CASE("nvrtc: a link to the library alone") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    fs::create_symlink(nvrtc_at_hand(), folder / "my-nvrtc.so");
    const Ended ended = plan_with(folder / "my-nvrtc.so", folder / "cache");
    CHECK_MESSAGE(contains(ended.output, "origin=compiler"), ended.output);
  }

  TEST_CASE("nvrtc: without its builtins, the error names them") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const fs::path from = other_nvrtc().value_or(nvrtc_at_hand());
    const fs::path alone = folder / "libnvrtc.so.alone";
    fs::copy_file(from, alone);
    const Ended ended = plan_with(alone, folder / "cache");
    if (contains(ended.output, "origin=compiler")) {
      return skip("this machine's loader finds NVRTC's builtins wherever NVRTC is");
    }
    CHECK_MESSAGE(contains(ended.output, "error=compile"), ended.output);
    CHECK(contains(ended.output, "libnvrtc-builtins.so.1"));
    CHECK(contains(ended.output, alone.string()));
    CHECK(entries_in(folder / "cache").empty());
  }

  TEST_CASE("nvrtc: files that are no NVRTC") {
    const TemporaryFolder folder;
    write_text(folder / "text.so", "not a library");
    for (const fs::path& library :
         {folder / "text.so", folder / "missing.so", folder.path(), fs::path("libc.so.6")}) {
      const Ended ended = plan_with(library, folder / "cache");
      CHECK_MESSAGE(contains(ended.output, "error=unsupported"), ended.output);
      CHECK(contains(ended.output, library.string()));
    }
    // Where nothing is named, all that was tried is listed.
    const Ended ended = plan_with("", folder / "cache", {}, {{"CUDA_HOME", "/some/toolkit"}});
    if (contains(ended.output, "error=")) {
      CHECK(contains(ended.output, "libnvrtc.so.13"));
      CHECK(contains(ended.output, "/some/toolkit/lib64"));
      CHECK(contains(ended.output, "/usr/local/cuda/lib64"));
    }
  }

  TEST_CASE("nvrtc: what is found, for a person to be told") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const NvrtcFound found = find_nvrtc(Options::from_env().nvrtc);
    CHECK(fs::exists(found.path));
    CHECK(found.major >= 12);
    CHECK(std::count(found.architectures.begin(), found.architectures.end(), 80) == 1);
    const Error error = error_of([] { find_nvrtc({.library = "/nowhere/x.so", .toolkits = {}}); });
    CHECK(error.kind() == ErrorKind::unsupported);
    CHECK(contains(error.what(), "/nowhere/x.so"));
  }

  TEST_CASE("nvrtc: a template that includes CUDA's own headers") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const Engine engine(offline("sm_80"), options_in(folder / "cache"));
    engine.register_template(with_toolkit_header());
    CHECK(engine.source(kProblem, {.template_name = "with_half"}).toolkit_headers ==
          std::vector<std::string>{"cuda_fp16.h"});
    try {
      engine.plan(kProblem, {.template_name = "with_half"});
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::compile);
      CHECK(contains(error.what(), "cuda_fp16.h is included and not tilec's"));
      CHECK(contains(error.what(), "CUDA_HOME"));
      return skip("NVRTC is here without CUDA's headers");
    }
    const Engine again(offline("sm_80"), engine.options());
    again.register_template(with_toolkit_header());
    CHECK(again.plan(kProblem, {.template_name = "with_half"}).origin() == Origin::disk);
  }

  TEST_CASE("nvrtc: a header that is nowhere is named") {
    if (!has_nvrtc()) return skip("no NVRTC");
    Options options = options_in({});
    const Engine engine(offline("sm_80"), options);
    KernelTemplate kernel = small_add();
    kernel.source = "#include <no/such/header.h>\n" + kernel.source;
    engine.register_template(kernel);
    const Error error = error_of([&] { engine.plan(kProblem, {.template_name = "small_add"}); });
    CHECK(error.kind() == ErrorKind::compile);
    CHECK(contains(error.what(), "no/such/header.h"));
  }

  TEST_CASE("nvrtc: CUDA's headers in a folder with spaces, accents and CJK") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const fs::path headers = nvrtc_at_hand().parent_path().parent_path() / "include";
    if (!fs::exists(headers / "cuda_fp16.h")) return skip("NVRTC is here without CUDA's headers");
    const TemporaryFolder folder("a toolkit, très 日本");
    fs::create_directories(folder / "lib64");
    // A copy, so that the headers beside the original are not found.
    fs::copy_file(nvrtc_at_hand(), folder / "lib64" / "libnvrtc.so");
    for (const auto& file : fs::directory_iterator(nvrtc_at_hand().parent_path())) {
      const std::string name = file.path().filename().string();
      if (name.starts_with("libnvrtc-builtins.so.")) {
        fs::create_symlink(file.path(), folder / "lib64" / name);
      }
    }
    fs::create_directory_symlink(headers, folder / "include");
    const Ended ended =
        plan_with(folder / "lib64" / "libnvrtc.so", folder / "cache", {"header=cuda_fp16.h"});
    CHECK_MESSAGE(contains(ended.output, "origin=compiler"), ended.output);
  }

  TEST_CASE("nvrtc: two generations side by side in one cache") {
    if (!has_nvrtc()) return skip("no NVRTC");
    if (!other_nvrtc()) return skip("TILEC_NVRTC_OTHER names no other NVRTC");
    const TemporaryFolder folder;
    const auto engine_with = [&](const fs::path& library, const std::string& require = {},
                                 CachePolicy policy = CachePolicy::normal) {
      Options options = options_in(folder / "cache");
      if (!library.empty()) options.nvrtc.library = library;
      options.require_builder = require;
      options.cache_policy = policy;
      Engine engine(offline("sm_80"), options);
      engine.register_template(with_toolkit_header());
      return engine;
    };
    const auto builder = [](const auto& plan) { return plan.info().launches[0].builder; };

    // Every shipped template, every dtype, with the other NVRTC.
    const Engine other = engine_with(*other_nvrtc());
    std::string theirs;
    for (const KernelTemplate& kernel : catalog()) {
      for (const DType type : kernel.dtypes) {
        const PlanOptions named{.template_name = kernel.name};
        CAPTURE(kernel.name);
        if (kernel.operation == Operation::gemm) {
          const Gemm gemm = other.plan(GemmProblem{.M = 64, .N = 64, .K = 64, .a = type}, named);
          CHECK(gemm.origin() == Origin::compiler);
          CHECK(gemm.info().launches[0].registers > 0);
          theirs = builder(gemm);
        } else {
          CHECK(other.plan(AddProblem{.shape = {64}, .dtype = type}, named).origin() ==
                Origin::compiler);
        }
      }
    }
    const std::size_t count = entries_in(folder / "cache").size();
    CHECK(count >= 25);
    CHECK(theirs.starts_with("nvrtc-"));
    CHECK(std::count(theirs.begin(), theirs.end(), '.') == 2);

    // What they built serves where this NVRTC is at hand, and where none is.
    const GemmProblem problem{.M = 64, .N = 64, .K = 64};
    const PlanOptions naive{.template_name = "gemm_naive"};
    CHECK(builder(engine_with({}).plan(problem, naive)) == theirs);
    CHECK(builder(engine_with("/nowhere.so").plan(problem, naive)) == theirs);

    // Refreshed here, both are there.
    const Gemm ours = engine_with({}, {}, CachePolicy::refresh).plan(problem, naive);
    const std::string mine = builder(ours);
    CHECK(mine != theirs);
    CHECK(entries_in(folder / "cache").size() == count + 1);
    const std::string newest = cache::compare_builders(mine, theirs) > 0 ? mine : theirs;
    CHECK(builder(engine_with("/nowhere.so").plan(problem, naive)) == newest);
    for (const std::string& required : {mine, theirs}) {
      const Gemm pinned =
          engine_with("/nowhere.so", required, CachePolicy::must_hit).plan(problem, naive);
      CHECK(builder(pinned) == required);
      CHECK(pinned.key() == ours.key());
    }

    // Errors, dumps and PTX of the other.
    other.register_template(small_add("broken", "nonsense;"));
    const Error error = error_of([&] { other.plan(kProblem, {.template_name = "broken"}); });
    CHECK_MESSAGE(contains(error.what(), "/tilec/broken.cu(3): error"), error.what());
    Options options = options_in(folder / "ptx");
    options.nvrtc.library = *other_nvrtc();
    const Engine newer(offline("compute_90"), options);
    const PlanInfo info = newer.plan(problem, naive).info();
    CHECK(info.launches[0].target.starts_with("compute_"));
    CHECK(info.launches[0].builder == theirs);
  }
}

}  // namespace
}  // namespace tilec::test

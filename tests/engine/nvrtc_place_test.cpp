// Which NVRTC and which of CUDA's headers are taken where there are several, or the wrong ones, and
// what NVRTC is taken to know.
#include "compile/compiler.h"
#include "compile/nvrtc_library.h"
#include "support.h"

namespace tilec::test {
namespace {

const AddProblem kProblem{.shape = {100}};

Ended plan(const Environment& environment) {
  Environment whole{{"TILEC_NVRTC", std::nullopt},
                    {"CUDA_HOME", std::nullopt},
                    {"CUDA_PATH", std::nullopt},
                    {"TILEC_CACHE_POLICY", "off"}};
  for (const auto& [name, value] : environment) whole[name] = value;
  return run({.arguments = {"plan"}, .environment = whole});
}

// An include folder as a toolkit of that version has it.
void make_headers(const fs::path& include, const std::string& version) {
  write_text(include / "cuda_fp16.h", "");
  write_text(include / "cuda.h", "#ifndef X\n#define CUDA_VERSION " + version + "\n#endif\n");
}

NvrtcLibrary nvrtc_at_hand() {
  return NvrtcLibrary::open(Options::from_env().nvrtc);
}

CompileRequest request(const std::string& header) {
  return {
      .source = {.text = "#include <" + header + ">\nextern \"C\" __global__ void kernel() {}\n",
                 .entry = "kernel",
                 .headers = {},
                 .toolkit_headers = {header}},
      .target = Target::parse("sm_80"),
      .options = {},
      .name = "a kernel"};
}

TEST_SUITE("cpu") {
  TEST_CASE("nvrtc places: one that is too old is an error where it is named") {
    const Ended ended = plan({{"TILEC_NVRTC", TILEC_OLD_NVRTC}});
    CHECK_MESSAGE(contains(ended.output, "error=unsupported"), ended.output);
    CHECK(contains(ended.output, std::string("NVRTC 11.8 at ") + TILEC_OLD_NVRTC +
                                     " is too old, 12.0 is the least"));
  }

  TEST_CASE("nvrtc places: headers of NVRTC's own release come first") {
    const TemporaryFolder folder;
    const fs::path library = folder / "toolkit" / "lib64" / "libnvrtc.so.13";
    fs::create_directories(library.parent_path());
    const NvrtcLocation location{.library = {}, .toolkits = {folder / "other", folder / "third"}};
    const auto found = [&] { return find_toolkit_headers(location, library, 99, 8); };
    const auto first_folder = [&] { return found().value().folders.front(); };

    make_headers(folder / "other" / "include", "99070");
    CHECK(found().value().version() == "99.7");
    make_headers(folder / "toolkit" / "include", "98080");
    CHECK(found().value().version() == "98.8");
    make_headers(folder / "third" / "targets" / "x86_64-linux" / "include", "99080");
    CHECK(first_folder() == folder / "third" / "targets" / "x86_64-linux" / "include");
    write_text(folder / "other" / "include" / "cuda.h", "");
    write_text(folder / "other" / "include" / "cuda_runtime_api.h",
               "#define CUDART_VERSION  99080\n");
    CHECK(first_folder() == folder / "other" / "include");
    make_headers(folder / "toolkit" / "include", "99080");
    CHECK(first_folder() == folder / "toolkit" / "include");
  }

  TEST_CASE("nvrtc places: CCCL's headers, in the layouts they have had") {
    const TemporaryFolder folder;
    const auto folders = [](const fs::path& library) {
      return find_toolkit_headers({}, library, 99, 0).value().folders;
    };
    using Folders = std::vector<fs::path>;
    // A toolkit from CUDA 13 on, and one below targets/.
    for (const char* name : {"toolkit", "toolkit/targets/x86_64-linux"}) {
      fs::remove_all(folder / "toolkit");
      const fs::path root = folder / name;
      fs::create_directories(root / "lib");
      make_headers(root / "include", "99000");
      CHECK(folders(root / "lib" / "libnvrtc.so") == Folders{root / "include"});
      write_text(root / "include" / "cccl" / "cuda" / "std" / "array", "");
      CHECK(folders(root / "lib" / "libnvrtc.so") ==
            Folders{root / "include", root / "include" / "cccl"});
    }
    // Wheels of CUDA 12, a folder each.
    const fs::path wheels = folder / "nvidia";
    make_headers(wheels / "cuda_runtime" / "include", "99000");
    write_text(wheels / "cuda_cccl" / "include" / "cuda" / "std" / "array", "");
    fs::create_directories(wheels / "cuda_nvrtc" / "lib");
    CHECK(folders(wheels / "cuda_nvrtc" / "lib" / "libnvrtc.so.12") ==
          Folders{wheels / "cuda_runtime" / "include", wheels / "cuda_cccl" / "include"});
    // A wheel without CCCL: that of a toolkit of the same release serves, another's does not.
    const fs::path bare = folder / "bare" / "nvidia";
    make_headers(bare / "cuda_runtime" / "include", "99000");
    fs::create_directories(bare / "cuda_nvrtc" / "lib");
    const auto beside = [&](const char* version) {
      const fs::path root = folder / version;
      make_headers(root / "include", version);
      write_text(root / "include" / "cccl" / "cuda" / "std" / "array", "");
      return find_toolkit_headers({.library = {}, .toolkits = {root}},
                                  bare / "cuda_nvrtc" / "lib" / "libnvrtc.so", 99, 0)
          .value();
    };
    CHECK(beside("98000").folders == Folders{bare / "cuda_runtime" / "include"});
    CHECK(beside("98000").cccl().empty());
    CHECK(beside("99000").folders ==
          Folders{bare / "cuda_runtime" / "include", folder / "99000" / "include" / "cccl"});
  }
}

TEST_SUITE("nvrtc") {
  TEST_CASE("nvrtc places: the search goes on behind one that is too old") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    fs::create_directories(folder / "old");
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
      fs::create_symlink(TILEC_OLD_NVRTC, folder / "old" / name);
    }
    const fs::path library = fs::canonical(find_nvrtc(Options::from_env().nvrtc).path);
    fs::create_directories(folder / "toolkit");
    fs::create_directory_symlink(library.parent_path(), folder / "toolkit" / "lib64");
    const Ended ended = plan({{"LD_LIBRARY_PATH", (folder / "old").string()},
                              {"CUDA_HOME", (folder / "toolkit").string()}});
    CHECK_MESSAGE(contains(ended.output, "origin=compiler"), ended.output);
  }

  TEST_CASE("nvrtc places: headers of another release are told in the builder and in errors") {
    if (!has_nvrtc()) return skip("no NVRTC");
    NvrtcLibrary library = nvrtc_at_hand();
    const TemporaryFolder folder;
    make_headers(folder / "include", "12080");
    const std::string own = nvrtc_compiler(library)
                                ->compile([] {
                                  CompileRequest without = request("none");
                                  without.source.text =
                                      "extern \"C\" __global__ void kernel() {}\n";
                                  without.source.toolkit_headers = {};
                                  return without;
                                }())
                                .builder;
    CHECK(std::count(own.begin(), own.end(), '-') == 1);

    library.headers = ToolkitHeaders{
        .folders = {folder / "include"}, .major = library.major, .minor = library.minor};
    CHECK(nvrtc_compiler(library)->compile(request("cuda_fp16.h")).builder == own);
    library.headers = ToolkitHeaders{.folders = {folder / "include"}, .major = 11, .minor = 7};
    const std::string mixed = nvrtc_compiler(library)->compile(request("cuda_fp16.h")).builder;
    CHECK(mixed == own + "-headers-11.7");
    CHECK(cache::valid_builder(mixed));
    library.headers->major = library.headers->minor = 0;
    CHECK(nvrtc_compiler(library)->compile(request("cuda_fp16.h")).builder ==
          own + "-headers-unknown");

    library.headers->major = 11;
    write_text(folder / "include" / "cuda_fp16.h", "#error not made for this\n");
    const Error error = error_of([&] { nvrtc_compiler(library)->compile(request("cuda_fp16.h")); });
    CHECK(error.kind() == ErrorKind::compile);
    for (const std::string& part :
         {"is of CUDA " + std::to_string(library.major) + "." + std::to_string(library.minor),
          (folder / "include").string() + " are of 11.0", std::string("CUDA_HOME")}) {
      CHECK_MESSAGE(contains(error.what(), part), error.what());
    }
  }

  TEST_CASE("nvrtc places: a template that includes libcu++ and CUB") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const NvrtcLibrary library = nvrtc_at_hand();
    const auto& headers = library.headers;
    const bool there =
        headers &&
        std::any_of(headers->folders.begin(), headers->folders.end(), [](const fs::path& folder) {
          return fs::exists(folder / "cuda/std/array") && fs::exists(folder / "cub/warp");
        });
    if (!there) return skip("NVRTC is here without CCCL's headers");
    KernelTemplate kernel = small_add("with_cccl",
                                      "cuda::std::array<int, 2> both{NUMBER, 2};\n"
                                      "using Sum = cub::WarpReduce<int>;\n"
                                      "__shared__ typename Sum::TempStorage storage;\n"
                                      "const int sum = Sum(storage).Sum(both[0]);\n"
                                      "if (args.n > 0) *static_cast<int*>(args.out) = sum;");
    kernel.source =
        "#include <cuda/std/array>\n#include <cub/warp/warp_reduce.cuh>\n"
        "#include <cooperative_groups.h>\n#include <mma.h>\n" +
        kernel.source;
    const Engine engine(offline("sm_80"), options_in({}));
    engine.register_template(kernel);
    const Add add = engine.plan(kProblem, {.template_name = "with_cccl"});
    CHECK(add.origin() == Origin::compiler);
  }

  TEST_CASE("nvrtc places: what NVRTC is said to know is what it compiles") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const NvrtcLibrary nvrtc = nvrtc_at_hand();
    const auto compiles = [&](const std::string& target) {
      nvrtcProgram program = nullptr;
      const std::string option = "--gpu-architecture=" + target;
      const char* const options[] = {option.c_str()};
      nvrtc.create_program(&program, "__global__ void kernel() {}", "x.cu", 0, nullptr, nullptr);
      const nvrtcResult result = nvrtc.compile_program(program, 1, options);
      nvrtc.destroy_program(&program);
      return result == NVRTC_SUCCESS;
    };
    // sm_80a is no target at all.
    const auto knows = [&](const std::string& target) {
      try {
        return nvrtc.why_not(Target::parse(target)).empty();
      } catch (const std::invalid_argument&) {
        return false;
      }
    };
    std::vector<int> numbers = nvrtc.architectures;
    numbers.insert(numbers.end(), {52, 70, 81, 91, 150, 999});
    for (const int sm : numbers) {
      for (const char* suffix : {"", "a", "f"}) {
        const std::string name = "sm_" + std::to_string(sm) + suffix;
        CHECK_MESSAGE(compiles(name) == knows(name), name);
      }
    }
    const std::vector<Target> known = nvrtc.targets();
    CHECK(std::count(known.begin(), known.end(), Target::parse("sm_90a")) == 1);
    CHECK(nvrtc.why_not(Target::parse("compute_80")).empty());
    CHECK_FALSE(nvrtc.why_not(Target::host()).empty());
  }

  TEST_CASE("nvrtc places: a compiler asked who it is says what its work will say") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const auto compiler = nvrtc_compiler(Options::from_env().nvrtc);
    KernelTemplate kernel = small_add();
    for (const char* first_line : {"", "#include <cuda_fp16.h>\n"}) {
      kernel.source = first_line + kernel.source;
      for (const char* target : {"sm_80", "compute_80"}) {
        const CompileRequest request{.source = render(kernel, f32, {{"NUMBER", 1}}),
                                     .target = Target::parse(target),
                                     .options = {},
                                     .name = target};
        CHECK(compiler->builder(request) == compiler->compile(request).builder);
      }
    }
  }

  TEST_CASE("nvrtc places: nothing stands in for a target that NVRTC does not know") {
    if (!has_nvrtc()) return skip("no NVRTC");
    const TemporaryFolder folder;
    const std::string least = "sm_" + std::to_string(nvrtc_at_hand().architectures.front());
    KernelTemplate kernel = small_add();
    kernel.least_sm = 30;
    for (const char* target : {"sm_999", "sm_81", "sm_91", "compute_199", "sm_52"}) {
      const bool old = std::string(target) == "sm_52";
      if (old && least <= "sm_52") continue;
      CAPTURE(target);
      const Engine engine(offline(target), options_in(folder.path()));
      engine.register_template(kernel);
      const Error error = error_of([&] { engine.plan(kProblem, {.template_name = "small_add"}); });
      CHECK(error.kind() == ErrorKind::unsupported);
      for (const std::string& part :
           {target + std::string(" can't be compiled for"), ") knows " + least + ", ",
            std::string("sm_90a, "), old ? least + " is the least" : "no architecture"}) {
        CHECK_MESSAGE(contains(error.what(), part), error.what());
      }
    }
    CHECK(entries_in(folder.path()).empty());
  }
}

}  // namespace
}  // namespace tilec::test

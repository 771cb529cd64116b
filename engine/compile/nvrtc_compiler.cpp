// NVRTC behind the Compiler interface. Several threads may compile at once.
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

#include "compile/compiler.h"
#include "compile/nvrtc_library.h"
#include "compile/ptxas_log.h"

namespace tilec {
namespace {

using Clock = std::chrono::steady_clock;

// A program and its destruction.
class Program {
 public:
  Program(const NvrtcLibrary& nvrtc, const Source& source) : nvrtc_(nvrtc) {
    std::vector<const char*> texts, names;
    for (const Header& header : source.headers) {
      texts.push_back(header.text.c_str());
      names.push_back(header.name.c_str());
    }
    // Absolute, so that no output holds the working directory; where no folder can be, as headers are
    // looked for beside it.
    const nvrtcResult result =
        nvrtc.create_program(&program_, source.text.c_str(), "/dev/null/tilec/prologue.cu",
                             static_cast<int>(texts.size()), texts.data(), names.data());
    if (result != NVRTC_SUCCESS) {
      throw Error(ErrorKind::compile,
                  fmt::format("nvrtcCreateProgram failed: {}", nvrtc.get_error_string(result)));
    }
  }
  ~Program() { nvrtc_.destroy_program(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtcResult compile(const std::vector<std::string>& options) const {
    std::vector<const char*> list;
    for (const std::string& option : options) list.push_back(option.c_str());
    return nvrtc_.compile_program(program_, static_cast<int>(list.size()), list.data());
  }

  std::string log() const {
    std::string text = read<std::string>(nvrtc_.get_log_size, nvrtc_.get_log);
    // A zero byte parts what ptxas has to tell from its errors.
    std::erase(text, '\0');
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  std::vector<std::byte> cubin() const {
    return read<std::vector<std::byte>>(nvrtc_.get_cubin_size, nvrtc_.get_cubin);
  }
  // The driver takes PTX as a string: its terminating zero is part of it.
  std::vector<std::byte> ptx() const {
    return read<std::vector<std::byte>>(nvrtc_.get_ptx_size, nvrtc_.get_ptx);
  }

 private:
  template <class Bytes, class GetSize, class Get>
  Bytes read(GetSize get_size, Get get) const {
    std::size_t size = 0;
    Bytes bytes;
    if (get_size(program_, &size) == NVRTC_SUCCESS && size > 0) {
      bytes.resize(size);
      get(program_, reinterpret_cast<char*>(bytes.data()));
    }
    return bytes;
  }

  const NvrtcLibrary& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

// "13.0.88", from the release line that NVRTC leaves in PTX, and from 13.0 on in cubins; it tells
// the build, which nvrtcVersion does not. Empty where there is none.
std::string release_in(const std::vector<std::byte>& image) {
  constexpr std::string_view kMark = "Cuda compilation tools, release ";
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  const std::size_t mark = text.find(kMark);
  if (mark == std::string_view::npos) return {};
  const std::string_view rest = text.substr(mark, 128);
  const std::size_t version = rest.find(", V");
  if (version == std::string_view::npos) return {};
  const std::string_view number = rest.substr(version + 3);
  return std::string(number.substr(0, number.find_first_not_of("0123456789.")));
}

// From 12.9 on NVRTC keeps results in the driver's cache of compiles. Ours makes that idle, and a
// result from there comes without the log.
void add_no_cache(const NvrtcLibrary& nvrtc, std::vector<std::string>& options) {
  if (nvrtc.major * 100 + nvrtc.minor >= 1209) options.push_back("--no-cache");
}

// The same, asked of the library itself.
std::string release_of(const NvrtcLibrary& nvrtc) {
  const Program program(nvrtc, {.text = "\n", .entry = {}, .headers = {}, .toolkit_headers = {}});
  const int sm = nvrtc.architectures.empty() ? 75 : nvrtc.architectures.back();
  std::vector<std::string> options{fmt::format("--gpu-architecture=compute_{}", sm)};
  add_no_cache(nvrtc, options);
  program.compile(options);
  const std::string release = release_in(program.ptx());
  return release.empty() ? fmt::format("{}.{}", nvrtc.major, nvrtc.minor) : release;
}

class NvrtcCompiler final : public Compiler {
 public:
  explicit NvrtcCompiler(NvrtcLocation location) : location_(std::move(location)) {}
  explicit NvrtcCompiler(NvrtcLibrary library) : nvrtc_(std::move(library)) {}

  std::vector<std::string> options(const Target& target) const override {
    std::vector<std::string> list{"--gpu-architecture=" + target.name(), "--std=c++20"};
    if (target.kind() == Target::Kind::sm) {  // ptxas tells registers and spills in the log
      list.insert(list.end(), {"-Xptxas", "-v"});
    }
    return list;
  }

  Target nearest_target(const Target& target) const override {
    const NvrtcLibrary& library = nvrtc();
    const auto& known = library.architectures;
    if (std::find(known.begin(), known.end(), target.sm()) != known.end()) return target;
    if (const std::optional<Target> ptx = target.newest_ptx(known)) return *ptx;
    throw Error(ErrorKind::unsupported, library.why_not(target));
  }

  std::string builder(const CompileRequest& request) const override {
    return builder(request, release(nvrtc(), {}));
  }

  Artifact compile(const CompileRequest& request) const override {
    const auto start = Clock::now();
    const NvrtcLibrary& library = nvrtc();
    if (const std::string why = library.why_not(request.target); !why.empty()) {
      throw Error(ErrorKind::unsupported, why);
    }
    const std::vector<std::string> all = all_options(library, request);
    const Program program(library, request.source);
    const nvrtcResult result = program.compile(all);
    const std::string log = program.log();
    if (result != NVRTC_SUCCESS) fail(library, request, all, result, log);
    const bool ptx = request.target.kind() == Target::Kind::compute;
    Artifact artifact{
        .kind = ptx ? "ptx" : "cubin", .image = ptx ? program.ptx() : program.cubin(), .log = log};
    artifact.entries = parse_ptxas_log(log);
    artifact.builder = builder(request, release(library, artifact.image));
    if (ptx) artifact.entries = {cache::EntryPoint{.name = request.source.entry}};
    expect_entry(request, artifact);
    artifact.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return artifact;
  }

 private:
  std::string builder(const CompileRequest& request, const std::string& release) const {
    std::string name = "nvrtc-" + release;
    // What comes out depends on the headers, too.
    if (other_headers(nvrtc(), request)) name += "-headers-" + nvrtc().headers->version();
    return name;
  }

  // Of an image, or where that doesn't tell (or is empty) of the library.
  std::string release(const NvrtcLibrary& library, const std::vector<std::byte>& image) const {
    if (std::string told = release_in(image); !told.empty()) return told;
    const std::lock_guard lock(mutex_);
    if (release_.empty()) release_ = release_of(library);
    return release_;
  }

  const NvrtcLibrary& nvrtc() const {
    const std::lock_guard lock(mutex_);
    if (!nvrtc_) nvrtc_ = NvrtcLibrary::open(location_);
    return *nvrtc_;
  }

  // The options of the key, the template's, and those that depend on this machine and don't change
  // what is compiled.
  std::vector<std::string> all_options(const NvrtcLibrary& library,
                                       const CompileRequest& request) const {
    std::vector<std::string> all = options(request.target);
    all.insert(all.end(), request.options.begin(), request.options.end());
    add_no_cache(library, all);
    if (!request.source.toolkit_headers.empty() && library.headers) {
      for (const std::filesystem::path& folder : library.headers->folders) {
        all.push_back("--include-path=" + folder.string());
      }
    }
    return all;
  }

  // Whether the toolkit's headers that the request uses are of another release than NVRTC.
  static bool other_headers(const NvrtcLibrary& library, const CompileRequest& request) {
    return !request.source.toolkit_headers.empty() && library.headers &&
           (library.headers->major != library.major || library.headers->minor != library.minor);
  }

  // What may be wrong with the headers, a line each.
  static std::string header_hints(const NvrtcLibrary& library, const CompileRequest& request,
                                  const std::string& log) {
    const std::vector<std::string>& names = request.source.toolkit_headers;
    if (names.empty()) return {};
    constexpr const char* kToolkit = "name a whole toolkit in CUDA_HOME or Options::nvrtc.toolkits";
    std::string hints;
    if (!library.headers) {
      hints += fmt::format("\nno CUDA toolkit's include folder was found; {}", kToolkit);
    } else if (other_headers(library, request)) {
      hints += fmt::format(
          "\nNVRTC ({0}) is of CUDA {1}.{2}, and CUDA's headers in {3} are of {4}: install those "
          "of "
          "{1}.{2} beside it, or {5}",
          library.path.string(), library.major, library.minor,
          library.headers->folders.front().string(), library.headers->version(), kToolkit);
    }
    if (log.find("open source file") == std::string::npos) return hints;
    constexpr const char* kCccl[] = {"\"cuda/", "\"cub/", "\"thrust/", "\"nv/"};
    const bool wants_cccl = std::ranges::any_of(
        kCccl, [&](const char* start) { return log.find(start) != std::string::npos; });
    if (wants_cccl && library.headers && library.headers->cccl().empty()) {
      hints += fmt::format(
          "\nCCCL (cuda/std, cub, thrust) is not with CUDA's headers in {}: install it beside them "
          "(PyPI: nvidia-cuda-cccl), or {}",
          library.headers->folders.front().string(), kToolkit);
    }
    return hints + fmt::format(
                       "\nneither tilec's nor in KernelTemplate::headers, and so looked for among "
                       "CUDA's own: {}",
                       fmt::join(names, ", "));
  }

  [[noreturn]] static void fail(const NvrtcLibrary& library, const CompileRequest& request,
                                const std::vector<std::string>& options, nvrtcResult result,
                                const std::string& log) {
    std::string why = library.get_error_string(result);
    if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
      why += fmt::format(": libnvrtc-builtins.so.{}.{} is missing; it belongs beside {}",
                         library.major, library.minor, library.path.string());
    }
    throw Error(ErrorKind::compile,
                fmt::format("{} does not compile ({})\noptions: {}{}\n{}", request.name, why,
                            fmt::join(options, " "), header_hints(library, request, log), log),
                log);
  }

  static void expect_entry(const CompileRequest& request, const Artifact& artifact) {
    std::string names;
    for (const cache::EntryPoint& entry : artifact.entries) {
      if (entry.name == request.source.entry) return;
      names += (names.empty() ? "" : ", ") + entry.name;
    }
    throw Error(
        ErrorKind::compile,
        fmt::format("{} compiles, but holds no kernel called '{}' (it holds {}); declare it "
                    "extern \"C\" __global__, or name its symbol in KernelTemplate::entry",
                    request.name, request.source.entry, names.empty() ? "none" : names),
        artifact.log);
  }

  NvrtcLocation location_;
  mutable std::mutex mutex_;  // of the members below while they are being found out
  mutable std::optional<NvrtcLibrary> nvrtc_;
  mutable std::string release_;
};

}  // namespace

std::unique_ptr<Compiler> nvrtc_compiler(const NvrtcLocation& location) {
  return std::make_unique<NvrtcCompiler>(location);
}

std::unique_ptr<Compiler> nvrtc_compiler(NvrtcLibrary library) {
  return std::make_unique<NvrtcCompiler>(std::move(library));
}

}  // namespace tilec

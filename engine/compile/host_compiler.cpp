// The machine's C++ compiler behind the Compiler interface: a kernel, between the shim and the
// trampoline, becomes a shared object for the host device. Several threads may compile at once.
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "compile/compiler.h"
#include "compile/host_process.h"

namespace tilec {

namespace embedded {
using File = std::pair<std::string_view, std::string_view>;
std::span<const File> host_headers();
}  // namespace embedded

namespace {

using Clock = std::chrono::steady_clock;

// Kernels are built with the sanitizers that tilec itself is built with; ThreadSanitizer, which
// would have to be told of every barrier, watches the emulator alone.
#if defined(TILEC_SANITIZERS)
constexpr std::string_view kSanitizers = TILEC_SANITIZERS;
#else
constexpr std::string_view kSanitizers = "";
#endif
const bool kSanitized = !kSanitizers.empty() && kSanitizers != "thread";

struct Program {
  std::filesystem::path path;
  std::string builder;  // "g++-12.2.0"
};

// The value of a macro in what `-E -dM` prints, without quotes; empty where there is none.
std::string macro(std::string_view definitions, std::string_view name) {
  const std::string start = fmt::format("#define {} ", name);
  const std::size_t at = definitions.find(start);
  if (at == std::string_view::npos) return {};
  std::string_view value = definitions.substr(at + start.size());
  value = value.substr(0, value.find('\n'));
  if (value.starts_with('"')) value.remove_prefix(1);
  return std::string(value.substr(0, value.find_first_of("\" ")));
}

std::string builder_of(std::string_view definitions) {
  if (const std::string major = macro(definitions, "__clang_major__"); !major.empty()) {
    return fmt::format("clang++-{}.{}.{}", major, macro(definitions, "__clang_minor__"),
                       macro(definitions, "__clang_patchlevel__"));
  }
  const std::string version = macro(definitions, "__VERSION__");
  return version.empty() ? std::string() : "g++-" + version;
}

// Sanitized code needs the run-time library of the compiler that built tilec.
std::vector<std::filesystem::path> usual_names() {
#if defined(__clang__)
  if (kSanitized) return {"clang++"};
#endif
  return {"c++", "g++", "clang++"};
}

Program find_program(const std::filesystem::path& named) {
  const auto names = named.empty() ? usual_names() : std::vector<std::filesystem::path>{named};
  const TemporaryFolder folder;
  std::vector<std::string> reasons;
  for (const std::filesystem::path& name : names) {
    const ProgramResult result = run_program(name, {"-E", "-dM", "-x", "c++", "/dev/null"}, folder);
    std::string builder = builder_of(result.output);
    if (result.not_started.empty() && !builder.empty()) return {name, std::move(builder)};
    std::string why = "is no GCC or Clang";
    if (!result.failure.empty()) why += " that works here (" + result.failure + ")";
    reasons.push_back(fmt::format("{}: {}", name.string(),
                                  result.not_started.empty() ? why : result.not_started));
  }
  throw Error(ErrorKind::unsupported,
              fmt::format("the host device needs a C++20 compiler, and there is none ({}); install "
                          "one (Debian, Ubuntu: apt-get install g++) or name it in "
                          "Options::host_compiler or TILEC_HOST_COMPILER",
                          fmt::join(reasons, "; ")));
}

// Everything that stands around a kernel is part of its key.
std::string shim_digest() {
  cache::KeyHasher hasher;
  for (const auto& [name, text] : embedded::host_headers()) hasher.field(name, text);
  return hasher.finish().hex();
}

// Of a template's options, which are NVRTC's: the macros, by any of their spellings. The rest steers
// code for GPUs.
std::vector<std::string> macro_options(const std::vector<std::string>& options) {
  constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
      {"--define-macro", "-D"},   {"-define-macro", "-D"},   {"-D", "-D"},
      {"--undefine-macro", "-U"}, {"-undefine-macro", "-U"}, {"-U", "-U"}};
  std::vector<std::string> macros;
  for (std::size_t i = 0; i < options.size(); ++i) {
    std::string_view option = options[i];
    option.remove_prefix(std::min(option.find_first_not_of(" \t\n\v\f\r"), option.size()));
    for (const auto& [spelling, flag] : kSpellings) {
      if (!option.starts_with(spelling)) continue;
      std::string_view macro = option.substr(spelling.size());
      if (macro.empty() && i + 1 < options.size()) macro = options[++i];
      if (spelling != flag && macro.starts_with('=')) macro.remove_prefix(1);
      macros.push_back(std::string(flag) + std::string(macro));
      break;
    }
  }
  return macros;
}

// The name in `extern __shared__ … name[];`: the block's dynamic shared memory as CUDA declares it.
std::string dynamic_shared_name(std::string_view text) {
  constexpr std::string_view kExtern = "extern", kShared = "__shared__";
  for (std::size_t at = text.find(kExtern); at != std::string_view::npos;
       at = text.find(kExtern, at + 1)) {
    const std::size_t word = text.find_first_not_of(" \t\r\n", at + kExtern.size());
    if (word == std::string_view::npos || !text.substr(word).starts_with(kShared)) continue;
    std::size_t end = text.find_first_of("[;", word);
    if (end == std::string_view::npos || text[end] != '[') continue;
    const auto in_name = [&](std::size_t i) {
      return std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_';
    };
    while (end > word && !in_name(end - 1)) --end;
    std::size_t start = end;
    while (start > word && in_name(start - 1)) --start;
    return std::string(text.substr(start, end - start));
  }
  return {};
}

// The translation unit: shim, kernel, trampoline.
std::string translation_unit(const CompileRequest& request) {
  std::string text =
      "#include \"device/host_shim.h\"\n#include \"device/host_shim_math.h\"\n"
      "#line 1 \"/tilec/prologue.cu\"\n";
  text += request.source.text;
  text += "\n#line 1 \"/tilec/host_trampoline.h\"\n";
  if (const std::string name = dynamic_shared_name(request.source.text); !name.empty()) {
    text += fmt::format(
        "alignas(1024) thread_local unsigned char tilec_dynamic_shared[{}] asm(\"{}\");\n",
        request.target.max_shared_bytes(), name);
  }
  text += fmt::format("#define TILEC_ENTRY {}\n#include \"device/host_trampoline.h\"\n",
                      request.source.entry);
  return text;
}

void write_sources(const TemporaryFolder& folder, const CompileRequest& request) {
  for (const auto& [name, text] : embedded::host_headers()) folder.write(name, text);
  for (const Header& header : request.source.headers) {
    const std::filesystem::path name = std::filesystem::path(header.name).lexically_normal();
    if (name.is_absolute() || name.empty() || *name.begin() == "..") {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("{}: a header called '{}' can't be given to the host compiler; names "
                              "are relative paths",
                              request.name, header.name));
    }
    folder.write("include" / name, header.text);
  }
  folder.write("kernel.cpp", translation_unit(request));
}

// Without the folder in the names of files, which differs each time.
std::string readable(std::string log, const TemporaryFolder& folder) {
  for (const std::string& prefix : {folder.path().string() + "/", std::string("include/")}) {
    for (std::size_t at = log.find(prefix); at != std::string::npos; at = log.find(prefix, at)) {
      const bool whole = at == 0 || std::strchr("\n \"'", log[at - 1]) != nullptr;
      if (whole) log.erase(at, prefix.size());
      if (!whole) ++at;
    }
  }
  while (!log.empty() && log.back() == '\n') log.pop_back();
  return log;
}

class HostCompiler final : public Compiler {
 public:
  explicit HostCompiler(std::filesystem::path named) : named_(std::move(named)) {}

  std::vector<std::string> options(const Target& target) const override {
    if (target.kind() != Target::Kind::host) {
      throw Error(ErrorKind::unsupported, "the host compiler can't compile for " + target.name());
    }
    std::vector<std::string> list{"-std=c++20",
                                  "-O2",
                                  "-fPIC",
                                  "-shared",
                                  "-w",
                                  "-fvisibility=hidden",

                                  "-ffp-contract=off",
                                  "-DTILEC_HOST_SHIM=0x" + shim_digest().substr(0, 16)};
    if (kSanitized) {
      list.push_back(fmt::format("-fsanitize={}", kSanitizers));
      list.insert(list.end(), {"-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1"});
    } else {
      list.push_back("-Wl,-z,defs");  // a missing function is a compile error, not a load error
    }
    return list;
  }

  std::string builder(const CompileRequest&) const override { return program().builder; }

  Artifact compile(const CompileRequest& request) const override {
    const auto start = Clock::now();
    const Program& compiler = program();
    std::vector<std::string> all = options(request.target);
    std::ranges::copy(macro_options(request.options), std::back_inserter(all));
    std::vector<std::string> arguments = all;
    const TemporaryFolder folder;
    // The folder's name stays out of the object: the same source makes the same bytes.
    arguments.push_back("-ffile-prefix-map=" + folder.path().string() + "=/tilec");
    arguments.insert(arguments.end(), {"-Iinclude", "-x", "c++", "kernel.cpp", "-o", "kernel.so"});
    write_sources(folder, request);
    const ProgramResult result = run_program(compiler.path, arguments, folder);
    const std::string log = readable(result.output, folder);
    const std::string object = folder.read("kernel.so");
    if (!result.not_started.empty() || !result.failure.empty() || object.empty()) {
      fail(request, compiler, all, result, log);
    }
    Artifact artifact{.kind = "host",
                      .image = std::vector<std::byte>(object.size()),
                      .entries = {cache::EntryPoint{.name = request.source.entry}},
                      .builder = compiler.builder,
                      .log = log};
    std::memcpy(artifact.image.data(), object.data(), object.size());
    artifact.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return artifact;
  }

 private:
  // Asks for the compiler's identity once.
  const Program& program() const {
    const std::lock_guard lock(mutex_);
    if (!program_) program_ = find_program(named_);
    return *program_;
  }

  [[noreturn]] static void fail(const CompileRequest& request, const Program& compiler,
                                const std::vector<std::string>& options,
                                const ProgramResult& result, const std::string& log) {
    const std::string why = !result.not_started.empty() ? result.not_started : result.failure;
    std::string hint;
    const std::size_t missing =
        log.find(fmt::format("'::{}' has not been declared", request.source.entry));
    // Only if it is the first: what went wrong before it may be why.
    if (missing != std::string::npos && log.find("error:") >= log.rfind('\n', missing) + 1) {
      hint = fmt::format(
          "\nthere is no kernel called '{}'; declare it extern \"C\" __global__, or "
          "name its symbol in KernelTemplate::entry",
          request.source.entry);
    }
    if (!request.source.toolkit_headers.empty()) {
      hint += fmt::format(
          "\n{} {} included and neither tilec's nor the template's; CUDA's own headers "
          "are for GPUs, the host device has none of them",
          fmt::join(request.source.toolkit_headers, ", "),
          request.source.toolkit_headers.size() == 1 ? "is" : "are");
    }
    throw Error(ErrorKind::compile,
                fmt::format("{} does not compile ({}: {})\noptions: {}{}\n{}", request.name,
                            compiler.builder, why.empty() ? "no object" : why,
                            fmt::join(options, " "), hint, log),
                log);
  }

  std::filesystem::path named_;
  mutable std::mutex mutex_;  // of program_ while it is being found
  mutable std::optional<Program> program_;
};

}  // namespace

std::unique_ptr<Compiler> host_compiler(const std::filesystem::path& program) {
  return std::make_unique<HostCompiler>(program);
}

}  // namespace tilec

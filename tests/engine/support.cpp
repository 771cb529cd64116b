#include "support.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "compile/nvrtc_library.h"

extern char** environ;

namespace tilec::test {

// --- files and messages ------------------------------------------------------------------------

TemporaryFolder::TemporaryFolder(const std::string& name) {
  std::string pattern = (fs::temp_directory_path() / "tilec-engine-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  top_ = pattern;
  path_ = top_ / name;
  fs::create_directories(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(top_, ignored);
}

std::string read_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

void write_text(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary);
  stream << text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Messages::Kept : spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::lock_guard lock(reading);
    if (message.level >= spdlog::level::warn) {
      warnings.emplace_back(message.payload.data(), message.payload.size());
    }
  }
  void flush_() override {}

  std::mutex reading;
  std::vector<std::string> warnings;
};

Messages::Messages()
    : kept_(std::make_shared<Kept>()), logger_(std::make_shared<spdlog::logger>("test", kept_)) {
  logger_->set_level(spdlog::level::debug);
}

std::vector<std::string> Messages::warnings() const {
  const std::lock_guard lock(kept_->reading);
  return kept_->warnings;
}

std::string Messages::all_warnings() const {
  std::string text;
  for (const std::string& warning : warnings()) text += warning + "\n";
  return text;
}

// --- engines -----------------------------------------------------------------------------------

Options options_in(const fs::path& cache_dir) {
  Options options;
  options.nvrtc = Options::from_env().nvrtc;
  options.cache_dir = cache_dir;
  options.cache_sync = false;
  return options;
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no tilec::Error was thrown");
  return Error(ErrorKind::unsupported, "");
}

namespace {

int open_nvrtc() {
  try {
    NvrtcLibrary::open(Options::from_env().nvrtc);
    return 0;
  } catch (const Error&) {
    return 1;
  }
}

}  // namespace

bool has_nvrtc() {
  static const bool present = in_child(open_nvrtc) == 0;
  return present;
}

bool has_nvrtc(unsigned user) {
  return in_child([&] { return setgid(user) == 0 && setuid(user) == 0 ? open_nvrtc() : 1; }) == 0;
}

namespace {

KernelTemplate small(Operation operation, const std::string& name, const std::string& body) {
  const std::string type = operation == Operation::gemm ? "GemmArgs" : "AddArgs";
  const std::string header = operation == Operation::gemm ? "gemm_args" : "add_args";
  return {.name = name,
          .operation = operation,
          .source = "#include \"tilec/" + header + ".h\"\nextern \"C\" __global__ void " + name +
                    "(const __grid_constant__ tilec::" + type + " args) {\n" + body + "\n}\n",
          .parameters = {{"NUMBER", "any", Allowed::range(0, 1 << 20), always(1), {1}}},
          .dtypes = {f32, f64, f16, bf16, s32},
          .launch = [](const Problem&, const Parameters&) { return LaunchShape{}; }};
}

}  // namespace

KernelTemplate small_add(const std::string& name, const std::string& body) {
  return small(Operation::add, name, body);
}
KernelTemplate small_gemm(const std::string& name, const std::string& body) {
  return small(Operation::gemm, name, body);
}

std::string unheard_of_builder() {
  static std::atomic<int> number{0};
  return "nvrtc-99.0." + std::to_string(++number);
}

std::vector<std::byte> made_up_cubin(int sm, const std::string& tag) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_OSABI] = 0x41;
  header.e_machine = 190;
  header.e_flags = static_cast<Elf64_Word>(sm) << 8;
  std::vector<std::byte> bytes(sizeof header + tag.size() + 1);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, tag.data(), tag.size());
  return bytes;
}

std::vector<std::byte> made_up_ptx(int sm, const std::string& tag) {
  const std::string text = "//\n.version 9.0\n.target sm_" + std::to_string(sm) + "\n" + tag + "\n";
  std::vector<std::byte> bytes(text.size() + 1);
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

void publish_made_up(const Engine& engine, const Problem& problem, const PlanOptions& options,
                     const MadeUp& made_up) {
  const KernelPreview preview = engine.preview(problem, options);
  const bool ptx = preview.target.kind() == Target::Kind::compute;
  const std::string entry = engine.source(problem, options).entry;
  const cache::Store store({.root = engine.options().cache_dir, .sync = false});
  cache::Metadata metadata;
  metadata.kind = ptx ? "ptx" : "cubin";
  metadata.template_name = preview.template_name;
  metadata.target = preview.target.name();
  metadata.entries = {{.name = entry,
                       .registers = made_up.registers,
                       .static_shared_bytes = made_up.static_shared_bytes,
                       .max_threads = made_up.max_threads}};
  metadata.builder = made_up.builder;
  const auto published = store.publish(*cache::Key::parse(preview.key), metadata,
                                       ptx ? made_up_ptx(preview.target.sm(), made_up.tag)
                                           : made_up_cubin(preview.target.sm(), made_up.tag));
  REQUIRE_MESSAGE(published, published.detail);
}

std::vector<fs::path> entries_in(const fs::path& root) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (auto file = fs::recursive_directory_iterator(root, error);
       !error && file != fs::recursive_directory_iterator(); file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (name.size() > 33 && name[32] == '.' && cache::Key::parse(name.substr(0, 32))) {
      entries.push_back(file->path());
    }
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// --- other processes ---------------------------------------------------------------------------

namespace {

int status_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

struct Running {
  pid_t process = -1;
  int output = -1;
};

// Becomes the program; only returns where that fails.
void become(const Child& child, const std::vector<std::string>& environment) {
  const fs::path program_path = child.program.empty() ? engine_child() : child.program;
  std::vector<std::string> words{program_path.string()};
  words.insert(words.end(), child.arguments.begin(), child.arguments.end());
  std::vector<char*> arguments, variables;
  for (std::string& word : words) arguments.push_back(word.data());
  for (const std::string& text : environment) variables.push_back(const_cast<char*>(text.data()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  if (!child.folder.empty() && chdir(child.folder.c_str()) != 0) return;
  // Opened as the present user: the other one may not be let into this folder.
  const int program = open(arguments.front(), O_RDONLY | O_CLOEXEC);
  if (child.user && (setgid(*child.user) != 0 || setuid(*child.user) != 0)) return;
  fexecve(program, arguments.data(), variables.data());
}

std::vector<std::string> environment_of(const Child& child) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!child.environment.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : child.environment) {
    if (value) all.push_back(name + "=" + *value);
  }
  return all;
}

// `input`: what the child's standard input is; negative: /dev/null.
Running start(const Child& child, int input) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const std::vector<std::string> environment = environment_of(child);
  const pid_t process = fork();
  if (process == 0) {
    dup2(input < 0 ? open("/dev/null", O_RDONLY) : input, 0);
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    become(child, environment);
    _exit(127);
  }
  close(ends[1]);
  return {process, ends[0]};
}

Ended end(const Running& running) {
  Ended ended;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(running.output, buffer, sizeof buffer)) != 0;) {
    if (got < 0 && errno != EINTR) break;
    if (got > 0) ended.output.append(buffer, static_cast<std::size_t>(got));
  }
  close(running.output);
  ended.status = status_of(running.process);
  return ended;
}

}  // namespace

fs::path engine_child() {
  return fs::read_symlink("/proc/self/exe").parent_path() / "tilec_engine_child";
}

Ended run(const Child& child) {
  return end(start(child, -1));
}

std::vector<Ended> run_together(const std::vector<Child>& children) {
  int barrier[2];
  if (pipe2(barrier, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::vector<Running> running;
  for (const Child& child : children) running.push_back(start(child, barrier[0]));
  // Each writes a line when it is there; closing the pipe lets all of them go.
  std::vector<std::string> firsts;
  for (const Running& one : running) {
    pollfd ready{one.output, POLLIN, 0};
    poll(&ready, 1, 60000);
  }
  close(barrier[0]);
  close(barrier[1]);
  std::vector<Ended> ended;
  for (const Running& one : running) ended.push_back(end(one));
  return ended;
}

int in_child(const std::function<int()>& body) {
  const pid_t process = fork();
  if (process == 0) {
    int result = 255;
    try {
      result = body();
    } catch (...) {
    }
    _exit(result);
  }
  return status_of(process);
}

bool is_root() {
  return geteuid() == 0;
}

}  // namespace tilec::test

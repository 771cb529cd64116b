#include "tests/kernels/mutant_trial.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <regex>
#include <stdexcept>
#include <thread>

#include "tests/kernels/add_case.h"
#include "tests/kernels/gemm_case.h"
#include "tests/kernels/tile_extent.h"
#include "tests/support/engines.h"

namespace tilec::test {
namespace {

// Small blocks whose extents differ from each other wherever the template allows it; for templates
// that are not listed, the first sets of their cover. The last GEMM set reaches the fold of the
// grid.
std::vector<Parameters> killer_sets(const KernelTemplate& kernel) {
  static const std::map<std::string, std::vector<Parameters>> kSets = {
      {"gemm_naive",
       {{{"BLOCK_X", 4}, {"BLOCK_Y", 3}},
        {{"BLOCK_X", 2}, {"BLOCK_Y", 5}},
        {{"BLOCK_X", 1}, {"BLOCK_Y", 1}}}},
      {"gemm_regn",
       {{{"TILE", 6}, {"TN", 2}}, {{"TILE", 8}, {"TN", 8}, {"PAD", 0}}, {{"TILE", 1}, {"TN", 1}}}},
      {"add_elementwise", {{{"BLOCK", 4}}, {{"W", 2}, {"BLOCK", 3}}}},
      {"add_tiled", {{{"TILE", 8}, {"BLOCK", 3}}, {{"TILE", 3}, {"BLOCK", 4}}}},
      {"add_block_tiled", {{{"BLOCK", 3}, {"UNROLL", 2}}, {{"W", 2}, {"BLOCK", 4}, {"UNROLL", 3}}}},
  };
  if (const auto found = kSets.find(kernel.name); found != kSets.end()) return found->second;
  std::vector<Parameters> cover = pairwise_samples(kernel, f32, Target::host());
  cover.resize(std::min<std::size_t>(cover.size(), 4));
  return cover;
}

// Vectors that trap where their address is not a multiple of their size, as a GPU does, and arrays
// that trap where an index is none of theirs.
std::string with_checks(std::string numeric) {
  const std::string plain = "  T lane[W];\n};\n";
  const std::size_t at = numeric.find(plain);
  if (at == std::string::npos) throw std::logic_error("numeric.h has no Vector");
  numeric.replace(at, plain.size(), R"(  CheckedArray<T, W> lane;
  Vector() = default;
  Vector(const Vector& other) { *this = other; }
  Vector& operator=(const Vector& other) {
    const auto both = reinterpret_cast<unsigned long long>(this) |
                      reinterpret_cast<unsigned long long>(&other);
    if (both % (sizeof(T) * W) != 0) __trap();
    memcpy(&lane, &other.lane, sizeof lane);
    return *this;
  }
};
)");
  const std::string space = "namespace tilec {\n";
  return numeric.replace(numeric.find(space), space.size(), space + R"(
template <class T, int N>
struct CheckedArray {
  T value[N];
  T& operator[](int i) {
    if (i < 0 || i >= N) __trap();
    return value[i];
  }
  const T& operator[](int i) const { return const_cast<CheckedArray&>(*this)[i]; }
};
)");
}

// `ACC acc[TN];` and `Vector x[N], y[N];` as checked arrays.
std::string with_checked_arrays(const std::string& source) {
  static const std::regex kDeclaration(R"((\n *)(\w+) (\w+)\[(\w+)\](?:, (\w+)\[(\w+)\])?;)");
  std::string text;
  std::sregex_iterator found(source.begin(), source.end(), kDeclaration);
  auto rest = source.begin();
  for (; found != std::sregex_iterator(); ++found) {
    const std::smatch& match = *found;
    text.append(rest, match[0].first);
    text += match.str(1) + "tilec::CheckedArray<" + match.str(2) + ", " + match.str(4) + "> " +
            match.str(3) + ";";
    if (match[5].matched) {
      text +=
          "tilec::CheckedArray<" + match.str(2) + ", " + match.str(6) + "> " + match.str(5) + ";";
    }
    rest = match[0].second;
  }
  return text.append(rest, source.end());
}

KernelTemplate instrumented(KernelTemplate kernel) {
  const auto is_numeric = [](const Header& header) { return header.name == "tilec/numeric.h"; };
  auto own = std::ranges::find_if(kernel.headers, is_numeric);
  if (own == kernel.headers.end()) {
    kernel.headers.push_back(*std::ranges::find_if(device_headers(), is_numeric));
    own = std::prev(kernel.headers.end());
  }
  own->text = with_checks(own->text);
  kernel.source = with_checked_arrays(kernel.source);
  return kernel;
}

template <class Case>
bool noticed(const std::vector<NamedEngine>& engines, const PlanOptions& plan,
             const std::vector<Case>& cases) {
  return std::ranges::any_of(engines, [&](const NamedEngine& named) {
    return std::ranges::any_of(
        cases, [&](const Case& one) { return !failure(named.engine, plan, one).empty(); });
  });
}

bool noticed(const std::vector<NamedEngine>& engines, const KernelTemplate& kernel,
             const Parameters& parameters) {
  const PlanOptions plan{.template_name = kernel.name, .parameters = parameters};
  const Parameters all = complete(kernel, f32, parameters, Target::host());
  const TileExtent tile = tile_extent(kernel, f32, all);
  if (kernel.operation == Operation::add) {
    return noticed(engines, plan, add_cases(f32, all, tile.columns));
  }
  if (tile.rows == 1) {
    const GemmCase beyond{.problem = {.M = 70000, .N = 2, .K = 3}, .beta = 2};
    return noticed(engines, plan, std::vector{beyond});
  }
  return noticed(engines, plan, shape_cases(f32, tile.rows, tile.columns)) ||
         noticed(engines, plan, meaning_cases(f32, tile.rows, tile.columns));
}

Outcome outcome(const KernelTemplate& kernel, const std::filesystem::path& cache) {
  Options options;
  options.cache_dir = cache;
  options.cache_sync = false;
  try {
    const std::vector<NamedEngine> engines = host_engines(options);
    for (const NamedEngine& named : engines) named.engine.register_template(instrumented(kernel));
    for (const Parameters& parameters : killer_sets(kernel)) {
      if (noticed(engines, kernel, parameters)) return Outcome::noticed;
    }
    return Outcome::survived;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::compile ? Outcome::does_not_compile : Outcome::noticed;
  }
}

// In a child: a mutant may write anywhere, crash, or run without end.
pid_t start(const KernelTemplate& kernel, const std::filesystem::path& cache) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child > 0) return child;
  constexpr rlim_t kSeconds = 6;  // some ten times what a table takes
  const rlimit time{kSeconds, kSeconds}, no_core{0, 0};
  setrlimit(RLIMIT_CPU, &time);
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) signal(number, SIG_DFL);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  _exit(static_cast<int>(outcome(kernel, cache)));
}

Outcome outcome_of(int status) {
  return WIFEXITED(status) ? static_cast<Outcome>(WEXITSTATUS(status)) : Outcome::noticed;
}

}  // namespace

Trials::Trials() {
  std::string name = (std::filesystem::temp_directory_path() / "tilec-mutants-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder " + name);
  folder_ = name;
}

Trials::~Trials() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<Outcome> Trials::run(const std::vector<KernelTemplate>& kernels) const {
  std::vector<Outcome> outcomes(kernels.size());
  std::map<pid_t, std::size_t> running;
  const auto wait_for_one = [&] {
    int status = 0;
    const pid_t child = waitpid(-1, &status, 0);
    const auto found = running.find(child);
    if (found == running.end()) throw std::runtime_error("waitpid failed");
    outcomes[found->second] = outcome_of(status);
    running.erase(found);
  };
  const std::size_t most = std::max(1u, std::thread::hardware_concurrency());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (running.size() == most) wait_for_one();
    running.emplace(start(kernels[i], folder_), i);
  }
  while (!running.empty()) wait_for_one();
  return outcomes;
}

}  // namespace tilec::test

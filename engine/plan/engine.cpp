// Engine: composes select, the kernel table and the memo of plans into `plan`.
#include "tilec/engine.h"

#include <spdlog/fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "fork.h"
#include "plan/launch_limits.h"
#include "plan/log.h"
#include "plan/memo.h"
#include "plan/plan_state.h"
#include "plan/record.h"
#include "plan/select.h"
#include "plan/template_options.h"
#include "plan/translate.h"

namespace tilec {
namespace {

namespace fs = std::filesystem;

Templates shipped_templates() {
  Templates templates;
  for (const KernelTemplate& kernel : catalog()) {
    templates.push_back(std::make_shared<const KernelTemplate>(kernel));
  }
  return templates;
}

// What kernels of one element type are asked with several is for templates to come.
void expect_one_type(const GemmProblem& problem) {
  if (*problem.b == problem.a && *problem.d == problem.a) return;
  throw Error(ErrorKind::unsupported,
              fmt::format("no template mixes element types: A is {}, B is {}, C and D are {}",
                          info(problem.a).name, info(*problem.b).name, info(*problem.d).name));
}

Problem checked(const GemmProblem& problem) {
  const GemmProblem whole = translated([&] { return normalized(problem); });
  expect_one_type(whole);
  return whole;
}

Problem checked(const AddProblem& problem) {
  if (problem.shape.rank() == 0) {
    throw Error(ErrorKind::invalid_argument, "an Add's shape has 1 to 4 extents, not none");
  }
  return problem;
}

Problem checked(const Problem& problem) {
  return std::visit([](const auto& p) { return checked(p); }, problem);
}

LaunchInfo launch_info(const Choice& choice, const Kernel& kernel, const LaunchShape& shape,
                       const DeviceBackend& backend) {
  const DeviceFacts& facts = backend.facts();
  LaunchInfo info{.template_name = choice.kernel->name,
                  .parameters = choice.parameters,
                  .entry = kernel.entry.name,
                  .shape = shape,
                  .registers = kernel.entry.registers,
                  .static_shared_bytes = kernel.entry.static_shared_bytes,
                  .spill_bytes = kernel.entry.spill_store_bytes,
                  .occupancy = 0,
                  .key = kernel.key.hex(),
                  .builder = kernel.builder,
                  .target = kernel.target,
                  .compile_seconds = kernel.compile_seconds,
                  .not_kept = kernel.not_kept};
  if (!backend.is_host()) {
    const auto threads = static_cast<int>(shape.threads());
    const int blocks = resident_blocks(facts, threads, info.registers,
                                       shape.shared_bytes + info.static_shared_bytes);
    info.occupancy = static_cast<double>(blocks) * threads / facts.threads_sm;
  }
  return info;
}

DType scalar_type(const Problem& problem, const Parameters& parameters) {
  const auto accumulator = parameters.find("ACC");
  const bool named = accumulator != parameters.end() && accumulator->second.is_dtype();
  const DType type = named ? accumulator->second.dtype() : info(element_type(problem)).accumulator;
  return info(type).scalar;
}

// A plan's state, and where this request found its kernels.
struct Made {
  std::shared_ptr<const PlanState> state;
  Origin origin = Origin::memory;
};

std::shared_ptr<PlanState> new_state(const Problem& problem,
                                     std::shared_ptr<DeviceBackend> backend) {
  auto state = std::make_shared<PlanState>();
  const auto size = [](DType type) { return static_cast<std::uint8_t>(info(type).size); };
  const auto* gemm = std::get_if<GemmProblem>(&problem);
  state->device = backend.get();
  state->runnable = backend->can_run();
  state->size_a = size(element_type(problem));
  state->size_b = gemm != nullptr ? size(*gemm->b) : state->size_a;
  state->size_d = gemm != nullptr ? size(*gemm->d) : state->size_a;
  state->problem = problem;
  state->backend = std::move(backend);
  return state;
}

Options resolved(Options options) {
  const auto resolve = [](fs::path& path, std::string_view what) {
    path = resolved_path(path, what);
  };
  const auto resolve_all = [&](std::vector<fs::path>& paths, std::string_view what) {
    for (fs::path& path : paths) resolve(path, what);
  };
  resolve(options.cache_dir, "Options::cache_dir");
  resolve_all(options.read_only_roots, "Options::read_only_roots");
  resolve_all(options.bundle_files, "Options::bundle_files");
  resolve_all(options.trust_shared, "Options::trust_shared");
  options.nvrtc.library = resolved_program(options.nvrtc.library, "Options::nvrtc.library");
  resolve_all(options.nvrtc.toolkits, "Options::nvrtc.toolkits");
  options.host_compiler = resolved_program(options.host_compiler, "Options::host_compiler");
  resolve(options.dump_dir, "Options::dump_dir");
  resolve(options.record, "Options::record");
  return options;
}

// Whether the next choice may serve where this one does not.
bool is_about_choice(const Error& error) {
  return error.kind() == ErrorKind::unsupported || error.kind() == ErrorKind::cache_miss ||
         dynamic_cast<const ImageRejected*>(&error) != nullptr;
}

}  // namespace

struct Engine::State {
  State(Device on, Options with)
      : device(std::move(on)),
        options(resolved(std::move(with))),
        logger(logger_of(options)),
        recorder(options.record, logger),
        kernels(device.backend(), options, logger),
        templates(std::make_shared<const Templates>(shipped_templates())) {
    if (options.ignored_variables.empty()) return;
    logger->warn(
        "this program has rights that its caller has not (set-user-id), and does not look at {}",
        fmt::join(options.ignored_variables, ", "));
  }

  bool is_parents() const { return fork_generation() != born; }

  template <class P>
  Made plan(Memo<P>& memo, const P& problem, const PlanOptions& plan_options);
  Made make(const Problem& problem, const PlanOptions& plan_options, const Templates& templates);
  Made make(const Problem& problem, const Choice& choice);
  void log_passed_over(const std::vector<Choice>& choices, const std::vector<Error>& failures,
                       const Choice* taken) const;
  Choice first_choice(const Problem& problem, const PlanOptions& plan_options) const {
    return select(problem, plan_options, device.target(), *current_templates()).front();
  }
  std::shared_ptr<const Templates> current_templates() const {
    const std::lock_guard lock(templates_mutex);
    return templates;
  }

  const std::uint64_t born = fork_generation();
  const Device device;
  const Options options;
  const std::shared_ptr<spdlog::logger> logger;
  Recorder recorder;
  KernelTable kernels;
  Memo<GemmProblem> gemms;
  Memo<AddProblem> adds;
  std::atomic<std::uint64_t> memory_hits{0};
  mutable std::mutex templates_mutex;
  std::shared_ptr<const Templates> templates;  // replaced as a whole
};

template <class P>
Made Engine::State::plan(Memo<P>& memo, const P& problem, const PlanOptions& plan_options) {
  if (auto state = memo.find(problem, plan_options)) {
    memory_hits.fetch_add(1, std::memory_order_relaxed);
    return {std::move(state), Origin::memory};
  }
  // Asked before the templates, which may be replaced while this plan is made.
  const std::uint64_t generation = memo.generation();
  Made made = make(checked(problem), plan_options, *current_templates());
  memo.insert(problem, plan_options, made.state, generation);
  if (made.origin == Origin::memory) memory_hits.fetch_add(1, std::memory_order_relaxed);
  return made;
}

Made Engine::State::make(const Problem& problem, const PlanOptions& plan_options,
                         const Templates& from) {
  const std::vector<Choice> choices = select(problem, plan_options, device.target(), from);
  recorder.add(problem, plan_options);
  std::vector<Error> failures;  // of the first choices, in their order
  for (const Choice& choice : choices) {
    try {
      Made made = make(problem, choice);
      log_passed_over(choices, failures, &choice);
      return made;
    } catch (const Error& error) {
      if (choices.size() == 1 || !is_about_choice(error)) {
        log_passed_over(choices, failures, nullptr);
        throw;
      }
      failures.push_back(error);
    }
  }
  log_passed_over(choices, failures, nullptr);
  const Error& first = failures.front();
  const std::size_t others = choices.size() - 1;
  throw Error(first.kind(),
              fmt::format("{} ({} other choice{} tried, and {} not serve either)", first.what(),
                          others, others == 1 ? " was" : "s were", others == 1 ? "does" : "do"),
              first.log());
}

void Engine::State::log_passed_over(const std::vector<Choice>& choices,
                                    const std::vector<Error>& failures, const Choice* taken) const {
  const auto name = [](const Choice& choice) {
    return fmt::format("{} {}", choice.kernel->name, describe(choice.parameters));
  };
  std::string_view told;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const std::string_view why = failures[i].what();
    if (why == told) continue;  // a compiler that is missing is missing for all
    told = why;
    // To take what is present is what must_hit is for; anything else is worth a look.
    const bool usual = failures[i].kind() == ErrorKind::cache_miss;
    logger->log(usual ? spdlog::level::debug : spdlog::level::warn, "{}: {}",
                taken == nullptr
                    ? name(choices[i]) + " does not serve"
                    : fmt::format("{} is used in place of {}", name(*taken), name(choices[i])),
                why);
  }
}

Made Engine::State::make(const Problem& problem, const Choice& choice) {
  const LaunchShape shape =
      translated([&] { return choice.kernel->launch(problem, choice.parameters); });
  expect_launchable(choice, shape, device.facts());
  Ready ready = kernels.get(choice, problem, shape);
  auto state = new_state(problem, device.backend());
  state->scalar = scalar_type(problem, choice.parameters);
  LaunchInfo info = launch_info(choice, *ready.kernel, shape, *device.backend());
  add_launch(*state, {std::move(ready.kernel), shape, std::move(info)});
  return {std::move(state), ready.origin};
}

Engine::Engine() : Engine(Device::first_cuda()) {}
Engine::Engine(Device device) : Engine(std::move(device), Options::from_env()) {}
Engine::Engine(Device device, Options options)
    : state_(new State(std::move(device), std::move(options))) {}
Engine::~Engine() = default;

// In a forked child the parent's engine stays as the fork found it, locks and all.
void Engine::Release::operator()(State* state) const {
  if (!state->is_parents()) delete state;
}

Engine::State& Engine::state() const {
  if (!state_->is_parents()) [[likely]]
    return *state_;
  throw Error(ErrorKind::driver,
              "this Engine was made before this process was forked, and belongs to the parent; "
              "make a new Engine in the child, or exec");
}

Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Gemm Engine::plan(std::int64_t M, std::int64_t N, std::int64_t K) const {
  return plan(GemmProblem{.M = M, .N = N, .K = K});
}

Gemm Engine::plan(const GemmProblem& problem, const PlanOptions& options) const {
  State& here = state();
  auto [made, origin] = here.plan(here.gemms, problem, options);
  return Gemm(std::move(made), origin);
}

Add Engine::plan(const AddProblem& problem, const PlanOptions& options) const {
  State& here = state();
  auto [made, origin] = here.plan(here.adds, problem, options);
  return Add(std::move(made), origin);
}

void Engine::register_template(KernelTemplate kernel) const {
  State& here = state();
  translated([&] { check(kernel); });
  expect_seen_by_key(kernel);
  auto added = std::make_shared<const KernelTemplate>(std::move(kernel));
  {
    const std::lock_guard lock(here.templates_mutex);
    auto all = std::make_shared<Templates>(*here.templates);
    std::erase_if(*all, [&](const auto& other) { return other->name == added->name; });
    all->push_back(std::move(added));
    here.templates = std::move(all);
  }
  // Plans by name would go on serving the template that was replaced.
  here.gemms.clear();
  here.adds.clear();
}

std::vector<KernelTemplate> Engine::templates() const {
  std::vector<KernelTemplate> list;
  for (const auto& kernel : *state().current_templates()) list.push_back(*kernel);
  return list;
}

std::vector<SelectableKernel> Engine::selectable() const {
  std::vector<SelectableKernel> list;
  for (const Choice& choice :
       tilec::selectable(state().device.target(), *state().current_templates())) {
    SelectableKernel kernel{choice.kernel->name, choice.T, choice.parameters};
    if (std::find(list.begin(), list.end(), kernel) == list.end())
      list.push_back(std::move(kernel));
  }
  return list;
}

KernelPreview Engine::preview(const Problem& problem, const PlanOptions& options) const {
  const Problem whole = checked(problem);
  const Choice choice = state().first_choice(whole, options);
  return {.operation = choice.kernel->operation,
          .template_name = choice.kernel->name,
          .T = choice.T,
          .parameters = choice.parameters,
          .target = choice.target,
          .key = state().kernels.key(choice, whole).hex()};
}

Source Engine::source(const Problem& problem, const PlanOptions& options) const {
  const Choice choice = state().first_choice(checked(problem), options);
  return translated([&] { return render(*choice.kernel, choice.T, choice.parameters); });
}

const Device& Engine::device() const {
  return state_->device;
}
const Options& Engine::options() const {
  return state_->options;
}

Stats Engine::stats() const {
  Stats stats = state().kernels.obtainer().stats();
  stats.memory_hits = state().memory_hits.load(std::memory_order_relaxed);
  return stats;
}

std::vector<std::string> Engine::cache_problems() const {
  return state().kernels.obtainer().cache_problems();
}

void Engine::trim() const {
  state().gemms.clear();
  state().adds.clear();
  state().kernels.clear();
  state().device.backend()->trim();
}

}  // namespace tilec

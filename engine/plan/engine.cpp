// Engine: composes select, the kernel table and the memo of plans into `plan`.
#include "tilec/engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "plan/log.h"
#include "plan/memo.h"
#include "plan/plan_state.h"
#include "plan/record.h"
#include "plan/select.h"
#include "plan/translate.h"

namespace tilec {
namespace {

Templates shipped_templates() {
  Templates templates;
  for (const KernelTemplate& kernel : catalog()) {
    check(kernel);
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
                  .compile_seconds = kernel.compile_seconds};
  if (!backend.is_host()) {
    const int blocks = resident_blocks(facts, shape.threads(), info.registers,
                                       shape.shared_bytes + info.static_shared_bytes);
    info.occupancy = static_cast<double>(blocks) * shape.threads() / facts.threads_sm;
  }
  return info;
}

void expect_launchable(const Choice& choice, const LaunchShape& shape, const DeviceFacts& facts) {
  const std::string kernel = fmt::format("{} {}", choice.kernel->name, describe(choice.parameters));
  const auto& [width, height, depth] = shape.block;
  if (std::min({width, height, depth}) < 1 || shape.threads() > 1024 || depth > 64) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{} would need blocks of {}×{}×{} threads; CUDA's limit is 1024 in all, "
                    "64 of them in z",
                    kernel, width, height, depth));
  }
  const bool host = choice.target.kind() == Target::Kind::host;
  const std::int64_t most = host ? choice.target.max_shared_bytes() : facts.shared_bytes_block;
  if (shape.shared_bytes > most) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{} would need {} bytes of shared memory a block; the device has {}",
                            kernel, shape.shared_bytes, most));
  }
  const auto& [x, y, z] = shape.grid;
  if (x <= 0x7fffffff && y <= 65535 && z <= 65535) return;
  throw Error(ErrorKind::unsupported,
              fmt::format("{} would need a grid of {}×{}×{} blocks; CUDA's limit is "
                          "2147483647×65535×65535. Larger tiles need fewer blocks",
                          kernel, x, y, z));
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

}  // namespace

struct Engine::State {
  State(Device on, Options with)
      : device(std::move(on)),
        options(std::move(with)),
        logger(logger_of(options)),
        recorder(options.record, logger),
        kernels(device.backend(), options, logger),
        templates(std::make_shared<const Templates>(shipped_templates())) {}

  template <class P>
  Made plan(Memo<P>& memo, const P& problem, const PlanOptions& plan_options);
  Made make(const Problem& problem, const PlanOptions& plan_options, const Templates& templates);
  Made make(const Problem& problem, const Choice& choice);
  Choice first_choice(const Problem& problem, const PlanOptions& plan_options) const {
    return select(problem, plan_options, device.target(), *current_templates()).front();
  }
  std::shared_ptr<const Templates> current_templates() const {
    const std::lock_guard lock(templates_mutex);
    return templates;
  }

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
  if (options.cache_policy != CachePolicy::must_hit) return make(problem, choices.front());
  // Where nothing may be compiled, the best that is present is the choice.
  std::exception_ptr miss;
  for (const Choice& choice : choices) {
    try {
      return make(problem, choice);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::cache_miss) throw;
      if (miss == nullptr) miss = std::current_exception();
    }
  }
  std::rethrow_exception(miss);
}

Made Engine::State::make(const Problem& problem, const Choice& choice) {
  const LaunchShape shape =
      translated([&] { return choice.kernel->launch(problem, choice.parameters); });
  expect_launchable(choice, shape, device.facts());
  Ready ready = kernels.get(choice, problem, shape.shared_bytes);
  auto state = new_state(problem, device.backend());
  state->scalar = scalar_type(problem, choice.parameters);
  LaunchInfo info = launch_info(choice, *ready.kernel, shape, *device.backend());
  add_launch(*state, {std::move(ready.kernel), shape, std::move(info)});
  return {std::move(state), ready.origin};
}

Engine::Engine() : Engine(Device::first_cuda()) {}
Engine::Engine(Device device) : Engine(std::move(device), Options::from_env()) {}
Engine::Engine(Device device, Options options)
    : state_(std::make_unique<State>(std::move(device), std::move(options))) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Gemm Engine::plan(std::int64_t M, std::int64_t N, std::int64_t K) const {
  return plan(GemmProblem{.M = M, .N = N, .K = K});
}

Gemm Engine::plan(const GemmProblem& problem, const PlanOptions& options) const {
  auto [state, origin] = state_->plan(state_->gemms, problem, options);
  return Gemm(std::move(state), origin);
}

Add Engine::plan(const AddProblem& problem, const PlanOptions& options) const {
  auto [state, origin] = state_->plan(state_->adds, problem, options);
  return Add(std::move(state), origin);
}

void Engine::register_template(KernelTemplate kernel) const {
  translated([&] { check(kernel); });
  auto added = std::make_shared<const KernelTemplate>(std::move(kernel));
  {
    const std::lock_guard lock(state_->templates_mutex);
    auto all = std::make_shared<Templates>(*state_->templates);
    std::erase_if(*all, [&](const auto& other) { return other->name == added->name; });
    all->push_back(std::move(added));
    state_->templates = std::move(all);
  }
  // Plans by name would go on serving the template that was replaced.
  state_->gemms.clear();
  state_->adds.clear();
}

std::vector<KernelTemplate> Engine::templates() const {
  std::vector<KernelTemplate> list;
  for (const auto& kernel : *state_->current_templates()) list.push_back(*kernel);
  return list;
}

std::vector<SelectableKernel> Engine::selectable() const {
  std::vector<SelectableKernel> list;
  for (const Choice& choice :
       tilec::selectable(state_->device.target(), *state_->current_templates())) {
    SelectableKernel kernel{choice.kernel->name, choice.T, choice.parameters};
    if (std::find(list.begin(), list.end(), kernel) == list.end())
      list.push_back(std::move(kernel));
  }
  return list;
}

KernelPreview Engine::preview(const Problem& problem, const PlanOptions& options) const {
  const Problem whole = checked(problem);
  const Choice choice = state_->first_choice(whole, options);
  return {.operation = choice.kernel->operation,
          .template_name = choice.kernel->name,
          .T = choice.T,
          .parameters = choice.parameters,
          .target = choice.target,
          .key = state_->kernels.key(choice, whole).hex()};
}

Source Engine::source(const Problem& problem, const PlanOptions& options) const {
  const Choice choice = state_->first_choice(checked(problem), options);
  return translated([&] { return render(*choice.kernel, choice.T, choice.parameters); });
}

const Device& Engine::device() const {
  return state_->device;
}
const Options& Engine::options() const {
  return state_->options;
}

Stats Engine::stats() const {
  Stats stats = state_->kernels.obtainer().stats();
  stats.memory_hits = state_->memory_hits.load(std::memory_order_relaxed);
  return stats;
}

std::vector<std::string> Engine::cache_problems() const {
  return state_->kernels.obtainer().cache_problems();
}

void Engine::trim() const {
  state_->gemms.clear();
  state_->adds.clear();
  state_->kernels.clear();
  state_->device.backend()->trim();
}

}  // namespace tilec

// render → key → obtain → load, once per key.
#include "plan/kernel_table.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

#include "plan/launch_limits.h"
#include "plan/translate.h"

namespace tilec {
namespace {

KernelRequest request_for(const Choice& choice, const Problem& problem) {
  const KernelTemplate& kernel = *choice.kernel;
  const std::string parameters = describe(choice.parameters);
  return {
      .compile = {.source = translated([&] { return render(kernel, choice.T, choice.parameters); }),
                  .target = choice.target,
                  .options = kernel.options,
                  .name =
                      fmt::format("{} T={}{}{} for {}", kernel.name, info(choice.T).name,
                                  parameters.empty() ? "" : " ", parameters, choice.target.name())},
      .template_name = kernel.name,
      .parameters = choice.parameters,
      .problem = describe(problem),
      .exact = false};
}

const cache::EntryPoint& entry_of(const Artifact& artifact, const CompileRequest& request) {
  const auto found = std::find_if(
      artifact.entries.begin(), artifact.entries.end(),
      [&](const cache::EntryPoint& entry) { return entry.name == request.source.entry; });
  if (found == artifact.entries.end()) {
    throw ImageRejected(fmt::format("the {} of {} that {} built has no entry '{}'", artifact.kind,
                                    request.name, artifact.builder, request.source.entry));
  }
  return *found;
}

template <class T>
bool is_ready(const std::shared_future<T>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

KernelTable::KernelTable(std::shared_ptr<DeviceBackend> backend, const Options& options,
                         std::shared_ptr<spdlog::logger> logger)
    : backend_(std::move(backend)), logger_(logger), obtainer_(options, std::move(logger)) {}

Ready KernelTable::get(const Choice& choice, const Problem& problem, const LaunchShape& shape) {
  KernelRequest request = request_for(choice, problem);
  request.exact = !backend_->can_run();
  const cache::Key key = obtainer_.key(request.compile);
  std::promise<Shared> promise;
  std::shared_future<Shared> future = promise.get_future();
  bool ours = false;
  {
    const std::lock_guard lock(mutex_);
    const auto [place, inserted] = kernels_.try_emplace(key, future);
    future = place->second;
    ours = inserted;
  }
  const bool in_memory = !ours && is_ready(future);
  if (ours) {
    try {
      promise.set_value(prepare(request));
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        kernels_.erase(key);
      }
      promise.set_exception(std::current_exception());
    }
  }
  const Shared kernel = future.get();
  // Of this shape alone: others who wait for the same kernel may launch it otherwise.
  make_ready(*kernel, shape, request.compile.name);
  return {kernel, in_memory ? Origin::memory : kernel->origin};
}

// Each turn rejects another image, and there are only so many; what the compiler here makes has no
// better version but its PTX.
KernelTable::Shared KernelTable::prepare(const KernelRequest& request) {
  Tried tried;
  std::optional<ImageRejected> rejection;
  bool is_cubin = false;
  while (const std::optional<Obtained> obtained = obtain(request, tried, rejection)) {
    try {
      return load(request, *obtained);
    } catch (const ImageRejected& error) {
      const bool is_new = tried.rejected.emplace(obtained->key, obtained->artifact.builder).second;
      rejection = error;
      is_cubin = obtained->artifact.kind == "cubin";
      if (!is_new || obtained->origin == Origin::compiler) break;
      logger_->warn("{}; trying another", error.what());
    }
  }
  if (is_cubin) return load_ptx_instead(request, *rejection);
  throw *rejection;
}

// As the obtainer's; an error tells of the image that the cache had, too.
std::optional<Obtained> KernelTable::obtain(const KernelRequest& request, Tried& tried,
                                            const std::optional<ImageRejected>& rejection) const {
  try {
    return obtainer_.obtain(request, tried);
  } catch (const Error& error) {
    if (!rejection) throw;
    throw Error(
        error.kind(),
        fmt::format("{}. What the cache has is of no use: {}", error.what(), rejection->what()),
        error.log());
  }
}

// The driver compiles PTX itself, perhaps for a GPU that it does not take this cubin for.
KernelTable::Shared KernelTable::load_ptx_instead(KernelRequest request, const ImageRejected& why) {
  request.compile.target = request.compile.target.ptx();
  logger_->warn("{}; trying PTX ({})", why.what(), request.compile.target.name());
  try {
    return prepare(request);
  } catch (const Error& error) {
    const bool about_image = error.kind() == ErrorKind::unsupported ||
                             dynamic_cast<const ImageRejected*>(&error) != nullptr;
    if (!about_image) throw;
    throw ImageRejected(fmt::format("{}. Nor does its PTX serve: {}", why.what(), error.what()));
  }
}

KernelTable::Shared KernelTable::load(const KernelRequest& request, const Obtained& obtained) {
  const Artifact& artifact = obtained.artifact;
  Kernel kernel{.loaded = nullptr,
                .key = obtained.key,
                .image_id = fmt::format("{}.{}", obtained.key.hex(), artifact.builder),
                .entry = entry_of(artifact, request.compile),
                .target = obtained.target.name(),
                .builder = artifact.builder,
                .origin = obtained.origin,
                .origin_path = obtained.path,
                .compile_seconds = artifact.seconds,
                .not_kept = obtained.not_kept};
  kernel.loaded = backend_->load(
      {.id = kernel.image_id,
       .entry = kernel.entry.name,
       .message = fmt::format("{} (built by {})", request.compile.name, artifact.builder),
       .bytes = artifact.image},
      0);
  if (kernel.loaded != nullptr && kernel.entry.max_threads == 0) {  // no compiler's log has it
    kernel.entry.max_threads = kernel.loaded->max_threads();
  }
  if (kernel.loaded != nullptr && kernel.entry.registers == 0) {  // PTX: the driver compiled it
    kernel.entry.registers = kernel.loaded->registers();
    kernel.entry.static_shared_bytes = kernel.loaded->static_shared_bytes();
  }
  return std::make_shared<const Kernel>(std::move(kernel));
}

void KernelTable::make_ready(const Kernel& kernel, const LaunchShape& shape,
                             const std::string& name) const {
  if (!backend_->is_host()) expect_fits(kernel.entry, shape, backend_->facts(), name);
  if (kernel.loaded == nullptr || shape.shared_bytes == 0) return;
  // Loaded already: no bytes are needed to make it ready for more shared memory.
  backend_->load({.id = kernel.image_id, .entry = kernel.entry.name, .message = name, .bytes = {}},
                 shape.shared_bytes);
}

cache::Key KernelTable::key(const Choice& choice, const Problem& problem) const {
  return obtainer_.key(request_for(choice, problem).compile);
}

void KernelTable::clear() {
  const std::lock_guard lock(mutex_);
  std::erase_if(kernels_, [](const auto& entry) { return is_ready(entry.second); });
}

}  // namespace tilec

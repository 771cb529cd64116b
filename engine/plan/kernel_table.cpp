// render → key → obtain → load, once per key.
#include "plan/kernel_table.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

#include "plan/translate.h"

namespace tilec {
namespace {

KernelRequest request_for(const Choice& choice, const Problem& problem) {
  const KernelTemplate& kernel = *choice.kernel;
  return {
      .compile = {.source = translated([&] { return render(kernel, choice.T, choice.parameters); }),
                  .target = choice.target,
                  .options = kernel.options,
                  .name = fmt::format("{} T={} {} for {}", kernel.name, info(choice.T).name,
                                      describe(choice.parameters), choice.target.name())},
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

Ready KernelTable::get(const Choice& choice, const Problem& problem, std::int64_t shared_bytes) {
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
  if (!ours) {
    const bool ready = is_ready(future);
    const Shared kernel = future.get();
    if (kernel->loaded != nullptr && shared_bytes > kernel->shared_bytes) {
      // Loaded already: no bytes are needed to make it ready for more shared memory.
      backend_->load({.id = kernel->image_id,
                      .entry = kernel->entry.name,
                      .message = request.compile.name,
                      .bytes = {}},
                     shared_bytes);
    }
    return {kernel, ready ? Origin::memory : kernel->origin};
  }
  try {
    const Shared kernel = prepare(request, shared_bytes);
    promise.set_value(kernel);
    return {kernel, kernel->origin};
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      kernels_.erase(key);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

KernelTable::Shared KernelTable::prepare(const KernelRequest& request, std::int64_t shared_bytes) {
  Rejected rejected;
  for (;;) {
    const Obtained obtained = obtainer_.obtain(request, rejected);
    try {
      return load(request, obtained, shared_bytes);
    } catch (const ImageRejected& error) {
      // What was just compiled here has no better version; a cached one may.
      if (obtained.origin == Origin::compiler) throw;
      logger_->warn("{}; trying another", error.what());
      rejected.push_back({obtained.key, obtained.artifact.builder});
    }
  }
}

KernelTable::Shared KernelTable::load(const KernelRequest& request, const Obtained& obtained,
                                      std::int64_t shared_bytes) {
  const Artifact& artifact = obtained.artifact;
  Kernel kernel{.loaded = nullptr,
                .key = obtained.key,
                .image_id = fmt::format("{}.{}", obtained.key.hex(), artifact.builder),
                .entry = entry_of(artifact, request.compile),
                .shared_bytes = shared_bytes,
                .target = obtained.target.name(),
                .builder = artifact.builder,
                .origin = obtained.origin,
                .origin_path = obtained.path,
                .compile_seconds = artifact.seconds};
  kernel.loaded = backend_->load(
      {.id = kernel.image_id,
       .entry = kernel.entry.name,
       .message = fmt::format("{} (built by {})", request.compile.name, artifact.builder),
       .bytes = artifact.image},
      shared_bytes);
  if (kernel.entry.registers == 0 && kernel.loaded != nullptr) {  // PTX: the driver compiled it
    kernel.entry.registers = kernel.loaded->registers();
    kernel.entry.static_shared_bytes = kernel.loaded->static_shared_bytes();
  }
  return std::make_shared<const Kernel>(std::move(kernel));
}

cache::Key KernelTable::key(const Choice& choice, const Problem& problem) const {
  return obtainer_.key(request_for(choice, problem).compile);
}

void KernelTable::clear() {
  const std::lock_guard lock(mutex_);
  std::erase_if(kernels_, [](const auto& entry) { return is_ready(entry.second); });
}

}  // namespace tilec

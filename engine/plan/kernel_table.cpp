// render → key → obtain → load, once per key.
#include "plan/kernel_table.h"

#include <spdlog/spdlog.h>

#include <algorithm>

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
      .problem = describe(problem)};
}

const cache::EntryPoint& entry_of(const Artifact& artifact, const std::string& name) {
  const auto found =
      std::find_if(artifact.entries.begin(), artifact.entries.end(),
                   [&](const cache::EntryPoint& entry) { return entry.name == name; });
  if (found == artifact.entries.end()) {
    throw Error(ErrorKind::driver, fmt::format("the cached kernel has no entry '{}'", name));
  }
  return *found;
}

}  // namespace

KernelTable::KernelTable(std::shared_ptr<DeviceBackend> backend, const Options& options,
                         std::shared_ptr<spdlog::logger> logger)
    : backend_(std::move(backend)), logger_(logger), obtainer_(options, std::move(logger)) {}

std::shared_ptr<const Kernel> KernelTable::get(const Choice& choice, const Problem& problem,
                                               std::int64_t shared_bytes) {
  const KernelRequest request = request_for(choice, problem);
  const cache::Key key = obtainer_.key(request.compile);
  std::promise<std::shared_ptr<const Kernel>> promise;
  std::shared_future<std::shared_ptr<const Kernel>> other;
  {
    const std::lock_guard lock(mutex_);
    const auto [place, ours] = kernels_.try_emplace(key, promise.get_future());
    if (!ours) other = place->second;
  }
  if (other.valid()) return other.get();
  try {
    promise.set_value(prepare(request, shared_bytes));
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    kernels_.erase(key);
    throw;
  }
  const std::lock_guard lock(mutex_);
  return kernels_.at(key).get();
}

std::shared_ptr<const Kernel> KernelTable::prepare(const KernelRequest& request,
                                                   std::int64_t shared_bytes) {
  std::vector<std::string> rejected;
  for (;;) {
    Obtained obtained = obtainer_.obtain(request, rejected);
    const Artifact& artifact = obtained.artifact;
    const cache::EntryPoint entry = entry_of(artifact, request.compile.source.entry);
    try {
      auto loaded = backend_->load(
          {.id = fmt::format("{}.{}", obtained.key.hex(), artifact.builder),
           .entry = entry.name,
           .message = fmt::format("{} (built by {})", request.compile.name, artifact.builder),
           .bytes = artifact.image},
          shared_bytes);
      return std::make_shared<const Kernel>(Kernel{.loaded = std::move(loaded),
                                                   .key = obtained.key,
                                                   .entry = entry,
                                                   .target = obtained.target.name(),
                                                   .builder = artifact.builder,
                                                   .origin = obtained.origin,
                                                   .origin_path = obtained.path,
                                                   .compile_seconds = artifact.seconds});
    } catch (const ImageRejected& error) {
      // What was just compiled here has no better version; a cached one may.
      if (obtained.origin == Origin::compiler) throw;
      logger_->warn("{}; trying another builder's", error.what());
      rejected.push_back(artifact.builder);
    }
  }
}

cache::Key KernelTable::key(const Choice& choice, const Problem& problem) const {
  return obtainer_.key(request_for(choice, problem).compile);
}

void KernelTable::clear() {
  const std::lock_guard lock(mutex_);
  std::erase_if(kernels_, [](const auto& entry) {
    return entry.second.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
}

}  // namespace tilec

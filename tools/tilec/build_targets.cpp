// Holding targets against the templates and against NVRTC.
#include "build_targets.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "tilec/toolchain.h"

namespace tilec::command {
namespace {

[[noreturn]] void throw_unknown(const Place& place, const NvrtcFound& nvrtc,
                                const std::string& why) {
  // A device's name tells whose target it is that `why` speaks of.
  std::string message = place.facts ? fmt::format("{}: {}", place.name(), why) : why;
  if (const std::optional<Target> ptx = place.target.newest_ptx(nvrtc.architectures)) {
    message += fmt::format("; --arch {} makes PTX instead, which a later GPU's driver compiles",
                           ptx->name());
  }
  throw UsageError(message);
}

}  // namespace

void expect_new_enough(const Place& place, const std::vector<KernelTemplate>& templates,
                       const Options& options) {
  const int least =
      std::min_element(templates.begin(), templates.end(), [](const auto& one, const auto& other) {
        return one.least_sm < other.least_sm;
      })->least_sm;
  if (place.target.sm() >= least) return;
  std::string message =
      fmt::format("{}: the least target that tilec's kernels serve is sm_{}", place.name(), least);
  try {
    message += "; " + find_nvrtc(options.nvrtc).known();
  } catch (const Error&) {  // then there is no list to show
  }
  throw UsageError(message);
}

void expect_compilable(const std::vector<const BuildItem*>& missing, const Options& options,
                       bool dry_run) {
  std::vector<const BuildItem*> for_gpus;
  std::copy_if(
      missing.begin(), missing.end(), std::back_inserter(for_gpus),
      [](const BuildItem* item) { return item->place.target.kind() != Target::Kind::host; });
  if (for_gpus.empty()) return;
  NvrtcFound nvrtc;
  try {
    nvrtc = find_nvrtc(options.nvrtc);
  } catch (const Error& error) {
    if (dry_run) return;
    throw Failure(fmt::format("{} of the kernels are not in the cache and have to be compiled: {}",
                              for_gpus.size(), error.what()),
                  std::string(to_string(error.kind())));
  }
  for (const BuildItem* item : for_gpus) {
    const std::string why = nvrtc.why_not(item->place.target);
    if (!why.empty()) throw_unknown(item->place, nvrtc, why);
  }
}

}  // namespace tilec::command

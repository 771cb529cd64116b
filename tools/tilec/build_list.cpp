// Requests × places → kernels.
#include "build_list.h"

#include <spdlog/fmt/fmt.h>

#include <map>

#include "build_targets.h"
#include "command.h"
#include "problem_flags.h"
#include "tilec/engine.h"

namespace tilec::command {
namespace {

// Any problem that a named template can serve: its kernel does not depend on the shape.
Problem example(Operation operation, DType T) {
  if (operation == Operation::gemm) return GemmProblem{.M = 1, .N = 1, .K = 1, .a = T};
  return AddProblem{.shape = {1}, .dtype = T};
}

std::vector<ManifestRequest> selectable(const Engine& engine) {
  std::map<std::string, Operation> operations;
  for (const KernelTemplate& kernel : engine.templates()) {
    operations.emplace(kernel.name, kernel.operation);
  }
  std::vector<ManifestRequest> requests;
  for (const SelectableKernel& kernel : engine.selectable()) {
    requests.push_back(
        {.request = {example(operations.at(kernel.template_name), kernel.T),
                     {.template_name = kernel.template_name, .parameters = kernel.parameters}}});
  }
  return requests;
}

BuildItem item(const KernelPreview& kernel, const Problem& problem, const Place& place) {
  const std::string type(info(kernel.T).name);
  const Request request{problem,
                        {.template_name = kernel.template_name, .parameters = kernel.parameters}};
  return {.label = kernel.template_name + " " + type + " " + describe(kernel.parameters) + " for " +
                   kernel.target.name(),
          .key = kernel.key,
          .rejected = {},
          .kernel = {{"template", kernel.template_name},
                     {"dtype", type},
                     {"parameters", to_json(kernel.parameters)},
                     {"target", kernel.target.name()},
                     {"key", kernel.key}},
          .task = {{"place", to_json(place)}, {"request", to_json(request)}},
          .place = place};
}

BuildItem rejected_item(const Request& request, const Place& place, const std::string& why) {
  const std::string type(info(element_type(request.problem)).name);
  std::string label = describe(request.problem);
  if (!request.options.template_name.empty()) label += " " + request.options.template_name;
  if (!request.options.parameters.empty()) label += " " + describe(request.options.parameters);
  return {.label = label + " for " + place.name(),
          .key = {},
          .rejected = why,
          .kernel = {{"template", request.options.template_name},
                     {"dtype", type},
                     {"parameters", to_json(request.options.parameters)},
                     {"target", place.target.name()}},
          .task = {},
          .place = place};
}

// Returns how many kernels of this place have the plain target, "sm_90" for "sm_90a".
std::size_t append_place(const std::vector<ManifestRequest>& requests, const Place& place,
                         const Options& options, std::map<std::string, BuildItem>& items) {
  const Engine engine(place.open(), without_log(options));
  expect_new_enough(place, engine.templates(), options);
  std::size_t plain = 0;
  for (const ManifestRequest& wanted : requests.empty() ? selectable(engine) : requests) {
    try {
      const KernelPreview kernel = engine.preview(wanted.request.problem, wanted.request.options);
      if (kernel.target != place.target) ++plain;
      items.emplace(kernel.key, item(kernel, wanted.request.problem, place));
    } catch (const Error& error) {
      const bool impossible =
          error.kind() == ErrorKind::invalid_argument || error.kind() == ErrorKind::unsupported;
      if (!impossible) throw;
      if (wanted.skip_impossible) continue;
      BuildItem rejected = rejected_item(wanted.request, place, error.what());
      items.emplace("rejected " + rejected.label, std::move(rejected));
    }
  }
  return plain;
}

}  // namespace

BuildList build_list(const std::vector<ManifestRequest>& requests, const std::vector<Place>& places,
                     const Options& options) {
  BuildList list;
  std::map<std::string, BuildItem> items;
  for (const Place& place : places) {
    if (append_place(requests, place, options, items) == 0) continue;
    list.notes.push_back(
        fmt::format("{}: kernels that use nothing which only {} has are made for {}, and serve it",
                    place.name(), place.target.name(), place.target.plain().name()));
  }
  for (auto& [key, item] : items) list.items.push_back(std::move(item));
  return list;
}

std::vector<BuildItem> shard_of(std::vector<BuildItem> items, const Shard& shard) {
  std::vector<BuildItem> mine;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i) % shard.count + 1;
    if (place == shard.index) mine.push_back(std::move(items[i]));
  }
  return mine;
}

}  // namespace tilec::command

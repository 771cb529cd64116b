// tilec cache why: whether the cache would serve a problem, and if not, why not.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cache_support.h"
#include "place.h"
#include "problem_flags.h"
#include "tilec/engine.h"

namespace tilec::command {
namespace {

constexpr std::size_t kNearest = 3;

std::map<std::string, std::string> texts(const Parameters& parameters) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : parameters) texts.emplace(name, value.text());
  return texts;
}

std::string differences(const cache::Near& near) {
  std::string text;
  for (const cache::Difference& d : near.differences) {
    text += fmt::format("{}{} ({} wanted, {} there)", text.empty() ? "" : ", ", d.field, d.wanted,
                        d.found);
  }
  return text;
}

Json near_json(const cache::Near& near) {
  Json list = Json::array();
  for (const cache::Difference& d : near.differences) {
    list.push_back({{"field", d.field}, {"wanted", d.wanted}, {"found", d.found}});
  }
  return {{"entry", to_json(near.entry)}, {"differences", list}};
}

struct Answer {
  KernelPreview kernel;
  cache::LookUp found;
  std::vector<cache::Near> nearest;
};

Answer look(const Engine& engine, const cache::Store& store, const Request& request,
            const Options& options) {
  Answer answer{
      .kernel = engine.preview(request.problem, request.options), .found = {}, .nearest = {}};
  const cache::Key key = *cache::Key::parse(answer.kernel.key);
  answer.found = store.look_up(key, {.require_builder = options.require_builder});
  if (!answer.found) {
    answer.nearest = store.nearest({.key = key,
                                    .template_name = answer.kernel.template_name,
                                    .parameters = texts(answer.kernel.parameters),
                                    .target = answer.kernel.target.name(),
                                    .builder = options.require_builder},
                                   kNearest);
  }
  return answer;
}

std::string kernel_text(const KernelPreview& kernel) {
  return fmt::format("{} {} {} for {}", kernel.template_name, info(kernel.T).name,
                     describe(kernel.parameters), kernel.target.name());
}

std::string text(const Request& request, const Answer& answer) {
  std::string text = fmt::format("{}\n  kernel   {}\n  key      {}\n", describe(request.problem),
                                 kernel_text(answer.kernel), answer.kernel.key);
  if (answer.found) {
    const cache::Entry& entry = *answer.found.entry;
    text += fmt::format("  hit      {} ({}), made by {}\n", entry.path.string(),
                        cache::to_string(entry.origin), entry.metadata.builder);
  }
  for (const cache::Miss& miss : answer.found.misses) {
    text += fmt::format("  {:8} {}: {}\n", answer.found ? "beside" : "miss",
                        cache::to_string(miss.reason),
                        miss.detail.empty() ? miss.path.string() : miss.detail);
  }
  for (const cache::Near& near : answer.nearest) {
    text += fmt::format("  near     {} differs in {}\n", near.entry.key.hex(), differences(near));
  }
  if (!answer.found && answer.nearest.empty()) {
    text += "  near     nothing of this template is in the cache\n";
  }
  return text;
}

Json answer_json(const Request& request, const Answer& answer) {
  Json misses = Json::array(), nearest = Json::array();
  for (const cache::Miss& miss : answer.found.misses) misses.push_back(to_json(miss));
  for (const cache::Near& near : answer.nearest) nearest.push_back(near_json(near));
  Json json{{"problem", to_json(request)},
            {"template", answer.kernel.template_name},
            {"parameters", to_json(answer.kernel.parameters)},
            {"target", answer.kernel.target.name()},
            {"key", answer.kernel.key},
            {"hit", static_cast<bool>(answer.found)},
            {"misses", misses},
            {"nearest", nearest}};
  if (answer.found) {
    json["builder"] = answer.found.entry->metadata.builder;
    json["origin"] = cache::to_string(answer.found.entry->origin);
    json["path"] = answer.found.entry->path.string();
  }
  return json;
}

int why(const GlobalFlags& global, const Request& request, const PlaceFlags& place) {
  const Options options = global.options();
  const Engine engine(place.single().open(), without_log(options));
  const Answer answer = look(engine, open_store(options), request, options);
  if (global.json) {
    print_json(answer_json(request, answer));
  } else {
    print_text(text(request, answer));
  }
  return kExitOk;
}

}  // namespace

void register_cache_why(CLI::App& cache, Invocation& invocation) {
  auto* app =
      cache.add_subcommand("why", "Whether the cache serves a problem, and if not, why not");
  app->footer("  tilec cache why gemm 512 512 512 --dtype f16 --arch sm_90a\n");
  add_problem_subcommands(*app, [&](CLI::App& operation, const MakeRequest& request) {
    const auto place = std::make_shared<PlaceFlags>();
    add_place_flags(operation, *place);
    operation.callback([&invocation, place, request] {
      invocation.run = [place, request](const GlobalFlags& global) {
        return why(global, request(), *place);
      };
    });
  });
}

}  // namespace tilec::command

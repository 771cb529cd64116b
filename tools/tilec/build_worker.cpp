// tilec worker: what `tilec build` starts. Takes tasks, one JSON line each, on the standard input,
// and answers each with one line.
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>

#include "command.h"
#include "manifest.h"
#include "output.h"
#include "place.h"
#include "tilec/engine.h"
#include "worker_pool.h"

namespace tilec::command {
namespace {

class Workshop {
 public:
  explicit Workshop(Options options) : options_(std::move(options)) {
    const auto errors = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    options_.logger = std::make_shared<spdlog::logger>("tilec", errors);
    options_.logger->set_pattern("tilec: %v");
  }

  Json answer(const std::string& line) {
    const Json document = parse_json(line, "task");
    const Node task(document, "task");
    const Manifest manifest = parse_manifest("[" + task.at("request").value().dump() + "]", "task");
    const Request& request = manifest.requests.at(0).request;
    const Engine& engine = engine_for(place_from_json(task.at("place")));
    const PlanInfo plan = std::visit(
        [&](const auto& problem) { return engine.plan(problem, request.options).info(); },
        request.problem);
    const LaunchInfo& launch = plan.launches.front();
    return {{"origin", to_string(plan.origin)}, {"key", launch.key}, {"not_kept", launch.not_kept}};
  }

 private:
  const Engine& engine_for(const Place& place) {
    std::unique_ptr<Engine>& engine = engines_[to_json(place).dump()];
    if (engine == nullptr) {
      // What is wrong with the cache, the parent has told.
      options_.logger->set_level(spdlog::level::off);
      engine = std::make_unique<Engine>(place.open(), options_);
      options_.logger->set_level(spdlog::level::warn);
    }
    return *engine;
  }

  Options options_;
  std::map<std::string, std::unique_ptr<Engine>> engines_;
};

int work(const GlobalFlags& global) {
  die_with_parent();
  Options options = global.options();
  options.record.clear();  // what is built ahead was not planned by a program
  Workshop workshop(std::move(options));
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      answer = workshop.answer(line);
    } catch (...) {
      answer = {{"error", error_json(std::current_exception())}};
    }
    print_text(answer.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
    flush_results();
  }
  return kExitOk;
}

}  // namespace

void register_worker(CLI::App& root, Invocation& invocation) {
  auto* app = root.add_subcommand("worker", "A worker process of tilec build")->group("");
  app->callback([&invocation] { invocation.run = work; });
}

}  // namespace tilec::command

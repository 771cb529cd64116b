// `gemm M N K` and `add N` as subcommands of `run`, `source` and `cache why`.
#pragma once

#include <functional>

#include "arguments.h"
#include "json_node.h"

namespace CLI {
class App;
}

namespace tilec::command {

using MakeRequest = std::function<Request()>;

// Adds one subcommand per operation, each with its extents, --dtype, --template and --set.
// `complete` adds the rest and the callback; the function it gets makes the request after parsing,
// and throws UsageError.
void add_problem_subcommands(
    CLI::App& parent, const std::function<void(CLI::App& operation, const MakeRequest&)>& complete);

// The request as a manifest's problem, and back.
Json to_json(const Request& request);

Json to_json(const Parameters& parameters);

}  // namespace tilec::command

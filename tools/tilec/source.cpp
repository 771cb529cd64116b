// tilec source: the exact text that would be compiled.
#include <CLI/CLI.hpp>
#include <memory>

#include "command.h"
#include "output.h"
#include "place.h"
#include "problem_flags.h"
#include "tilec/engine.h"

namespace tilec::command {
namespace {

struct SourceFlags {
  PlaceFlags place;
  bool key = false, headers = false;
};

std::string text(const Source& source, bool headers) {
  std::string text = source.text;
  if (!text.empty() && text.back() != '\n') text += '\n';
  if (!headers) return text;
  for (const Header& header : source.headers) {
    text += "\n// ==== " + header.name + " ====\n" + header.text;
  }
  return text;
}

int source(const GlobalFlags& global, const Request& request, const SourceFlags& flags) {
  const Engine engine(flags.place.single().open(), without_log(global.options()));
  const KernelPreview kernel = engine.preview(request.problem, request.options);
  if (!global.json && flags.key) {
    print_text(kernel.key + "\n");
    return kExitOk;
  }
  const Source source = engine.source(request.problem, request.options);
  if (!global.json) {
    print_text(text(source, flags.headers));
    return kExitOk;
  }
  Json headers = Json::array();
  for (const Header& header : source.headers) {
    headers.push_back({{"name", header.name}, {"text", header.text}});
  }
  print_json({{"template", kernel.template_name},
              {"dtype", info(kernel.T).name},
              {"parameters", to_json(kernel.parameters)},
              {"target", kernel.target.name()},
              {"entry", source.entry},
              {"key", kernel.key},
              {"source", source.text},
              {"headers", headers}});
  return kExitOk;
}

}  // namespace

void register_source(CLI::App& root, Invocation& invocation) {
  auto* app =
      root.add_subcommand("source", "Print the source that would be compiled for a problem");
  app->footer(
      "  tilec source gemm 512 512 512 --dtype f16 --arch sm_90a\n"
      "  tilec source add 1000000 --template add_tiled --set TILE=64 --device host --key\n");
  add_problem_subcommands(*app, [&](CLI::App& operation, const MakeRequest& request) {
    const auto flags = std::make_shared<SourceFlags>();
    add_place_flags(operation, flags->place);
    operation.add_flag("--key", flags->key, "Print the cache key instead");
    operation.add_flag("--headers", flags->headers, "Print the headers that it includes too");
    operation.callback([&invocation, flags, request] {
      invocation.run = [flags, request](const GlobalFlags& global) {
        return source(global, request(), *flags);
      };
    });
  });
}

}  // namespace tilec::command

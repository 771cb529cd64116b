// tilec cache: what the subcommands of the cache hang on.
#include <CLI/CLI.hpp>

#include "command.h"

namespace tilec::command {

void register_cache(CLI::App& root, Invocation& invocation) {
  auto* app = root.add_subcommand("cache", "Look at and look after the kernel cache");
  app->require_subcommand(1);
  register_cache_listing(*app, invocation);
  register_cache_why(*app, invocation);
  register_cache_maintenance(*app, invocation);
  register_cache_bundles(*app, invocation);
}

}  // namespace tilec::command

// obtain: from a key to an artifact. Look up → compile once → publish.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "compile/compiler.h"
#include "compile/key.h"
#include "tilec/cache.h"
#include "tilec/engine.h"
#include "tilec/kernel.h"

namespace tilec {

// What is wanted, and how listings shall describe it.
struct KernelRequest {
  CompileRequest compile;
  std::string template_name;
  Parameters parameters;
  std::string problem;  // the one that asked first
  bool exact = false;   // compiled for the target as named or not at all: it is to be kept, not run
};

// Cached images that the driver would not take: by key and builder.
using Rejected = std::vector<std::pair<cache::Key, std::string>>;

struct Obtained {
  cache::Key key;
  Target target;  // the request's, or that of code which stands in for it
  Artifact artifact;
  Origin origin;
  std::string path;  // of the cache's file, for Origin::disk
};

// Thread-safe. Two threads that ask for one key at once both get it; so that only one compiles, the
// caller keeps one call per key (and the cache's build lock keeps one per machine).
class Obtainer {
 public:
  // Opens the cache, no compiler. Never throws for a cache that can't be used: logs it and works
  // without.
  Obtainer(const Options& options, std::shared_ptr<spdlog::logger> logger);

  cache::Key key(const CompileRequest& request) const;
  // Throws Error{cache_miss} where compiling is forbidden, Error{unsupported} where the compiler is
  // not the builder that the options require, else as Compiler::compile.
  Obtained obtain(const KernelRequest& request, const Rejected& rejected) const;

  Stats stats() const;
  std::vector<std::string> cache_problems() const { return store_.problems(); }

 private:
  const Compiler& compiler(const Target& target) const;
  enum class Look { first, again };  // again: what was missing is still no news
  std::optional<Obtained> look_up(const KernelRequest& request, const Rejected& rejected,
                                  Look look = Look::first) const;
  std::optional<Obtained> look_up_stand_in(const KernelRequest& request,
                                           const Rejected& rejected) const;
  Obtained build(const KernelRequest& request, const Rejected& rejected) const;
  Artifact compile(const CompileRequest& request) const;
  void publish(const cache::Key& key, const KernelRequest& request, const Artifact& artifact) const;
  void dump(const KernelRequest& request, const Obtained& obtained) const;
  void expect_builder(const CompileRequest& request, const Artifact& artifact) const;
  void note_misses(const std::vector<cache::Miss>& misses, Look look) const;
  [[noreturn]] void throw_cache_miss(const KernelRequest& request) const;

  Options options_;
  std::shared_ptr<spdlog::logger> logger_;
  cache::Store store_;
  std::unique_ptr<Compiler> nvrtc_;
  mutable std::mutex mutex_;  // of the members below
  mutable std::unique_ptr<Compiler> host_;
  mutable Stats stats_;
};

}  // namespace tilec

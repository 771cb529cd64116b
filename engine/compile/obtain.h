// obtain: from a key to an artifact. Look up → compile once → publish.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
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

// What one search for a kernel has met so far.
struct Tried {
  // Images that the driver would not take: by key and builder.
  std::set<std::pair<cache::Key, std::string>> rejected;
  // Files that don't serve, and why: told once, however often they are come across.
  std::set<std::pair<std::string, cache::MissReason>> noted;
};

struct Obtained {
  cache::Key key;
  Target target;  // the request's, or that of code which stands in for it
  Artifact artifact;
  Origin origin;
  std::string path;      // of the cache's file, for Origin::disk
  std::string not_kept;  // why the cache did not take it, for Origin::compiler; or empty
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
  // Never what `tried` lists as rejected: nothing where the compiler here would make only that again.
  std::optional<Obtained> obtain(const KernelRequest& request, Tried& tried) const;

  Stats stats() const;
  std::vector<std::string> cache_problems() const { return store_.problems(); }

 private:
  const Compiler& compiler(const Target& target) const;
  enum class Look { first, again };  // again: what was missing is still no news
  std::optional<Obtained> look_up(const KernelRequest& request, Tried& tried,
                                  Look look = Look::first) const;
  // Code for another target that runs on the request's; nothing for an exact request.
  std::optional<Obtained> look_up_stand_in(const KernelRequest& request, Tried& tried) const;
  std::optional<Obtained> build(const KernelRequest& request, Tried& tried) const;
  Artifact compile(const CompileRequest& request) const;
  // A clause that says why it is not kept; empty if it is, or if nothing is to be.
  std::string publish(const cache::Key& key, const KernelRequest& request,
                      const Artifact& artifact) const;
  void dump(const KernelRequest& request, const Obtained& obtained) const;
  void expect_builder(const CompileRequest& request) const;
  void note_misses(const std::vector<cache::Miss>& misses, Tried& tried, Look look) const;
  [[noreturn]] void throw_cache_miss(const KernelRequest& request) const;

  Options options_;
  std::shared_ptr<spdlog::logger> logger_;
  cache::Store store_;
  std::unique_ptr<Compiler> nvrtc_;
  mutable std::mutex mutex_;  // of the members below
  mutable std::unique_ptr<Compiler> host_;
  mutable Stats stats_;
  mutable bool dump_warned_ = false;
  mutable std::set<cache::PublishFailure> not_kept_;  // the reasons that were warned of
};

}  // namespace tilec

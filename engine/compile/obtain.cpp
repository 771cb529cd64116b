// Look up → compile once → publish, by the cache's policy.
#include "compile/obtain.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "compile/dump.h"
#include "compile/fork_aware.h"

namespace tilec {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

cache::StoreOptions store_options(const Options& options) {
  cache::StoreOptions store;
  store.max_bytes = options.cache_max_bytes;
  store.sync = options.cache_sync;
  store.trust_shared = options.trust_shared;
  store.root_hint = "choose another folder with TILEC_CACHE_DIR or Options::cache_dir";
  store.trust_hint = "name it in TILEC_CACHE_TRUST_SHARED or Options::trust_shared";
  if (options.cache_policy == CachePolicy::off) return store;
  store.root = options.cache_dir;
  store.read_only_roots = options.read_only_roots;
  for (const auto& file : options.bundle_files) store.bundles.push_back({.path = file});
  for (std::size_t i = 0; i < options.bundles.size(); ++i) {
    store.bundles.push_back({.bytes = options.bundles[i], .name = fmt::format("embedded {}", i)});
  }
  return store;
}

std::map<std::string, std::string> texts(const Parameters& parameters) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : parameters) texts.emplace(name, value.text());
  return texts;
}

// "own", the folder of a read-only root, the file of a bundle, or "embedded".
std::string root_name(const cache::Entry& entry) {
  switch (entry.origin) {
    case cache::Origin::own_root:
      return "own";
    case cache::Origin::read_only_root:  // an entry lies in one of its root's folders
      return entry.path.parent_path().parent_path().string();
    case cache::Origin::bundle:
      return entry.path.string();
    case cache::Origin::embedded_bundle:
      break;
  }
  return "embedded";
}

KernelRequest retargeted(KernelRequest request, const Target& target) {
  request.compile.target = target;
  return request;
}

}  // namespace

Obtainer::Obtainer(const Options& options, std::shared_ptr<spdlog::logger> logger)
    : options_(options),
      logger_(std::move(logger)),
      store_(store_options(options)),
      nvrtc_(fork_aware(nvrtc_compiler(options.nvrtc))) {
  for (const std::string& problem : store_.problems()) logger_->warn("{}", problem);
  using enum cache::PublishFailure;
  if (!store_.writable()) not_kept_ = {no_root, read_only};  // as was just told, or is as asked for
}

const Compiler& Obtainer::compiler(const Target& target) const {
  if (target.kind() != Target::Kind::host) return *nvrtc_;
  const std::lock_guard lock(mutex_);
  if (host_ == nullptr) host_ = host_compiler(options_.host_compiler);
  return *host_;
}

cache::Key Obtainer::key(const CompileRequest& request) const {
  return tilec::key(request, compiler(request.target));
}

std::optional<Obtained> Obtainer::obtain(const KernelRequest& request, Tried& tried) const {
  std::optional<Obtained> obtained;
  if (options_.cache_policy != CachePolicy::refresh) obtained = look_up(request, tried);
  if (!obtained && options_.cache_policy == CachePolicy::must_hit) {
    obtained = look_up_stand_in(request, tried);
    if (!obtained) throw_cache_miss(request);
  }
  if (!obtained) obtained = build(request, tried);
  if (obtained && !options_.dump_dir.empty()) dump(request, *obtained);
  return obtained;
}

std::optional<Obtained> Obtainer::look_up(const KernelRequest& request, Tried& tried,
                                          Look look) const {
  const auto start = Clock::now();
  const cache::Key key = this->key(request.compile);
  cache::LookUpOptions wanted{
      .require_builder = options_.require_builder, .skip_builders = {}, .target = {}};
  for (const auto& [of_key, builder] : tried.rejected) {
    if (of_key == key) wanted.skip_builders.push_back(builder);
  }
  cache::LookUp found = store_.look_up(key, wanted);
  note_misses(found.misses, tried, look);
  const std::lock_guard lock(mutex_);
  stats_.lookup_seconds += seconds_since(start);
  if (!found) return std::nullopt;
  cache::Entry& entry = *found.entry;
  ++stats_.hits[root_name(entry)];
  stats_.bytes_read += entry.payload.size();
  return Obtained{.key = key,
                  .target = request.compile.target,
                  .artifact = {.kind = entry.metadata.kind,
                               .image = std::move(entry.payload),
                               .entries = entry.metadata.entries,
                               .builder = entry.metadata.builder,
                               .log = entry.metadata.log,
                               .seconds = entry.metadata.build_seconds},
                  .origin = Origin::disk,
                  .path = entry.path.string(),
                  .not_kept = {}};
}

std::optional<Obtained> Obtainer::look_up_stand_in(const KernelRequest& request,
                                                   Tried& tried) const {
  if (request.exact) return std::nullopt;
  for (const Target& target : request.compile.target.stand_ins()) {
    if (auto hit = look_up(retargeted(request, target), tried, Look::again)) return hit;
  }
  return std::nullopt;
}

std::optional<Obtained> Obtainer::build(const KernelRequest& request, Tried& tried) const {
  const bool may_look = options_.cache_policy == CachePolicy::normal;
  Target target = request.compile.target;
  try {
    const Target nearest = compiler(target).nearest_target(target);
    if (!request.exact) target = nearest;  // else the compiler itself says that it can't
  } catch (const Error&) {
    // No compiler here: code for an older target may still be in the cache.
    if (auto hit = may_look ? look_up_stand_in(request, tried) : std::nullopt) return hit;
    throw;
  }
  const KernelRequest here = retargeted(request, target);
  const cache::Key key = this->key(here.compile);
  cache::BuildLock lock;
  if (may_look) {
    lock = store_.lock(key, options_.build_wait);
    if (!lock.held()) logger_->debug("building without a lock: {}", lock.why_not());
    // Another process may have built it since the first look.
    if (auto hit = look_up(here, tried, Look::again)) return hit;
  }
  if (!tried.rejected.empty() &&
      tried.rejected.contains({key, compiler(target).builder(here.compile)})) {
    return std::nullopt;
  }
  Obtained obtained{.key = key,
                    .target = target,
                    .artifact = compile(here.compile),
                    .origin = Origin::compiler,
                    .path = {},
                    .not_kept = {}};
  obtained.not_kept = publish(key, here, obtained.artifact);
  return obtained;
}

Artifact Obtainer::compile(const CompileRequest& request) const {
  expect_builder(request);
  try {
    Artifact artifact = compiler(request.target).compile(request);
    logger_->debug("compiled {} in {:.0f} ms", request.name, artifact.seconds * 1e3);
    const std::lock_guard lock(mutex_);
    ++stats_.compiles;
    stats_.compile_seconds += artifact.seconds;
    return artifact;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    ++stats_.failed_compiles;
    throw;
  }
}

std::string Obtainer::publish(const cache::Key& key, const KernelRequest& request,
                              const Artifact& artifact) const {
  if (options_.cache_policy == CachePolicy::off) return {};
  cache::Metadata metadata{.kind = artifact.kind,
                           .template_name = request.template_name,
                           .parameters = texts(request.parameters),
                           .target = request.compile.target.name(),
                           .entries = artifact.entries,
                           .builder = artifact.builder,
                           .least_driver = 0,
                           .source_bytes = request.compile.source.text.size(),
                           .build_seconds = artifact.seconds,
                           .description = request.problem,
                           .log = artifact.log,
                           .notes = {}};
  const cache::Published published = store_.publish(key, metadata, artifact.image);
  bool news = false;
  {
    const std::lock_guard lock(mutex_);
    if (published) {
      stats_.bytes_written += artifact.image.size();
      return {};
    }
    // A full disk stays full for the kernels that follow.
    news = not_kept_.insert(published.failure).second;
  }
  logger_->log(news ? spdlog::level::warn : spdlog::level::info,
               "{} is not kept in the cache ({}): {}", request.compile.name,
               cache::to_string(published.failure), published.detail);
  return published.detail;
}

void Obtainer::dump(const KernelRequest& request, const Obtained& obtained) const {
  const CompileRequest here = retargeted(request, obtained.target).compile;
  const std::string problem = dump_kernel(options_.dump_dir, obtained.key.hex(), here,
                                          obtained.artifact, compiler(obtained.target));
  if (problem.empty()) return;
  const bool first = [&] {
    const std::lock_guard lock(mutex_);
    return !std::exchange(dump_warned_, true);
  }();
  logger_->log(first ? spdlog::level::warn : spdlog::level::debug, "{}", problem);
}

// Before any compile: another choice would meet the same compiler.
void Obtainer::expect_builder(const CompileRequest& request) const {
  const std::string& wanted = options_.require_builder;
  if (wanted.empty()) return;
  const std::string here = compiler(request.target).builder(request);
  if (wanted == here) return;
  throw Error(ErrorKind::unsupported,
              fmt::format("the cache serves no {} built by {}, which the options require, and the "
                          "compiler here is {}",
                          request.name, wanted, here));
}

void Obtainer::note_misses(const std::vector<cache::Miss>& misses, Tried& tried, Look look) const {
  using enum cache::MissReason;
  for (const cache::Miss& miss : misses) {
    const bool usual =
        miss.reason == never_built || miss.reason == no_root || miss.reason == other_builder;
    if (usual && look == Look::again) continue;
    if (!tried.noted.emplace(miss.path.string(), miss.reason).second) continue;
    {
      const std::lock_guard lock(mutex_);
      ++stats_.misses[std::string(cache::to_string(miss.reason))];
    }
    if (usual) continue;
    logger_->warn("cache entry {} is not used ({}): {}{}", miss.path.string(),
                  cache::to_string(miss.reason), miss.detail, miss.removed ? "; removed" : "");
  }
}

void Obtainer::throw_cache_miss(const KernelRequest& request) const {
  const auto near = store_.nearest({.key = key(request.compile),
                                    .template_name = request.template_name,
                                    .parameters = texts(request.parameters),
                                    .target = request.compile.target.name(),
                                    .builder = options_.require_builder},
                                   1);
  std::string why = "nothing of this template was ever built here";
  if (!near.empty()) {
    why = fmt::format("the nearest entry, {}, differs in", near.front().entry.key.hex());
    for (const cache::Difference& difference : near.front().differences) {
      why += fmt::format("{} {} ({} wanted, {} there)",
                         &difference == &near.front().differences.front() ? "" : ",",
                         difference.field, difference.wanted, difference.found);
    }
  }
  throw Error(
      ErrorKind::cache_miss,
      fmt::format("the cache has no kernel for {} (key {}), and its policy forbids compiling: "
                  "{}. Fill the cache with `tilec build`, or use another policy",
                  request.compile.name, key(request.compile).hex(), why));
}

Stats Obtainer::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace tilec

// Opening a store, and looking through its sources.
#include "tilec/cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "bundle.h"
#include "store_state.h"
#include "sweep.h"

namespace tilec::cache {

namespace {

std::filesystem::path resolved(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path out =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  if (!out.has_filename() && out.has_relative_path()) out = out.parent_path();
  return error ? path : out;
}

bool is_shared(const StoreOptions& options, const std::filesystem::path& path) {
  const std::filesystem::path wanted = resolved(path);
  return std::ranges::any_of(options.trust_shared,
                             [&](const auto& each) { return resolved(each) == wanted; });
}

// What is not used, why, and what may be done about it. `trust_hint` and `other_hint`: ends of
// sentences, or empty.
std::string problem(const std::string& what, const std::filesystem::path& path,
                    const Refusal& refusal, const std::string& trust_hint,
                    const std::string& other_hint = {}) {
  std::string out = "the " + what + " " + path.string() + " is not used: " + refusal.text();
  if (refusal.untrusted && !trust_hint.empty()) {
    out += "; to use this " + what + " all the same, " + trust_hint;
  }
  if (!other_hint.empty()) out += "; " + other_hint;
  return out;
}

RootSettings settings_for(const StoreOptions& options, const std::filesystem::path& path) {
  RootSettings out;
  out.path = path;
  out.origin = Origin::read_only_root;
  out.trust = is_shared(options, path) ? Trust::shared : Trust::read_only;
  out.sync = options.sync;
  out.max_bytes = options.max_bytes;
  out.touch_after = options.touch_after;
  return out;
}

}  // namespace

// Opens what can be opened, and notes what can't.
struct StoreOpener {
  Store::State& state;

  const StoreOptions& options() const { return state.options; }

  void note(std::string text) { state.problems.push_back(std::move(text)); }

  // A folder that is not ours but root's, as in a container image, still serves for reading.
  bool read_only_instead(const std::string& why) {
    RootOpening opening = Root::open(settings_for(options(), options().root));
    if (!opening.root) return false;
    note("the cache folder " + options().root.string() + " is only read: " + why + "; " +
         options().root_hint + " for new kernels to be kept");
    state.sources.push_back(std::move(opening.root));
    return true;
  }

  void open_own() {
    if (options().root.empty()) return;
    RootSettings settings = settings_for(options(), options().root);
    settings.origin = Origin::own_root;
    if (!options().read_only) {
      if (settings.trust != Trust::shared) settings.trust = Trust::own;
      settings.create = settings.write = true;
    }
    RootOpening opening = Root::open(settings);
    if (!opening.root) {
      const Refusal& refusal = opening.refusal;
      if (refusal.untrusted && !options().read_only && read_only_instead(refusal.fault)) return;
      note(problem("cache folder", options().root, refusal, options().trust_hint,
                   options().root_hint));
      return;
    }
    state.own = opening.root.get();
    state.sources.push_back(std::move(opening.root));
    if (options().read_only) return;
    if (::faccessat(state.own->folder()->descriptor.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
      note("the cache folder " + options().root.string() + " can't be written (" +
           error_text(errno) + "), so new kernels are not kept; " + options().root_hint);
    }
  }

  void open_read_only(const std::filesystem::path& path) {
    RootOpening opening = Root::open(settings_for(options(), path));
    if (opening.root) {
      state.sources.push_back(std::move(opening.root));
    } else {
      note(problem("read-only cache folder", path, opening.refusal, options().trust_hint));
    }
  }

  void open_bundle(const BundleSource& source) {
    const bool embedded = !source.bytes.empty();
    BundleOpening opening =
        embedded ? Bundle::open(source.bytes, source.name)
                 : Bundle::open(source.path, is_shared(options(), source.path) ? Trust::shared
                                                                               : Trust::read_only);
    if (opening.bundle) {
      state.sources.push_back(std::move(opening.bundle));
    } else {
      const std::filesystem::path name =
          embedded ? std::filesystem::path(source.name) : source.path;
      note(problem(embedded ? "embedded bundle" : "bundle", name, opening.refusal,
                   options().trust_hint));
    }
  }
};

Store::Store(StoreOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  StoreOpener opener{*state_};
  opener.open_own();
  for (const auto& path : state_->options.read_only_roots) opener.open_read_only(path);
  for (const BundleSource& source : state_->options.bundles) opener.open_bundle(source);
}

Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

const StoreOptions& Store::options() const {
  return state_->options;
}

std::vector<std::string> Store::problems() const {
  return state_->problems;
}

bool Store::writable() const {
  return state_->can_write() &&
         ::faccessat(state_->own->folder()->descriptor.get(), ".", W_OK | X_OK, AT_EACCESS) == 0;
}

LookUp Store::look_up(const Key& key, const LookUpOptions& options) const {
  LookUp all;
  for (const auto& source : state_->sources) {
    LookUp found = look_up_in(*source, key, options);
    std::ranges::move(found.misses, std::back_inserter(all.misses));
    if (found.entry) {
      all.entry = std::move(found.entry);
      return all;
    }
  }
  if (state_->sources.empty()) {
    all.misses.push_back(
        {MissReason::no_root, {}, "there is no cache folder and no bundle", false});
  } else if (all.misses.empty()) {
    all.misses.push_back({MissReason::never_built, {}, "no entry of this key", false});
  }
  return all;
}

std::optional<Listed> Store::peek(const Key& key, const LookUpOptions& options) const {
  for (const auto& source : state_->sources) {
    if (auto found = peek_in(*source, key, options)) return found;
  }
  return std::nullopt;
}

std::uint64_t Store::discard(const Key& key, std::string_view builder) const {
  return state_->can_write() ? state_->own->discard(key, builder) : 0;
}

std::vector<std::string> Store::builders() const {
  std::vector<std::string> all;
  for (const auto& source : state_->sources) {
    source->refresh();
    const Source::Builders some = source->builders();
    all.insert(all.end(), some->begin(), some->end());
  }
  return newest_first(std::move(all));
}

Totals Store::totals() const {
  return state_->own ? count_root(*state_->own) : Totals{};
}

Swept Store::sweep(const SweepOptions& options) const {
  return state_->can_write() ? sweep_root(*state_->own, options) : Swept{};
}

}  // namespace tilec::cache

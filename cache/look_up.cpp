// The look-up in one source, written once for roots and bundles.
#include <algorithm>
#include <utility>

#include "source.h"

namespace tilec::cache {

namespace {

Miss to_miss(Fault fault, const OpenEntry& entry) {
  return Miss{fault.reason, entry.path, std::move(fault.detail), false};
}

bool is_skipped(const std::string& builder, const LookUpOptions& options) {
  return std::ranges::find(options.skip_builders, builder) != options.skip_builders.end();
}

bool serves(const std::string& builder, const LookUpOptions& options) {
  const std::string& required = options.require_builder;
  return (required.empty() || builder == required) && !is_skipped(builder, options);
}

using Head = std::variant<Absent, EntryHead, Miss>;

Head read_head(const Opened& opened, const Key& key, const std::string& builder) {
  if (std::holds_alternative<Absent>(opened)) return Absent{};
  if (const Miss* miss = std::get_if<Miss>(&opened)) return *miss;
  const OpenEntry& entry = std::get<OpenEntry>(opened);
  auto head = read_entry_head(entry.read, entry.bytes, &key, builder);
  if (Fault* fault = std::get_if<Fault>(&head)) return to_miss(std::move(*fault), entry);
  if (entry.header_digest && *entry.header_digest != std::get<EntryHead>(head).header_digest) {
    return Miss{MissReason::checksum, entry.path, "another entry than the index names", false};
  }
  return std::get<EntryHead>(std::move(head));
}

Miss other_target(const EntryHead& head, const std::filesystem::path& path,
                  const std::string& wanted) {
  return Miss{MissReason::wrong_target, path,
              "made for " + head.metadata.target + ", not " + wanted, false};
}

// One file's part of a look-up.
void look_at(const Source& source, const Key& key, const std::string& builder,
             const LookUpOptions& options, LookUp& found) {
  const Opened opened = source.open_entry(key, builder);
  Head head = read_head(opened, key, builder);
  if (std::holds_alternative<Absent>(head)) return;
  if (Miss* miss = std::get_if<Miss>(&head)) {
    if (is_damage(miss->reason)) {
      miss->removed = source.remove_damaged(key, builder, std::get<OpenEntry>(opened));
    }
    found.misses.push_back(std::move(*miss));
    return;
  }
  const OpenEntry& entry = std::get<OpenEntry>(opened);
  EntryHead& good = std::get<EntryHead>(head);
  if (!options.target.empty() && good.metadata.target != options.target) {
    found.misses.push_back(other_target(good, entry.path, options.target));
    return;
  }
  auto payload = read_entry_payload(entry.read, good);
  if (Fault* fault = std::get_if<Fault>(&payload)) {
    Miss miss = to_miss(std::move(*fault), entry);
    if (is_damage(miss.reason)) miss.removed = source.remove_damaged(key, builder, entry);
    found.misses.push_back(std::move(miss));
    return;
  }
  source.used(entry);
  found.entry =
      Entry{key, std::move(good.metadata), std::get<std::vector<std::byte>>(std::move(payload)),
            source.origin(), entry.path};
}

// A file of this key from a builder that was not asked for.
std::optional<Miss> other_builder(const Source& source, const Key& key,
                                  const LookUpOptions& options) {
  for (const std::string& builder : *source.builders()) {
    if (serves(builder, options)) continue;
    const Opened opened = source.open_entry(key, builder);
    const OpenEntry* entry = std::get_if<OpenEntry>(&opened);
    if (!entry) continue;
    std::string detail = is_skipped(builder, options)
                             ? "the entry of builder " + builder + " was rejected"
                             : "built by " + builder + ", not " + options.require_builder;
    return Miss{MissReason::other_builder, entry->path, std::move(detail), false};
  }
  return std::nullopt;
}

}  // namespace

LookUp look_up_in(const Source& source, const Key& key, const LookUpOptions& options) {
  LookUp found;
  Source::Builders tried = std::make_shared<const std::vector<std::string>>();
  Source::Builders known = source.builders();
  do {
    for (const std::string& builder : *known) {
      if (!serves(builder, options) || std::ranges::find(*tried, builder) != tried->end()) continue;
      look_at(source, key, builder, options, found);
      if (found.entry) return found;
    }
    tried = std::move(known);
    source.refresh();
    known = source.builders();
  } while (*known != *tried);
  if (found.misses.empty()) {
    if (auto miss = other_builder(source, key, options)) found.misses.push_back(*std::move(miss));
  }
  return found;
}

std::optional<Listed> peek_in(const Source& source, const Key& key, const LookUpOptions& options) {
  const auto newest = [&](const Source::Builders& builders) -> std::optional<Listed> {
    for (const std::string& builder : *builders) {
      if (!serves(builder, options)) continue;
      auto listed = list_entry(source, key, builder, Depth::metadata);
      if (!listed || listed->problem) continue;
      if (options.target.empty() || listed->metadata.target == options.target) return listed;
    }
    return std::nullopt;
  };
  const Source::Builders known = source.builders();
  if (auto found = newest(known)) return found;
  source.refresh();
  const Source::Builders now = source.builders();
  return *now == *known ? std::nullopt : newest(now);
}

std::optional<Listed> list_opened(const Source& source, const Opened& opened, const Key& key,
                                  const std::string& builder, Depth depth) {
  Head head = read_head(opened, key, builder);
  if (std::holds_alternative<Absent>(head)) return std::nullopt;
  Listed listed;
  listed.key = key;
  listed.origin = source.origin();
  if (const OpenEntry* entry = std::get_if<OpenEntry>(&opened)) {
    listed.path = entry->path;
    listed.bytes = entry->bytes;
    listed.last_used = entry->last_used;
  }
  if (Miss* miss = std::get_if<Miss>(&head)) {
    listed.path = miss->path;
    listed.problem = std::move(*miss);
    return listed;
  }
  EntryHead& good = std::get<EntryHead>(head);
  listed.payload_bytes = good.payload_bytes;
  if (depth == Depth::payload) {
    const OpenEntry& entry = std::get<OpenEntry>(opened);
    auto payload = read_entry_payload(entry.read, good);
    if (Fault* fault = std::get_if<Fault>(&payload)) {
      listed.problem = to_miss(std::move(*fault), entry);
      return listed;
    }
  }
  listed.metadata = std::move(good.metadata);
  return listed;
}

std::optional<Listed> list_entry(const Source& source, const Key& key, const std::string& builder,
                                 Depth depth) {
  return list_opened(source, source.open_entry(key, builder), key, builder, depth);
}

std::vector<std::string> newest_first(std::vector<std::string> builders) {
  std::ranges::sort(builders,
                    [](const auto& a, const auto& b) { return compare_builders(a, b) > 0; });
  builders.erase(std::unique(builders.begin(), builders.end()), builders.end());
  return builders;
}

}  // namespace tilec::cache

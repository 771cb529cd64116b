// Going through a store: listing, verifying, clearing, and what is nearest to something wanted.
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "store_state.h"
#include "tilec/cache.h"

namespace tilec::cache {

namespace {

constexpr const char* unnamed_difference = "source, headers or options";

// A damaged entry has no metadata to compare: it matches what its name can tell.
bool matches(const Filter& filter, const std::string& builder, const Listed& listed) {
  if (!listed.problem) return filter.matches(listed.key, listed.metadata);
  Metadata known;
  known.builder = builder;
  return filter.matches(listed.key, known);
}

void compare(std::vector<Difference>& out, std::string field, const std::string& wanted,
             const std::string& found) {
  if (wanted != found) out.push_back({std::move(field), wanted, found});
}

void compare_parameters(std::vector<Difference>& out,
                        const std::map<std::string, std::string>& wanted,
                        const std::map<std::string, std::string>& found) {
  const auto value = [](const auto& map, const std::string& name) {
    const auto at = map.find(name);
    return at == map.end() ? std::string("(none)") : at->second;
  };
  for (const auto& [name, wish] : wanted)
    compare(out, "parameter " + name, wish, value(found, name));
  for (const auto& [name, has] : found) {
    if (!wanted.contains(name)) compare(out, "parameter " + name, "(none)", has);
  }
}

std::vector<Difference> differences(const Wanted& wanted, const Listed& found) {
  std::vector<Difference> out;
  if (!wanted.target.empty()) compare(out, "target", wanted.target, found.metadata.target);
  if (!wanted.builder.empty()) compare(out, "builder", wanted.builder, found.metadata.builder);
  compare_parameters(out, wanted.parameters, found.metadata.parameters);
  // Another key, and nothing that we can name explains it.
  const bool explained =
      std::ranges::any_of(out, [](const Difference& each) { return each.field != "builder"; });
  if (wanted.key != found.key && !explained) {
    out.push_back({unnamed_difference, wanted.key.hex(), found.key.hex()});
  }
  return out;
}

// What can't be named is nearer than anything that can.
std::size_t distance(const Near& near) {
  const bool unnamed =
      !near.differences.empty() && near.differences.back().field == unnamed_difference;
  return near.differences.size() - (unnamed ? 1 : 0);
}

void keep_nearest(std::vector<Near>& nearest, Near candidate, std::size_t count) {
  const auto later = std::ranges::upper_bound(nearest, distance(candidate), {}, distance);
  nearest.insert(later, std::move(candidate));
  if (nearest.size() > count) nearest.pop_back();
}

}  // namespace

std::vector<Miss> Store::for_each(const Filter& filter, Depth depth,
                                  const std::function<bool(const Listed&)>& visit) const {
  std::vector<Miss> unread;
  bool more = true;
  for (const auto& source : state_->sources) {
    if (!more) break;
    std::vector<Miss> some = source->for_each_name([&](const Key& key, const std::string& builder) {
      if (filter.key && *filter.key != key) return true;
      if (!filter.builder.empty() && filter.builder != builder) return true;
      const auto listed = list_entry(*source, key, builder, depth);
      more = !listed || !matches(filter, builder, *listed) || visit(*listed);
      return more;
    });
    std::ranges::move(some, std::back_inserter(unread));
  }
  return unread;
}

VerifyReport Store::verify(bool repair) const {
  VerifyReport report;
  for (const auto& source : state_->sources) {
    std::vector<Miss> unread =
        source->for_each_name([&](const Key& key, const std::string& builder) {
          const Opened opened = source->open_entry(key, builder);
          auto listed = list_opened(*source, opened, key, builder, Depth::payload);
          if (!listed) return true;
          if (!listed->problem) {
            ++report.good;
            report.bytes += listed->bytes;
            return true;
          }
          Miss miss = *std::move(listed->problem);
          if (repair && is_damage(miss.reason)) {
            miss.removed = source->remove_damaged(key, builder, std::get<OpenEntry>(opened));
          }
          report.damaged.push_back(std::move(miss));
          return true;
        });
    std::ranges::move(unread, std::back_inserter(report.damaged));
  }
  return report;
}

Cleared Store::clear(const Filter& filter) const {
  if (!state_->can_write()) return {};
  const Root& own = *state_->own;
  if (const Root::Renewed now = own.renew(); now.refusal) return {0, {not_used(now)}};
  const bool everything =
      filter.target.empty() && filter.template_name.empty() && filter.kind.empty();
  Cleared cleared;
  std::vector<Miss> unread = own.for_each_name([&](const Key& key, const std::string& builder) {
    if (filter.key && *filter.key != key) return true;
    if (!filter.builder.empty() && filter.builder != builder) return true;
    if (!everything) {
      const auto listed = list_entry(own, key, builder, Depth::metadata);
      if (!listed || !matches(filter, builder, *listed)) return true;
    }
    if (own.discard_file(key, builder)) {
      ++cleared.removed;
    } else if (errno != ENOENT) {
      const int error = errno;
      const std::string name = entry_file_name(key, builder);
      cleared.kept.push_back(unremoved(own.folder()->path / name.substr(0, 2) / name, error));
    }
    return true;
  });
  std::ranges::move(unread, std::back_inserter(cleared.kept));
  return cleared;
}

std::vector<Near> Store::nearest(const Wanted& wanted, std::size_t count,
                                 std::size_t scan_limit) const {
  std::vector<Near> nearest;
  std::size_t scanned = 0;
  for (const auto& source : state_->sources) {
    source->for_each_name([&](const Key& key, const std::string& builder) {
      if (scanned++ >= scan_limit) return false;
      auto listed = list_entry(*source, key, builder, Depth::metadata);
      if (!listed || listed->problem || listed->metadata.template_name != wanted.template_name)
        return true;
      Near candidate{*std::move(listed), {}};
      candidate.differences = differences(wanted, candidate.entry);
      keep_nearest(nearest, std::move(candidate), count);
      return true;
    });
  }
  return nearest;
}

}  // namespace tilec::cache

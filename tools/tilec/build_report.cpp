// Telling how a build went.
#include "build_report.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <csignal>

#include "format.h"

namespace tilec::command {
namespace {

constexpr std::array<const char*, 5> kStatusNames{"built", "present", "failed", "missing",
                                                  "evicted"};

const char* name(BuildResult::Status status) {
  return kStatusNames[static_cast<std::size_t>(status)];
}

std::string kernels(std::size_t count) {
  return fmt::format("{} {}", count, count == 1 ? "kernel" : "kernels");
}

// Why entries went, and what would keep them.
std::string eviction(const BuildReport& report) {
  if (report.max_bytes == 0 || report.bytes_needed <= report.max_bytes) {
    return "the cache made room, or someone removed them; the same command builds them again";
  }
  return fmt::format("its bound of {} is too small for all; TILEC_CACHE_MAX_BYTES={} holds them",
                     human_bytes(report.max_bytes), typed_bytes(report.bytes_needed));
}

}  // namespace

Counts count(const BuildReport& report) {
  Counts counts{.total = report.results.size()};
  for (const BuildResult& result : report.results) {
    counts.built += result.status == BuildResult::Status::built ? 1 : 0;
    counts.present += result.status == BuildResult::Status::present ? 1 : 0;
    counts.failed += result.status == BuildResult::Status::failed ? 1 : 0;
    counts.evicted += result.status == BuildResult::Status::evicted ? 1 : 0;
  }
  return counts;
}

int exit_status(const BuildReport& report) {
  if (report.signal != 0) return 128 + report.signal;
  const Counts counts = count(report);
  return counts.failed > 0 || counts.evicted > 0 ? kExitFailure : kExitOk;
}

std::string complaint(const BuildReport& report) {
  const Counts counts = count(report);
  if (report.signal != 0) {
    return fmt::format(
        "interrupted with {} of {} done; what is built is kept, and the same command "
        "goes on from there",
        counts.done(), kernels(counts.total));
  }
  std::string why;
  if (counts.failed > 0) {
    why = fmt::format("{} of {} failed; the reasons are listed with the results", counts.failed,
                      kernels(counts.total));
  }
  if (counts.evicted > 0) {
    why += fmt::format("{}{} of {} are not in the cache any more: {}", why.empty() ? "" : "; ",
                       counts.evicted, kernels(counts.total), eviction(report));
  }
  return why;
}

Json to_json(const BuildReport& report) {
  const Counts counts = count(report);
  Json list = Json::array();
  for (const BuildResult& result : report.results) {
    Json json = result.item.kernel;
    json["status"] = name(result.status);
    if (result.seconds > 0) json["seconds"] = result.seconds;
    if (!result.message.empty()) json["message"] = result.message;
    if (!result.log.empty()) json["log"] = result.log;
    list.push_back(std::move(json));
  }
  Json json{{"kernels", list},
            {"total", counts.total},
            {"built", counts.built},
            {"present", counts.present},
            {"failed", counts.failed},
            {"evicted", counts.evicted},
            {"notes", report.notes},
            {"seconds", report.seconds},
            {"cache_dir", report.cache_dir},
            {"shard", {{"index", report.shard.index}, {"count", report.shard.count}}},
            {"dry_run", report.dry_run}};
  if (counts.evicted > 0) json["bytes_needed"] = report.bytes_needed;
  if (const std::string why = complaint(report); !why.empty()) {
    json["error"] = {{"kind", report.signal != 0 ? "interrupted" : "build"},
                     {"message", why},
                     {"exit_status", exit_status(report)}};
  }
  return json;
}

std::string text(const BuildReport& report) {
  const Counts counts = count(report);
  std::string text;
  if (report.dry_run) {
    for (const BuildResult& result : report.results) {
      text +=
          fmt::format("{:8} {:32} {}\n", name(result.status), result.item.key, result.item.label);
    }
  }
  text += report.dry_run
              ? fmt::format("{}: {} present, {} impossible, {} to build\n", kernels(counts.total),
                            counts.present, counts.failed, counts.total - counts.done())
              : fmt::format("{} in {}: {} built, {} present already, {} failed{}\n",
                            kernels(counts.total), human_time(report.seconds), counts.built,
                            counts.present, counts.failed,
                            counts.evicted == 0 ? "" : fmt::format(", {} evicted", counts.evicted));
  for (const std::string& note : report.notes) text += note + "\n";
  text += "cache: " + report.cache_dir + "\n";
  if (counts.failed == 0) return text;
  text += "\nfailed:\n";
  for (const BuildResult& result : report.results) {
    if (result.status != BuildResult::Status::failed) continue;
    text += fmt::format("  {}\n    {}\n", result.item.label, result.message);
    text += indented(result.log, "    | ");
  }
  return text;
}

}  // namespace tilec::command

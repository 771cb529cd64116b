// Telling what a run found.
#include "run_report.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "format.h"
#include "problem_flags.h"

namespace tilec::command {
namespace {

Json launch_json(const LaunchInfo& launch) {
  const LaunchShape& shape = launch.shape;
  return {{"template", launch.template_name},
          {"parameters", to_json(launch.parameters)},
          {"entry", launch.entry},
          {"grid", shape.grid},
          {"block", shape.block},
          {"shared_bytes", shape.shared_bytes},
          {"static_shared_bytes", launch.static_shared_bytes},
          {"registers", launch.registers},
          {"spill_bytes", launch.spill_bytes},
          {"occupancy", launch.occupancy},
          {"key", launch.key},
          {"builder", launch.builder},
          {"target", launch.target},
          {"compile_seconds", launch.compile_seconds},
          {"not_kept", launch.not_kept}};
}

Json verdict_json(const reference::Verdict& verdict) {
  return {{"ok", verdict.ok},
          {"exact", verdict.exact},
          {"elements", verdict.elements},
          {"checked", verdict.checked},
          {"wrong", verdict.wrong},
          {"max_error", verdict.max_error},
          {"error_over_bound", verdict.worst_ratio},
          {"frobenius", verdict.frobenius},
          {"frobenius_bound", verdict.frobenius_bound},
          {"text", verdict.text()}};
}

std::string launch_text(const LaunchInfo& launch) {
  const auto& [x, y, z] = launch.shape.grid;
  const auto& [bx, by, bz] = launch.shape.block;
  std::string text =
      fmt::format("  kernel   {} {}\n           grid {}×{}×{}, block {}×{}×{}, {} B shared memory",
                  launch.template_name, describe(launch.parameters), x, y, z, bx, by, bz,
                  launch.shape.shared_bytes + launch.static_shared_bytes);
  if (launch.registers > 0) {
    text +=
        fmt::format(", {} registers, {:.0f}% occupancy", launch.registers, launch.occupancy * 100);
  }
  if (launch.spill_bytes > 0) text += fmt::format(", {} B spilled", launch.spill_bytes);
  return text +
         fmt::format("\n  key      {} for {} by {}\n", launch.key, launch.target, launch.builder);
}

std::string origin_text(const PlanInfo& plan) {
  std::string text(to_string(plan.origin));
  if (!plan.origin_path.empty()) text += ": " + plan.origin_path;
  return text;
}

}  // namespace

std::string complaint(const RunReport& report) {
  if (report.right()) return {};
  if (!report.check->ok) return "the result is " + report.check->text();
  if (report.gaps_touched) return "the kernel wrote between the rows of D, outside the matrix";
  return "the result on positive data is " + report.positive_check->text();
}

Json to_json(const RunReport& report) {
  Json launches = Json::array();
  for (const LaunchInfo& launch : report.plan.launches) launches.push_back(launch_json(launch));
  Json json{{"problem", to_json(report.request)},
            {"description", report.plan.problem},
            {"device", report.device},
            {"origin", to_string(report.plan.origin)},
            {"origin_path", report.plan.origin_path},
            {"plan_seconds", report.plan_seconds},
            {"launches", launches},
            {"workspace_bytes", report.plan.workspace_bytes},
            {"run",
             {{"median_seconds", report.timing.median_seconds},
              {"least_seconds", report.timing.least_seconds},
              {"samples", report.timing.samples},
              {"launches_per_sample", report.timing.launches},
              {"method", report.timing.method}}}};
  if (report.operations > 0)
    json["gflop_s"] = report.operations / report.timing.median_seconds / 1e9;
  if (report.bytes > 0) json["gb_s"] = report.bytes / report.timing.median_seconds / 1e9;
  if (report.check) {
    json["check"] = verdict_json(*report.check);
    json["check"]["gaps_touched"] = report.gaps_touched;
    if (report.positive_check) json["check"]["positive"] = verdict_json(*report.positive_check);
  }
  if (const std::string why = complaint(report); !why.empty()) {
    json["error"] = {{"kind", "check"}, {"message", why}, {"exit_status", kExitFailure}};
  }
  return json;
}

std::string text(const RunReport& report) {
  const Timing& timing = report.timing;
  std::string text = fmt::format("{} on {}\n", report.plan.problem, report.device);
  for (const LaunchInfo& launch : report.plan.launches) text += launch_text(launch);
  text += fmt::format("  from     {}\n  plan     {}\n", origin_text(report.plan),
                      human_time(report.plan_seconds));
  text += fmt::format("  run      {}", human_time(timing.median_seconds));
  if (report.operations > 0) {
    text += fmt::format("   {:.4g} GFLOP/s", report.operations / timing.median_seconds / 1e9);
  }
  if (report.bytes > 0) {
    text += fmt::format("   {:.4g} GB/s", report.bytes / timing.median_seconds / 1e9);
  }
  text +=
      fmt::format("\n           median of {} (least {}), {}{}\n", timing.samples,
                  human_time(timing.least_seconds),
                  timing.launches == 1 ? "" : fmt::format("{} ", timing.launches), timing.method);
  if (report.check) text += "  check    " + report.check->text() + "\n";
  if (report.positive_check) {
    text += "           on positive data " + report.positive_check->text() + "\n";
  }
  if (report.gaps_touched) text += "           WRONG: written between the rows of D\n";
  return text;
}

int samples(const Device& device, const RunFlags& flags) {
  if (flags.repeat.empty()) return device.is_host() ? 1 : 20;
  return static_cast<int>(parse_integer(flags.repeat, "--repeat", 1, 1'000'000));
}

std::uint64_t seed(const RunFlags& flags) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::uint64_t>(parse_integer(flags.seed, "--seed", 0, kMost));
}

void expect_memory(double bytes) {
  const double present =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes <= 0.9 * present) return;
  const auto size = [](double value) {
    return human_bytes(static_cast<std::uint64_t>(std::min(value, 0x1p63)));
  };
  throw Failure(
      fmt::format("the operands need {} of memory, and this machine has {}; try a smaller "
                  "problem",
                  size(bytes), size(present)),
      "memory");
}

}  // namespace tilec::command

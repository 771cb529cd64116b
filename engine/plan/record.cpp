// Records what a program plans.
#include "plan/record.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "tilec/user_file.h"

namespace tilec {
namespace {

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

// Names are identifiers, so that nothing needs to be escaped.
std::string choice_text(const PlanOptions& options) {
  std::string text;
  if (!options.template_name.empty()) {
    text += fmt::format(", \"template\": \"{}\"", options.template_name);
  }
  std::string parameters;
  for (const auto& [name, value] : options.parameters) {
    parameters += fmt::format("{}\"{}\": {}", parameters.empty() ? "" : ", ", name,
                              value.is_dtype() ? "\"" + value.text() + "\"" : value.text());
  }
  if (!parameters.empty()) text += fmt::format(", \"parameters\": {{{}}}", parameters);
  return text;
}

}  // namespace

std::string manifest_line(const Problem& problem, const PlanOptions& options) {
  const std::string_view type = info(element_type(problem)).name;
  if (const auto* gemm = std::get_if<GemmProblem>(&problem)) {
    std::string gaps;
    for (const auto& [name, value] : stated_leading_dimensions(*gemm)) {
      gaps += fmt::format(", \"{}\": {}", name, value);
    }
    return fmt::format(
        "{{\"op\": \"gemm\", \"M\": {}, \"N\": {}, \"K\": {}, \"dtype\": \"{}\"{}{}}}", gemm->M,
        gemm->N, gemm->K, type, gaps, choice_text(options));
  }
  return fmt::format("{{\"op\": \"add\", \"shape\": [{}], \"dtype\": \"{}\"{}}}",
                     shape_text(std::get<AddProblem>(problem).shape), type, choice_text(options));
}

Recorder::Recorder(std::filesystem::path file, std::shared_ptr<spdlog::logger> logger)
    : file_(std::move(file)), logger_(std::move(logger)) {}

void Recorder::add(const Problem& problem, const PlanOptions& options) {
  if (file_.empty()) return;
  const std::string line = manifest_line(problem, options) + "\n";
  std::string fault;
  {
    const std::lock_guard lock(mutex_);
    if (!seen_.insert(line).second) return;
    fault = cache::append_line(file_, line);
    if (fault.empty() || std::exchange(warned_, true)) return;
  }
  logger_->warn(
      "the problems planned are not recorded: {}. Another file can be named in "
      "TILEC_RECORD or Options::record",
      fault);
}

}  // namespace tilec

// Records what a program plans.
#include "plan/record.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

// 0, or the error of the call that failed.
int append(const std::filesystem::path& file, const std::string& line) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return errno;
  const ssize_t written = write(descriptor, line.data(), line.size());
  const int error = written == static_cast<ssize_t>(line.size()) ? 0 : written < 0 ? errno : ENOSPC;
  close(descriptor);
  return error;
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
  const std::lock_guard lock(mutex_);
  if (!seen_.insert(line).second) return;
  const int error = append(file_, line);
  if (error == 0 || warned_) return;
  warned_ = true;
  logger_->warn("the problems planned are not recorded in {}: {}", file_.string(),
                std::strerror(error));
}

}  // namespace tilec

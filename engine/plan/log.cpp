// The one logger that tilec writes to.
#include "plan/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tilec {

std::shared_ptr<spdlog::logger> logger_of(const Options& options) {
  if (options.logger != nullptr) return options.logger;
  auto logger =
      std::make_shared<spdlog::logger>("tilec", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(spdlog::level::warn);
  logger->set_pattern("tilec: %v");
  return logger;
}

}  // namespace tilec

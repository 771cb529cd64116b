// The one logger that tilec writes to.
#include "plan/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <mutex>
#include <span>

#include "tilec/write_guard.h"

namespace tilec {
namespace {

// The standard error, unbuffered. spdlog's own sinks of it share one lock in the whole program, which
// a fork may leave locked in the child for ever; this one's is as old as its engine.
class StandardError final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // There is nobody to tell where that fails.
    cache::write_all(STDERR_FILENO, std::as_bytes(std::span(line.data(), line.size())));
  }
  void flush_() override {}
};

}  // namespace

std::shared_ptr<spdlog::logger> logger_of(const Options& options) {
  if (options.logger != nullptr) return options.logger;
  auto logger = std::make_shared<spdlog::logger>("tilec", std::make_shared<StandardError>());
  logger->set_level(spdlog::level::warn);
  logger->set_pattern("tilec: %v");
  return logger;
}

}  // namespace tilec

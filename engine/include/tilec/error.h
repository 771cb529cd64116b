// The one exception type that tilec throws.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

// Visible from a plugin built with hidden visibility, so that the host program's typed catch works.
#define TILEC_EXPORT __attribute__((visibility("default")))

namespace tilec {

enum class ErrorKind {
  invalid_argument,  // a value that can't be right; the message names it and what is allowed
  unsupported,       // right, but not on this device, target or template
  compile,           // a kernel that does not compile; `log()` is the compiler's whole output
  driver,            // the CUDA driver or the device refused, the message names call and result; or
                     // this process is a forked child of the one that the engine belongs to
  cache_miss,        // nothing in the cache serves, and compiling was forbidden
};
std::string_view to_string(ErrorKind kind);

class TILEC_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, std::string log = {})
      : std::runtime_error(message), kind_(kind), log_(std::move(log)) {}

  ErrorKind kind() const { return kind_; }
  const std::string& log() const { return log_; }

 private:
  ErrorKind kind_;
  std::string log_;
};

}  // namespace tilec

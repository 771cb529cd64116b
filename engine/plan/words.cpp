// The names of the public enumerations' values, and scalars in words.
#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "tilec/error.h"
#include "tilec/kernel.h"
#include "tilec/scalar.h"

namespace tilec {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid_argument";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::compile:
      return "compile";
    case ErrorKind::driver:
      return "driver";
    case ErrorKind::cache_miss:
      return "cache_miss";
  }
  return "";
}

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::memory:
      return "memory";
    case Origin::disk:
      return "disk";
    case Origin::compiler:
      return "compiler";
  }
  return "";
}

bool Scalar::fits(DType scalar_type) const {
  if (std::isnan(value_)) return !info(scalar_type).is_integer();
  double stored = 0;
  if (info(scalar_type).is_integer()) {
    if (value_ != std::floor(value_) || std::fabs(value_) > 0x1p31) return false;
  }
  char bytes[8] = {};
  store_from_double(scalar_type, bytes, 0, value_);
  stored = load_as_double(scalar_type, bytes, 0);
  return stored == value_;
}

std::string Scalar::text() const {
  return fmt::format("{} ({})", value_, info(type_).name);
}

}  // namespace tilec

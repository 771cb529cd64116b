// The one logger that tilec writes to.
#pragma once

#include <memory>

#include "tilec/options.h"

namespace tilec {

// The host program's, if its options name one; else tilec's own, on stderr from warnings up.
// spdlog's registry and default logger are left alone.
std::shared_ptr<spdlog::logger> logger_of(const Options& options);

}  // namespace tilec

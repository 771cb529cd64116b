// A compiler that says so where a fork has made it unusable.
#pragma once

#include <memory>

#include "compile/compiler.h"

namespace tilec {

// NVRTC has locks of its own. In a child that was forked while another thread was inside NVRTC they
// may be held for ever: each of this compiler's calls that would go there throws Error{driver} instead.
std::unique_ptr<Compiler> fork_aware(std::unique_ptr<Compiler> nvrtc);

}  // namespace tilec

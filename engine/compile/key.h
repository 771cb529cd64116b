// The key of a compiled kernel: a pure function of everything that its bytes depend on.
#pragma once

#include "compile/compiler.h"
#include "tilec/cache_key.h"

namespace tilec {

// Of source, headers, options, target and entry point. Toolkit headers count through the builder.
cache::Key key(const CompileRequest& request, const Compiler& compiler);

}  // namespace tilec

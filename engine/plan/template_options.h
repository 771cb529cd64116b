// What a template's own compiler options may be. Pure.
#pragma once

#include "tilec/kernel_template.h"

namespace tilec {

// Throws Error{invalid_argument} for an option that makes the compiler read or write files (what is
// read would be no part of the key, and a kernel of other text would be served), and for one that
// says what to compile for.
void expect_seen_by_key(const KernelTemplate& kernel);

}  // namespace tilec

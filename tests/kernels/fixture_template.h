// A template that never changes, for the tests of what is made of templates: its rendered text and
// its keys are golden.
#pragma once

#include "tilec/kernel_template.h"

namespace tilec::test {

// An Add with parameters of both kinds, headers of its own (one of them in place of ours) and one
// of the toolkit's.
KernelTemplate fixture_template();

}  // namespace tilec::test

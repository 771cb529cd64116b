// Walks the catalog: every template × dtype × a cover of its parameters × the cases of its
// operation, on the engines given.
#pragma once

#include <vector>

#include "tests/support/engines.h"

namespace tilec::test {

// Runs them as doctest checks. Under sanitizers, with some of the parameter sets.
void run_gemm_table(DType T, const std::vector<NamedEngine>& engines);
void run_add_table(DType T, const std::vector<NamedEngine>& engines);

}  // namespace tilec::test

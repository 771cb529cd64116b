// How a test says that this machine can't run it: the test program then exits 77, which ctest shows
// as "skipped". Thread-safe.
#pragma once

#include <string_view>

namespace tilec::test {

// Prints the reason and marks the run; the test case returns after it:
//   if (!has_gpu()) return skip("no CUDA device");
void skip(std::string_view reason);

}  // namespace tilec::test

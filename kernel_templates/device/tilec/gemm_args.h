// The one argument of every GEMM kernel. Shared by host and device: plain data, a fixed layout.
#pragma once

#include "tilec/scalar_argument.h"

namespace tilec {

// Version 1. Row-major; leading dimensions in elements, the row's length where there is at most one
// row. D may be C. C is not read where beta is 0, A and B are not where alpha or K is 0:
// gemm_result.h has what follows from that.
struct GemmArgs {
  static constexpr int version = 1;

  const void* a;
  const void* b;
  const void* c;
  void* d;
  long long M, N, K;
  long long lda, ldb, ldc, ldd;
  ScalarArgument alpha, beta;
};
static_assert(sizeof(GemmArgs) == 104 && alignof(GemmArgs) == 8);

}  // namespace tilec

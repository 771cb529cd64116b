// The last step of every GEMM kernel: what alpha, beta and C make of a sum of products.
#pragma once

#include "tilec/gemm_args.h"
#include "tilec/numeric.h"

namespace tilec {

// The products that an element of D sums: K, or none where alpha is 0. With none, neither A nor B
// is read, and alpha does not count.
template <class S>
__device__ inline long long products(const GemmArgs& args, S alpha) {
  return alpha == S(0) ? 0 : args.K;
}

// alpha·sum + beta·C[at] for a sum of `count` products. With none it is beta·C: C's own bits for
// beta = 1, be they −0 or a NaN. C is not read where beta is 0.
template <class T, class S, class ACC>
__device__ inline T result(long long count, S alpha, ACC sum, S beta, const T* C, long long at) {
  if (count > 0) {
    const S scaled = product(alpha, S(sum));
    return beta == S(0) ? T(scaled) : T(multiply_add(beta, S(C[at]), scaled));
  }
  if (beta == S(0)) return T(S(0));
  if (beta == S(1)) return C[at];
  return T(product(beta, S(C[at])));
}

}  // namespace tilec

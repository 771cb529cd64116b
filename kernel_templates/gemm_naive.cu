// gemm_naive: D = alpha·A·B + beta·C, one thread an output, no shared memory. The baseline that the
// tiled kernels are compared with.
//
//                 K                        N                        N
//          ┌─────────────┐          ┌───────┬─┬───┐          ┌───────┬─┬───┐
//        M │             │        K │       │↓│   │        M │       │ │   │
//          ├─────────────┤          │       │↓│   │          │       │ │   │
//      row │ → → → → → → │          │       │↓│   │      row ├───────┼─┤   │
//          ├─────────────┤          │       │↓│   │          │       │D│   │
//          └─────────────┘          └───────┴─┴───┘          └───────┴─┴───┘
//                                          col                      col
//
//   A block is BLOCK_X×BLOCK_Y outputs; neighbouring threads take neighbouring columns, so that rows of
//   B and D are read and written side by side. Every product costs one load of A and one of B.
#include "tilec/gemm_result.h"

extern "C" __global__ void __launch_bounds__(BLOCK_X* BLOCK_Y)
    gemm_naive(const __grid_constant__ tilec::GemmArgs args) {
  using S = tilec::ScalarOf<ACC>::type;
  const S alpha = tilec::get<S>(args.alpha);
  const S beta = tilec::get<S>(args.beta);
  const T* const A = static_cast<const T*>(args.a);
  const T* const B = static_cast<const T*>(args.b);
  const T* const C = static_cast<const T*>(args.c);
  T* const D = static_cast<T*>(args.d);
  const long long K = tilec::products(args, alpha);

  // A grid is at most 65,535 blocks high: the rest of a tall D lies behind, in z.
  const long long block_y = blockIdx.z * static_cast<long long>(gridDim.y) + blockIdx.y;
  const long long row = block_y * BLOCK_Y + threadIdx.y;
  const long long col = static_cast<long long>(blockIdx.x) * BLOCK_X + threadIdx.x;
  if (row >= args.M || col >= args.N) return;

  ACC acc = ACC(0);
  for (long long k = 0; k < K; ++k) {
    acc = tilec::multiply_add(ACC(A[row * args.lda + k]), ACC(B[k * args.ldb + col]), acc);
  }

  D[row * args.ldd + col] = tilec::result(K, alpha, acc, beta, C, row * args.ldc + col);
}

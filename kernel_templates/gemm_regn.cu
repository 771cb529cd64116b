// gemm_regn: D = alpha·A·B + beta·C, register tiling along N. One block computes a TILE×TILE tile of
// D, one thread 1×TN neighbours of it, K in steps of TILE through shared memory.
//
//                      K                                        N
//             ┌─────┬─────┬─────┐                    ┌─────┬───────────┬─────┐
//             │     │     │     │                  K │     │  Bs       │     │  Bs[k][column]
//             ├─────┼─────┼─────┤                    ├─────┼───────────┼─────┤
//   block_row │     │ As →│     │  As[row][k]        │     │  ↓        │     │
//             ├─────┼─────┼─────┤                    └─────┴───────────┴─────┘
//           M │     │     │     │                          block_col
//             └─────┴─────┴─────┘
//
//   Inside the tile, TILE = 8 and TN = 4: TILE/TN × TILE = 2×8 threads.
//
//              tx = 0          tx = 1
//           ┌──┬──┬──┬──┬──┬──┬──┬──┐
//    ty = 0 │ 0  1  2  3│ 0  1  2  3│   acc[j] of thread (tx, ty) is
//    ty = 1 │ 0  1  2  3│ 0  1  2  3│   D[block_row + ty][block_col + tx·TN + j]
//       …   │           │           │
//           └──┴──┴──┴──┴──┴──┴──┴──┘
//
//   Shared memory   As[TILE][TILE+PAD], Bs[TILE][TILE+PAD] of T: the padding shifts each row by a bank.
//   Registers       acc[TN], one element of A that serves TN products, one of B.
//   A step of k     1 shared load of A and TN of B for TN products.
//   Loads           thread (tx, ty) brings As[ty][kk] and Bs[ty][kk] for kk = tx·TN … tx·TN+TN-1.
#include "tilec/gemm_result.h"
#include "tilec/shared_memory.h"

extern "C" __global__ void __launch_bounds__((TILE / TN) * TILE)
    gemm_regn(const __grid_constant__ tilec::GemmArgs args) {
  using S = tilec::ScalarOf<ACC>::type;
  const S alpha = tilec::get<S>(args.alpha);
  const S beta = tilec::get<S>(args.beta);
  const T* const A = static_cast<const T*>(args.a);
  const T* const B = static_cast<const T*>(args.b);
  const long long M = args.M, N = args.N;
  const long long K = tilec::products(args, alpha);

  tilec::SharedMemory shared;
  auto& As = shared.array<T, TILE, TILE + PAD>();
  auto& Bs = shared.array<T, TILE, TILE + PAD>();

  const int tx = threadIdx.x, ty = threadIdx.y;
  // A grid is at most 65,535 blocks high: the rest of a tall D lies behind, in z.
  const long long block_row = (blockIdx.z * static_cast<long long>(gridDim.y) + blockIdx.y) * TILE;
  const long long block_col = static_cast<long long>(blockIdx.x) * TILE;
  if (block_row >= M) return;
  const long long row = block_row + ty;
  const long long col0 = block_col + tx * TN;

  ACC acc[TN];
#pragma unroll
  for (int j = 0; j < TN; ++j) acc[j] = ACC(0);

  for (long long k0 = 0; k0 < K; k0 += TILE) {
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int kk = tx * TN + j;
      As[ty][kk] = row < M && k0 + kk < K ? A[row * args.lda + k0 + kk] : T(0);
      Bs[ty][kk] = k0 + ty < K && col0 + j < N ? B[(k0 + ty) * args.ldb + col0 + j] : T(0);
    }
    __syncthreads();

#pragma unroll UNROLL_K
    for (int kk = 0; kk < TILE; ++kk) {
      const ACC a = ACC(As[ty][kk]);
#pragma unroll
      for (int j = 0; j < TN; ++j) {
        acc[j] = tilec::multiply_add(a, ACC(Bs[kk][tx * TN + j]), acc[j]);
      }
    }
    __syncthreads();
  }

  if (row >= M) return;
  const T* const C = static_cast<const T*>(args.c);
  T* const D = static_cast<T*>(args.d);
#pragma unroll
  for (int j = 0; j < TN; ++j) {
    const long long col = col0 + j;
    if (col >= N) break;
    D[row * args.ldd + col] = tilec::result(K, alpha, acc[j], beta, C, row * args.ldc + col);
  }
}

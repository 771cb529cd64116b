// add_block_tiled: out = a + b, the tile given to the block instead of the thread. A block owns
// BLOCK·W·UNROLL neighbours; its lanes stride through them side by side.
//
//   elements   0     W    2W            BLOCK·W                     2·BLOCK·W
//              ├─────┼─────┼──── … ─────┼─────┼─────┼──── … ─────┼─── …
//     lane     │  0  │  1  │ …  BLOCK-1 │  0  │  1  │ …  BLOCK-1 │
//              └────────── u = 0 ───────┴────────── u = 1 ───────┴─── …  u < UNROLL
//
//   Lane i takes the vectors i, i+BLOCK, i+2·BLOCK, …: a warp's loads are 32·W neighbours. All loads of
//   a thread are issued before its first sum, so that 2·UNROLL of them are in flight.
//   Registers: 2·W·UNROLL elements.
//   A last tile that is not whole, and pointers that don't allow W-wide access, go one by one.
#include "tilec/add_args.h"
#include "tilec/numeric.h"

extern "C" __global__ void __launch_bounds__(BLOCK)
    add_block_tiled(const __grid_constant__ tilec::AddArgs args) {
  using Vector = tilec::Vector<T, W>;
  constexpr int TILE = BLOCK * W * UNROLL;
  const int lane = threadIdx.x;
  const long long start = static_cast<long long>(blockIdx.x) * TILE;

  const T* const a = static_cast<const T*>(args.a) + start;
  const T* const b = static_cast<const T*>(args.b) + start;
  T* const out = static_cast<T*>(args.out) + start;

  if (start + TILE <= args.n && tilec::aligned<T, W>(args.a, args.b, args.out)) {
    Vector x[UNROLL], y[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      x[u] = reinterpret_cast<const Vector*>(a)[u * BLOCK + lane];
      y[u] = reinterpret_cast<const Vector*>(b)[u * BLOCK + lane];
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      Vector sums;
#pragma unroll
      for (int w = 0; w < W; ++w) sums.lane[w] = tilec::sum(x[u].lane[w], y[u].lane[w]);
      reinterpret_cast<Vector*>(out)[u * BLOCK + lane] = sums;
    }
  } else {
    for (long long i = lane; i < TILE && start + i < args.n; i += BLOCK) {
      out[i] = tilec::sum(a[i], b[i]);
    }
  }
}

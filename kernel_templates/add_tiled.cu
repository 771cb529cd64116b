// add_tiled: out = a + b. The tensor is cut into tiles of TILE neighbours; one thread owns a tile and
// walks it in TILE/W vector steps.
//
//   elements   0      W     2W            TILE                     2·TILE
//              ├──────┼──────┼─── … ──────┼──────┼──────┼─── … ──────┼─── …
//              │step 0│step 1│            │step 0│step 1│            │
//              └──────────────────────────┴──────────────────────────┴─── …
//                       thread 0                    thread 1
//
//   A tile is a view: a pointer into the tensor, no copy. W elements are one load or store of up to 16
//   bytes where all three pointers allow it; else the same steps are taken element by element, and so
//   is a last tile that is not whole. 1,024 floats with TILE 32 and W 4: 32 threads of 8 steps.
//   Registers: 2·W elements a step.
//   Neighbouring threads are TILE elements apart: the loads of a warp touch 32 separate places.
#include "tilec/add_args.h"
#include "tilec/numeric.h"

template <int STEP>
__device__ void add_whole_tile(const T* a, const T* b, T* out) {
  using Vector = tilec::Vector<T, STEP>;
#pragma unroll
  for (int i = 0; i < TILE; i += STEP) {
    const Vector x = *reinterpret_cast<const Vector*>(a + i);
    const Vector y = *reinterpret_cast<const Vector*>(b + i);
    Vector sums;
#pragma unroll
    for (int w = 0; w < STEP; ++w) sums.lane[w] = tilec::sum(x.lane[w], y.lane[w]);
    *reinterpret_cast<Vector*>(out + i) = sums;
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    add_tiled(const __grid_constant__ tilec::AddArgs args) {
  const long long t = static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x;
  const long long start = t * TILE;
  if (start >= args.n) return;  // a surplus thread of the last block

  const T* const a = static_cast<const T*>(args.a) + start;
  const T* const b = static_cast<const T*>(args.b) + start;
  T* const out = static_cast<T*>(args.out) + start;

  if (start + TILE > args.n) {
    for (int i = 0; i < args.n - start; ++i) out[i] = tilec::sum(a[i], b[i]);
  } else if (tilec::aligned<T, W>(args.a, args.b, args.out)) {
    add_whole_tile<W>(a, b, out);
  } else {
    add_whole_tile<1>(a, b, out);
  }
}

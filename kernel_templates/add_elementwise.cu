// add_elementwise: out = a + b, one vector of W elements a thread: the pattern that tiles are compared
// with.
//
//   elements   0      W     2W     3W     4W
//              ├──────┼──────┼──────┼──────┼─── …
//              └──────┴──────┴──────┴──────┴─── …
//     thread      0      1      2      3
//
//   The lanes of a warp touch 32·W neighbours. W elements are one load or store of up to 16 bytes where
//   all three pointers allow it; else, and at the ragged end, they go one by one.
#include "tilec/add_args.h"
#include "tilec/numeric.h"

extern "C" __global__ void __launch_bounds__(BLOCK)
    add_elementwise(const __grid_constant__ tilec::AddArgs args) {
  using Vector = tilec::Vector<T, W>;
  const long long t = static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x;
  const long long start = t * W;
  if (start >= args.n) return;  // a surplus thread of the last block

  const T* const a = static_cast<const T*>(args.a) + start;
  const T* const b = static_cast<const T*>(args.b) + start;
  T* const out = static_cast<T*>(args.out) + start;

  if (start + W <= args.n && tilec::aligned<T, W>(args.a, args.b, args.out)) {
    const Vector x = *reinterpret_cast<const Vector*>(a);
    const Vector y = *reinterpret_cast<const Vector*>(b);
    Vector sums;
#pragma unroll
    for (int w = 0; w < W; ++w) sums.lane[w] = tilec::sum(x.lane[w], y.lane[w]);
    *reinterpret_cast<Vector*>(out) = sums;
  } else {
    for (int w = 0; w < W && start + w < args.n; ++w) out[w] = tilec::sum(a[w], b[w]);
  }
}

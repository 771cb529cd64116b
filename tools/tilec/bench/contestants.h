// The time of planned GEMMs and Adds on the device, from replayed graphs over rotating operands.
#pragma once

#include <memory>

#include "bench/cuda.h"
#include "bench/interleave.h"
#include "bench/operands.h"
#include "tilec/add.h"
#include "tilec/gemm.h"

namespace tilec::bench {

// Calls in one graph, so that it takes `seconds` or so.
inline int calls_for(double seconds_each, double seconds) {
  return std::clamp(static_cast<int>(seconds / std::max(seconds_each, 1e-7)), 1, 2000);
}

// A contestant that replays `enqueue` from a graph; the number of calls follows from a first try.
inline Contestant replayed(const Cuda& cuda, std::string name,
                           const std::function<void(int)>& enqueue, double seconds = 0.02) {
  Cuda::Graph(cuda, 1, enqueue).replay();
  const double once = Cuda::Graph(cuda, 3, enqueue).replay();
  auto graph = std::make_shared<Cuda::Graph>(cuda, calls_for(once, seconds), enqueue);
  return {std::move(name), [graph] { return graph->replay(); }};
}

inline Contestant gemm_contestant(const Cuda& cuda, std::string name, const Gemm& gemm,
                                  const Operands& operands) {
  return replayed(cuda, std::move(name), [&cuda, gemm, &operands](int i) {
    gemm.run({.a = operands.a(i), .b = operands.b(i), .d = operands.out(i)}, cuda.stream());
  });
}

inline Contestant add_contestant(const Cuda& cuda, std::string name, const Add& add,
                                 const Operands& operands) {
  return replayed(cuda, std::move(name), [&cuda, add, &operands](int i) {
    add.run({.a = operands.a(i), .b = operands.b(i), .out = operands.out(i)}, cuda.stream());
  });
}

}  // namespace tilec::bench

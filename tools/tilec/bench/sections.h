// The parts of `tilec bench`. Each runs on device 0, prints as it goes and returns its figures.
#pragma once

#include <string>

#include "output.h"
#include "tilec/options.h"

namespace tilec::bench {

using command::Json;

struct Settings {
  Options options;  // of the engines; the cache is a temporary one where a section says so
  int rounds = 15;  // interleaved measurements
  std::string nvcc = "nvcc";
  bool quiet = false;  // JSON: nothing is printed on the way
};

// gemm_regn float 32/4 at 4096³ against the same text compiled by nvcc.
Json bench_nvcc(const Settings& settings);
// The three adds at 2^28 floats.
Json bench_add(const Settings& settings);
// Cold, disk-hit and warm `plan`.
Json bench_plan(const Settings& settings);
// One disk-hit `plan` in this process, for bench_plan: it starts processes for it.
Json probe_disk_hit(const Settings& settings);
// Host time of `run` against a bare launch of the same kernel.
Json bench_launch(const Settings& settings);
// Naive → shared tile → register tile, TILE × TN; and the adds, TILE × W.
Json bench_ladder(const Settings& settings);

}  // namespace tilec::bench

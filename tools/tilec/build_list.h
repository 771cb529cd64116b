// What `tilec build` has to build: requests × places, each kernel once. Compiles nothing.
#pragma once

#include <string>
#include <vector>

#include "manifest.h"
#include "place.h"

namespace tilec::command {

struct BuildItem {
  std::string label;     // "gemm_regn f16 TILE=64 TN=8 for sm_90a"
  std::string key;       // empty where the request is impossible
  std::string rejected;  // why it is impossible; empty where it is possible
  Json kernel;           // {"template", "dtype", "parameters", "target"[, "key"]}
  Json task;             // what a worker is told
  Place place;           // the first that needs it
};

struct BuildList {
  std::vector<BuildItem> items;    // sorted by key, so that every machine has the same order
  std::vector<std::string> notes;  // where a kernel's target is not the one that was asked for
};

// The kernels that these requests need at each place, or, with no requests, all that can be chosen
// there. Throws UsageError for a target that no template takes.
BuildList build_list(const std::vector<ManifestRequest>& requests, const std::vector<Place>& places,
                     const Options& options);

// Every count-th item: the shards share nothing and leave nothing out.
std::vector<BuildItem> shard_of(std::vector<BuildItem> items, const Shard& shard);

}  // namespace tilec::command

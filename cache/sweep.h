// The bound on a root's size. A count of bytes a shard is kept in a file, set by whoever publishes
// into the shard (he counts it), never added to, so that a lost or damaged count mends itself. If
// the sum is over the bound, one process takes a step: the least recently used entries of a sample
// of whole shards go. Keys are hashes, so a shard is a fair sample.
#pragma once

#include "root.h"
#include "tilec/cache.h"

namespace tilec::cache {

// Counts the shard, and takes a step if the bound is passed.
void sweep_after_publishing(const Root& root, int shard);

// Where there are no counts, which tell where the step before ended, it begins at the shard `start`.
Swept sweep_root(const Root& root, const SweepOptions& options, int start = 0);

Totals count_root(const Root& root);

// Whether the folder has a file of counts, and it is ours.
bool has_usage(const RootFolder& folder);

}  // namespace tilec::cache

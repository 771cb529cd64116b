// The JSON form of DeviceFacts: what `tilec info --json` prints and `--device FILE.json` reads.
#pragma once

#include <string>

#include "json_node.h"
#include "tilec/target.h"

namespace tilec::command {

Json to_json(const DeviceFacts& facts);

// "name" and "target" are required; whatever else is left out is that of a common device of the
// target. Throws UsageError for unknown keys and for values that can't be.
DeviceFacts facts_from_json(const Node& node);

}  // namespace tilec::command

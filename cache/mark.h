// The mark of a root, which tells it from every other folder: what holds anything that is not ours
// is never written to. No state.
#pragma once

#include <string>
#include <string_view>

#include "root.h"

namespace tilec::cache {

constexpr std::string_view mark_file = "tilec-cache";
constexpr std::string_view tag_file = "CACHEDIR.TAG";  // bford.info/cachedir: for backup programs

// Empty if the folder is a root: it has the mark; or it is empty, or the root of a tilec that knew
// no marks, and gets it. Else it is refused, and nothing has been touched.
Refusal claim(const RootFolder& root, bool sync);

// Of a folder that has been claimed: marks it, if it isn't yet. False, with errno set, on failure.
bool mark(const RootFolder& root, bool sync);

}  // namespace tilec::cache

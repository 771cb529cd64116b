// Metadata as bytes and back: named fields, unknown ones ignored, so that a later tilec may add to
// them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tilec/cache_entry.h"

namespace tilec::cache {

std::string encode_metadata(const Metadata& metadata);

// Nothing if the bytes are no metadata.
std::optional<Metadata> decode_metadata(std::string_view bytes);

// What publish() demands of metadata: a known kind, a valid builder, names present. Returns what is
// wrong, or an empty string.
std::string check_metadata(const Metadata& metadata);

}  // namespace tilec::cache

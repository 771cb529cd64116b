// The words for the cache's enumerators.
#include "tilec/cache.h"
#include "tilec/cache_entry.h"

namespace tilec::cache {

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::own_root:
      return "own root";
    case Origin::read_only_root:
      return "read-only root";
    case Origin::bundle:
      return "bundle";
    case Origin::embedded_bundle:
      return "embedded bundle";
  }
  return "unknown";
}

std::string_view to_string(MissReason reason) {
  switch (reason) {
    case MissReason::never_built:
      return "never built";
    case MissReason::other_builder:
      return "other builder";
    case MissReason::truncated:
      return "truncated";
    case MissReason::bad_magic:
      return "not an entry";
    case MissReason::newer_format:
      return "newer format";
    case MissReason::checksum:
      return "checksum";
    case MissReason::malformed:
      return "malformed";
    case MissReason::wrong_key:
      return "wrong key";
    case MissReason::wrong_payload:
      return "wrong payload";
    case MissReason::wrong_target:
      return "wrong target";
    case MissReason::io_error:
      return "I/O error";
    case MissReason::untrusted:
      return "untrusted";
    case MissReason::no_root:
      return "no root";
  }
  return "unknown";
}

bool is_damage(MissReason reason) {
  switch (reason) {
    case MissReason::truncated:
    case MissReason::bad_magic:
    case MissReason::checksum:
    case MissReason::malformed:
    case MissReason::wrong_key:
    case MissReason::wrong_payload:
      return true;
    default:
      return false;
  }
}

std::string_view to_string(PublishFailure failure) {
  switch (failure) {
    case PublishFailure::none:
      return "none";
    case PublishFailure::no_root:
      return "no root";
    case PublishFailure::read_only:
      return "read-only";
    case PublishFailure::no_space:
      return "no space";
    case PublishFailure::too_large:
      return "too large";
    case PublishFailure::invalid:
      return "invalid";
    case PublishFailure::io_error:
      return "I/O error";
  }
  return "unknown";
}

bool Filter::matches(const Key& entry_key, const Metadata& metadata) const {
  return (!key || *key == entry_key) && (target.empty() || target == metadata.target) &&
         (template_name.empty() || template_name == metadata.template_name) &&
         (builder.empty() || builder == metadata.builder) &&
         (kind.empty() || kind == metadata.kind);
}

}  // namespace tilec::cache

// An entry as bytes, see FORMAT.md: a header of 96 bytes, the metadata, the payload. Reads through
// a function, so that files, bundles and memory share one reader. No state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "digest.h"
#include "tilec/cache_entry.h"

namespace tilec::cache {

constexpr std::size_t entry_header_bytes = 96;
constexpr std::uint32_t entry_version = 1;
constexpr std::uint64_t max_metadata_bytes = std::uint64_t{16} << 20;
constexpr std::uint64_t max_payload_bytes = std::uint64_t{1} << 30;

// Header and metadata; the payload follows them.
std::vector<std::byte> encode_entry_head(const Key& key, const Metadata& metadata,
                                         std::span<const std::byte> payload);

// Reads up to out.size() bytes at `offset`; fewer only at the end of the file. -1 on an I/O error,
// with errno set.
using ReadAt = std::function<std::ptrdiff_t(std::uint64_t offset, std::span<std::byte> out)>;

struct Fault {
  MissReason reason;
  std::string detail;
};

struct EntryHead {
  Key key;
  Metadata metadata;
  std::uint64_t payload_offset = 0;
  std::uint64_t payload_bytes = 0;
  Digest payload_digest{};
  Digest header_digest{};  // stands for the whole entry
};

// `size`: of the whole entry. `expected` and `builder`, where given, are what the file's name says.
std::variant<EntryHead, Fault> read_entry_head(const ReadAt& read, std::uint64_t size,
                                               const Key* expected, std::string_view builder);

std::variant<std::vector<std::byte>, Fault> read_entry_payload(const ReadAt& read,
                                                               const EntryHead& head);

// Reads from memory, which must outlive the function.
ReadAt read_from(std::span<const std::byte> bytes);

}  // namespace tilec::cache

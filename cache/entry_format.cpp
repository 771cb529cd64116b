#include "entry_format.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>

#include "bytes.h"
#include "metadata.h"

namespace tilec::cache {

namespace {

// A byte above 0x7f, a carriage return and a line feed, so that text conversions show.
constexpr std::array<std::uint8_t, 8> magic = {0x8e, 'T', 'L', 'C', 'E', '\r', '\n', 0x1a};

constexpr std::size_t at_version = 8;
constexpr std::size_t at_header_bytes = 12;
constexpr std::size_t at_metadata_bytes = 16;
constexpr std::size_t at_payload_bytes = 24;
constexpr std::size_t at_key = 32;
constexpr std::size_t at_metadata_digest = 48;
constexpr std::size_t at_payload_digest = 64;
constexpr std::size_t at_header_digest = 80;

using Header = std::array<std::byte, entry_header_bytes>;

Digest load_digest(const Header& header, std::size_t at) {
  Digest out;
  std::memcpy(out.data(), header.data() + at, out.size());
  return out;
}

void put(Header& header, std::size_t at, std::span<const std::uint8_t> bytes) {
  std::memcpy(header.data() + at, bytes.data(), bytes.size());
}

Fault io_fault() {
  return {MissReason::io_error, "reading failed: " + std::generic_category().message(errno)};
}

std::optional<Fault> read_exactly(const ReadAt& read, std::uint64_t offset,
                                  std::span<std::byte> out) {
  const std::ptrdiff_t count = read(offset, out);
  if (count < 0) return io_fault();
  if (static_cast<std::size_t>(count) != out.size()) {
    return Fault{MissReason::truncated, "the file ended while it was read"};
  }
  return std::nullopt;
}

std::optional<Fault> check_header(const Header& header, std::uint64_t size) {
  if (std::memcmp(header.data(), magic.data(), magic.size()) != 0) {
    return Fault{MissReason::bad_magic, "the first bytes are not an entry's"};
  }
  if (digest(std::span(header).first(at_header_digest)) != load_digest(header, at_header_digest)) {
    return Fault{MissReason::checksum, "the header's checksum differs"};
  }
  const auto version = load_number<std::uint32_t>(header.data() + at_version);
  if (version > entry_version) {
    return Fault{MissReason::newer_format, "format " + std::to_string(version) +
                                               "; this tilec reads up to " +
                                               std::to_string(entry_version)};
  }
  if (version == 0 ||
      load_number<std::uint32_t>(header.data() + at_header_bytes) != entry_header_bytes) {
    return Fault{MissReason::malformed, "no such format"};
  }
  const auto metadata_bytes = load_number<std::uint64_t>(header.data() + at_metadata_bytes);
  const auto payload_bytes = load_number<std::uint64_t>(header.data() + at_payload_bytes);
  if (metadata_bytes > max_metadata_bytes || payload_bytes > max_payload_bytes) {
    return Fault{MissReason::malformed, "lengths beyond any entry's"};
  }
  const std::uint64_t whole = entry_header_bytes + metadata_bytes + payload_bytes;
  if (size != whole) {
    return Fault{MissReason::truncated,
                 std::to_string(size) + " bytes long instead of " + std::to_string(whole)};
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::byte> encode_entry_head(const Key& key, const Metadata& metadata,
                                         std::span<const std::byte> payload) {
  const std::string fields = encode_metadata(metadata);
  Header header{};
  std::memcpy(header.data(), magic.data(), magic.size());
  store_number(header.data() + at_version, entry_version);
  store_number(header.data() + at_header_bytes, static_cast<std::uint32_t>(entry_header_bytes));
  store_number(header.data() + at_metadata_bytes, std::uint64_t{fields.size()});
  store_number(header.data() + at_payload_bytes, std::uint64_t{payload.size()});
  put(header, at_key, key.bytes);
  put(header, at_metadata_digest, digest(as_bytes(fields)));
  put(header, at_payload_digest, digest(payload));
  put(header, at_header_digest, digest(std::span(header).first(at_header_digest)));

  std::vector<std::byte> out;
  out.reserve(header.size() + fields.size());
  out.assign(header.begin(), header.end());
  std::ranges::copy(as_bytes(fields), std::back_inserter(out));
  return out;
}

std::variant<EntryHead, Fault> read_entry_head(const ReadAt& read, std::uint64_t size,
                                               const Key* expected, std::string_view builder) {
  if (size < entry_header_bytes) {
    return Fault{MissReason::truncated, std::to_string(size) + " bytes long, less than a header"};
  }
  Header header;
  if (auto fault = read_exactly(read, 0, header)) return *std::move(fault);
  if (auto fault = check_header(header, size)) return *std::move(fault);

  std::string fields(load_number<std::uint64_t>(header.data() + at_metadata_bytes), '\0');
  if (auto fault =
          read_exactly(read, entry_header_bytes, std::as_writable_bytes(std::span(fields)))) {
    return *std::move(fault);
  }
  if (digest(as_bytes(fields)) != load_digest(header, at_metadata_digest)) {
    return Fault{MissReason::checksum, "the metadata's checksum differs"};
  }
  auto metadata = decode_metadata(fields);
  if (!metadata) return Fault{MissReason::malformed, "the metadata can't be read"};
  if (std::string wrong = check_metadata(*metadata); !wrong.empty()) {
    return Fault{MissReason::malformed, std::move(wrong)};
  }

  EntryHead head;
  head.key.bytes = load_digest(header, at_key);
  head.payload_offset = entry_header_bytes + fields.size();
  head.payload_bytes = load_number<std::uint64_t>(header.data() + at_payload_bytes);
  head.payload_digest = load_digest(header, at_payload_digest);
  head.header_digest = load_digest(header, at_header_digest);
  if (expected && head.key != *expected) {
    return Fault{MissReason::wrong_key, "holds the entry of key " + head.key.hex()};
  }
  if (!builder.empty() && metadata->builder != builder) {
    return Fault{MissReason::wrong_key, "holds the entry of builder " + metadata->builder};
  }
  head.metadata = *std::move(metadata);
  return head;
}

std::variant<std::vector<std::byte>, Fault> read_entry_payload(const ReadAt& read,
                                                               const EntryHead& head) {
  std::vector<std::byte> payload(head.payload_bytes);
  if (auto fault = read_exactly(read, head.payload_offset, payload)) return *std::move(fault);
  if (digest(payload) != head.payload_digest) {
    return Fault{MissReason::checksum, "the payload's checksum differs"};
  }
  if (std::string wrong = check_payload(head.metadata, payload.data(), payload.size());
      !wrong.empty()) {
    return Fault{MissReason::wrong_payload, std::move(wrong)};
  }
  return payload;
}

ReadAt read_from(std::span<const std::byte> bytes) {
  return [bytes](std::uint64_t offset, std::span<std::byte> out) {
    if (offset >= bytes.size()) return std::ptrdiff_t{0};
    const std::size_t count = std::min(out.size(), bytes.size() - static_cast<std::size_t>(offset));
    if (count > 0) std::memcpy(out.data(), bytes.data() + offset, count);
    return static_cast<std::ptrdiff_t>(count);
  };
}

}  // namespace tilec::cache

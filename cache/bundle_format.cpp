// A bundle's header, index and footer as bytes.
#include <array>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "bundle.h"
#include "bytes.h"

namespace tilec::cache {

namespace {

constexpr std::array<std::uint8_t, 8> magic = {0x8e, 'T', 'L', 'C', 'B', '\r', '\n', 0x1a};
constexpr std::uint32_t version = 1;
constexpr std::size_t header_bytes = 32;
constexpr std::size_t record_bytes = 112;
constexpr std::size_t footer_bytes = 64;
constexpr std::size_t builder_bytes = 64;
constexpr std::uint64_t max_records = 1'000'000;

using Header = std::array<std::byte, header_bytes>;
using RecordBytes = std::array<std::byte, record_bytes>;
using Footer = std::array<std::byte, footer_bytes>;

constexpr std::size_t at_footer_digest = 32;

Header encode_header() {
  Header out{};
  std::memcpy(out.data(), magic.data(), magic.size());
  store_number(out.data() + 8, version);
  store_number(out.data() + 12, static_cast<std::uint32_t>(header_bytes));
  return out;
}

RecordBytes encode_record(const BundleRecord& record) {
  RecordBytes out{};
  std::memcpy(out.data(), record.key.bytes.data(), 16);
  store_number(out.data() + 16, record.offset);
  store_number(out.data() + 24, record.bytes);
  std::memcpy(out.data() + 32, record.header_digest.data(), 16);
  std::memcpy(out.data() + 48, record.builder.data(),
              std::min(record.builder.size(), builder_bytes));
  return out;
}

// Over the header and all of the footer but the digest itself.
Digest footer_digest(const Header& header, const Footer& footer) {
  DigestStream stream;
  stream.add(header);
  stream.add(std::span(footer).first(at_footer_digest));
  stream.add(std::span(footer).subspan(at_footer_digest + 16));
  return stream.finish();
}

Footer encode_footer(const Header& header, std::uint64_t index_offset, std::uint64_t count,
                     const Digest& index) {
  Footer out{};
  store_number(out.data(), index_offset);
  store_number(out.data() + 8, count);
  std::memcpy(out.data() + 16, index.data(), index.size());
  std::memcpy(out.data() + 48, magic.data(), magic.size());
  store_number(out.data() + 56, version);
  const Digest whole = footer_digest(header, out);
  std::memcpy(out.data() + at_footer_digest, whole.data(), whole.size());
  return out;
}

// Nothing if the record is none of ours.
std::optional<BundleRecord> decode_record(const std::byte* at) {
  BundleRecord out;
  std::memcpy(out.key.bytes.data(), at, 16);
  out.offset = load_number<std::uint64_t>(at + 16);
  out.bytes = load_number<std::uint64_t>(at + 24);
  std::memcpy(out.header_digest.data(), at + 32, 16);
  const std::string_view name(reinterpret_cast<const char*>(at + 48), builder_bytes);
  const std::size_t end = std::min(name.find('\0'), builder_bytes);
  out.builder = name.substr(0, end);
  if (!valid_builder(out.builder) || name.find_first_not_of('\0', end) != std::string_view::npos) {
    return std::nullopt;
  }
  return out;
}

BundleIndex no_bundle(std::string fault) {
  return {{}, std::move(fault)};
}

bool read_whole(const ReadAt& read, std::uint64_t offset, std::span<std::byte> out) {
  errno = 0;
  return read(offset, out) == static_cast<std::ptrdiff_t>(out.size());
}

std::string read_fault() {
  return errno != 0 ? "reading failed: " + error_text(errno) : "it ends too early";
}

std::string check_frame(const Header& header, const Footer& footer) {
  if (std::memcmp(header.data(), magic.data(), magic.size()) != 0)
    return "the first bytes are not a bundle's";
  if (std::memcmp(footer.data() + 48, magic.data(), magic.size()) != 0) {
    return "it is truncated: the last bytes are not a bundle's";
  }
  if (std::memcmp(footer_digest(header, footer).data(), footer.data() + at_footer_digest, 16) !=
      0) {
    return "the footer's checksum differs";
  }
  if (const auto found = load_number<std::uint32_t>(header.data() + 8); found > version) {
    return "it has format " + std::to_string(found) + "; this tilec reads up to " +
           std::to_string(version);
  }
  return {};
}

// In order, without gaps or overlaps, and inside the bundle.
std::string check_layout(const std::vector<BundleRecord>& records, std::uint64_t index_offset) {
  std::uint64_t expected = header_bytes;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].offset != expected || records[i].bytes > index_offset - expected) {
      return "entry " + std::to_string(i) + " does not lie where the one before it ends";
    }
    expected += records[i].bytes;
    if (i > 0 && !(records[i - 1] < records[i]))
      return "entry " + std::to_string(i) + " is out of order";
  }
  return expected == index_offset ? std::string() : "there are bytes that belong to no entry";
}

}  // namespace

bool operator<(const BundleRecord& a, const BundleRecord& b) {
  return std::tie(a.key, a.builder) < std::tie(b.key, b.builder);
}

bool is_bundle_or_empty(const ReadAt& read) {
  std::array<std::byte, magic.size()> start{};
  const std::ptrdiff_t count = read(0, start);
  return count == 0 || (count == static_cast<std::ptrdiff_t>(start.size()) &&
                        std::memcmp(start.data(), magic.data(), magic.size()) == 0);
}

BundleIndex read_bundle_index(const ReadAt& read, std::uint64_t size) {
  if (size < header_bytes + footer_bytes) return no_bundle("it is too short for a bundle");
  Header header;
  Footer footer;
  if (!read_whole(read, 0, header) || !read_whole(read, size - footer_bytes, footer))
    return no_bundle(read_fault());
  if (std::string wrong = check_frame(header, footer); !wrong.empty())
    return no_bundle(std::move(wrong));

  const auto index_offset = load_number<std::uint64_t>(footer.data());
  const auto count = load_number<std::uint64_t>(footer.data() + 8);
  const std::uint64_t index_end = size - footer_bytes;
  if (count > max_records || index_offset < header_bytes || index_offset > index_end ||
      index_end - index_offset != count * record_bytes) {
    return no_bundle("its index does not fit its size");
  }
  std::vector<std::byte> raw(count * record_bytes);
  if (!read_whole(read, index_offset, raw)) return no_bundle(read_fault());
  if (std::memcmp(digest(raw).data(), footer.data() + 16, 16) != 0)
    return no_bundle("the index's checksum differs");

  BundleIndex out;
  out.records.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto record = decode_record(raw.data() + i * record_bytes);
    if (!record)
      return no_bundle("entry " + std::to_string(i) + " of its index names no valid builder");
    out.records.push_back(*std::move(record));
  }
  if (std::string wrong = check_layout(out.records, index_offset); !wrong.empty())
    return no_bundle(std::move(wrong));
  return out;
}

BundleWriter::BundleWriter(int file) : file_(file) {}

bool BundleWriter::write(std::span<const std::byte> bytes) {
  offset_ += bytes.size();
  return write_all(file_, bytes);
}

bool BundleWriter::begin() {
  return write(encode_header());
}

bool BundleWriter::add(BundleRecord record, std::span<const std::byte> entry) {
  if (records_.size() == max_records) {
    errno = EFBIG;
    return false;
  }
  record.offset = offset_;
  record.bytes = entry.size();
  records_.push_back(std::move(record));
  return write(entry);
}

bool BundleWriter::finish() {
  const std::uint64_t index_offset = offset_;
  DigestStream stream;
  for (const BundleRecord& record : records_) {
    const RecordBytes raw = encode_record(record);
    stream.add(raw);
    if (!write(raw)) return false;
  }
  return write(encode_footer(encode_header(), index_offset, records_.size(), stream.finish()));
}

}  // namespace tilec::cache

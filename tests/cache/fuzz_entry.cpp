// libFuzzer target: an entry's bytes as they come, and again with their checksums made right, which
// random bytes never are.
#include <cstdlib>
#include <cstring>

#include "bytes.h"
#include "entry_format.h"
#include "metadata.h"

namespace tilec::cache {
namespace {

void must(bool condition) {
  if (!condition) std::abort();
}

void read(std::span<const std::byte> bytes) {
  const ReadAt from = read_from(bytes);
  const auto head = read_entry_head(from, bytes.size(), nullptr, "");
  if (const auto* good = std::get_if<EntryHead>(&head)) {
    must(decode_metadata(encode_metadata(good->metadata)) == good->metadata);
    must(check_metadata(good->metadata).empty());
    const auto payload = read_entry_payload(from, *good);
    if (const auto* whole = std::get_if<std::vector<std::byte>>(&payload)) {
      must(whole->size() == good->payload_bytes);
      must(check_payload(good->metadata, whole->data(), whole->size()).empty());
    }
  }
}

// Header fields where FORMAT.md has them; the rest is fields and payload, split as the header says.
void make_checksums_right(std::vector<std::byte>& bytes) {
  constexpr std::size_t header = 96;
  if (bytes.size() < header) return;
  const std::size_t rest = bytes.size() - header;
  const std::size_t fields = load_number<std::uint64_t>(bytes.data() + 16) % (rest + 1);
  store_number(bytes.data() + 16, std::uint64_t{fields});
  store_number(bytes.data() + 24, std::uint64_t{rest - fields});
  const std::span all(bytes);
  const auto put = [&](std::size_t at, const Digest& value) {
    std::memcpy(bytes.data() + at, value.data(), 16);
  };
  put(48, digest(all.subspan(header, fields)));
  put(64, digest(all.subspan(header + fields)));
  put(80, digest(all.first(80)));
}

}  // namespace
}  // namespace tilec::cache

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tilec::cache;
  const auto input = std::as_bytes(std::span(data, size));
  read(input);
  static_cast<void>(decode_metadata({reinterpret_cast<const char*>(data), size}));
  std::vector<std::byte> right(input.begin(), input.end());
  make_checksums_right(right);
  read(right);
  return 0;
}

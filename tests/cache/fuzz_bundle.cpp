// libFuzzer target: a bundle's bytes as they come, and again with the checksums of index and footer
// made right. Whatever opens is read to the end.
#include <cstdlib>
#include <cstring>

#include "bundle.h"
#include "bytes.h"

namespace tilec::cache {
namespace {

constexpr std::size_t header_bytes = 32;
constexpr std::size_t footer_bytes = 64;
constexpr std::size_t record_bytes = 112;

void read(std::span<const std::byte> bytes) {
  StoreOptions options;
  options.bundles = {{.bytes = bytes, .name = "fuzz"}};
  const Store store(options);
  const VerifyReport report = store.verify(true);
  std::uint64_t good = 0;
  store.for_each({}, Depth::payload, [&](const Listed& listed) {
    const LookUp found = store.look_up(listed.key, {.require_builder = listed.metadata.builder});
    if (!listed.problem) ++good;
    if (!listed.problem && !found.entry) std::abort();
    if (found.entry && found.entry->payload.size() > bytes.size()) std::abort();
    return true;
  });
  if (good != report.good) std::abort();
}

void make_checksums_right(std::vector<std::byte>& bytes) {
  if (bytes.size() < header_bytes + footer_bytes) return;
  std::byte* footer = bytes.data() + bytes.size() - footer_bytes;
  std::memcpy(footer + 48, bytes.data(), 8);
  const std::uint64_t room = bytes.size() - header_bytes - footer_bytes;
  const std::uint64_t count = load_number<std::uint64_t>(footer + 8) % (room / record_bytes + 1);
  const std::uint64_t index_offset = bytes.size() - footer_bytes - count * record_bytes;
  store_number(footer, index_offset);
  store_number(footer + 8, count);
  const std::span all(bytes);
  const Digest index = digest(all.subspan(index_offset, count * record_bytes));
  std::memcpy(footer + 16, index.data(), 16);
  DigestStream whole;
  whole.add(all.first(header_bytes));
  whole.add(std::span(footer, 32));
  whole.add(std::span(footer + 48, 16));
  const Digest value = whole.finish();
  std::memcpy(footer + 32, value.data(), 16);
}

}  // namespace
}  // namespace tilec::cache

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tilec::cache;
  const auto input = std::as_bytes(std::span(data, size));
  if (size > 0) read(input);
  std::vector<std::byte> right(input.begin(), input.end());
  make_checksums_right(right);
  if (!right.empty()) read(right);
  return 0;
}

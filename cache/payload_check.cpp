// Is a payload what its metadata claims? Pure; reads headers only.
#include <elf.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "tilec/cache_entry.h"

namespace tilec::cache {

namespace {

constexpr unsigned machine_cuda = 190;
constexpr unsigned char abi_cuda_12 = 0x33;  // SM in the lowest byte of e_flags
constexpr unsigned char abi_cuda_13 = 0x41;  // SM in the second byte

#if defined(__x86_64__)
constexpr unsigned host_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned host_machine = EM_AARCH64;
#else
constexpr unsigned host_machine = EM_NONE;  // not checked
#endif

std::string in_quotes(std::string_view text) {
  std::string out("'");
  out += text;
  out += '\'';
  return out;
}

struct Sm {
  unsigned number;
  std::string_view suffix;  // "", "a" or "f"
};

// The part of "sm_90a" or "compute_90a" behind the prefix.
std::optional<Sm> parse_sm(std::string_view target, std::string_view prefix) {
  if (!target.starts_with(prefix)) return std::nullopt;
  target.remove_prefix(prefix.size());
  unsigned number = 0;
  const auto [end, error] = std::from_chars(target.data(), target.data() + target.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix = target.substr(static_cast<std::size_t>(end - target.data()));
  if (!suffix.empty() && suffix != "a" && suffix != "f") return std::nullopt;
  return Sm{number, suffix};
}

std::optional<Elf64_Ehdr> elf_header(const std::byte* payload, std::size_t size) {
  Elf64_Ehdr header;
  if (size < sizeof header) return std::nullopt;
  std::memcpy(&header, payload, sizeof header);
  const bool elf = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                   header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
  if (!elf) return std::nullopt;
  return header;
}

std::string check_cubin(const Metadata& metadata, const std::byte* payload, std::size_t size) {
  const auto wanted = parse_sm(metadata.target, "sm_");
  if (!wanted) return "a cubin's target is sm_NN, not " + in_quotes(metadata.target);
  const auto header = elf_header(payload, size);
  if (!header) return "not a 64-bit ELF file";
  if (header->e_machine != machine_cuda) {
    return "an ELF file for machine " + std::to_string(header->e_machine) + ", not a cubin (190)";
  }
  const unsigned char abi = header->e_ident[EI_OSABI];
  if (abi != abi_cuda_12 && abi != abi_cuda_13) {
    return "a cubin of an unknown ABI (" + std::to_string(abi) + ")";
  }
  const unsigned sm = (abi == abi_cuda_12 ? header->e_flags : header->e_flags >> 8) & 0xff;
  if (sm != wanted->number)
    return "a cubin for sm_" + std::to_string(sm) + ", not " + metadata.target;
  return {};
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\v\f");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\v\f") - first + 1);
}

std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return trimmed(line);
}

// What follows `directive` on the first line that is neither blank nor a comment.
std::optional<std::string_view> directive_value(std::string_view& text,
                                                std::string_view directive) {
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    if (line.empty() || line.starts_with("//")) continue;
    if (!line.starts_with(directive)) return std::nullopt;
    return trimmed(line.substr(directive.size()));
  }
  return std::nullopt;
}

std::string check_ptx(const Metadata& metadata, const std::byte* payload, std::size_t size) {
  const auto wanted = parse_sm(metadata.target, "compute_");
  if (!wanted) return "a ptx's target is compute_NN, not " + in_quotes(metadata.target);
  std::string_view text(reinterpret_cast<const char*>(payload), size);
  if (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  if (text.find('\0') != std::string_view::npos) return "not PTX text: it holds zero bytes";
  if (!directive_value(text, ".version ")) return "not PTX text: no .version";
  const auto target = directive_value(text, ".target ");
  if (!target) return "not PTX text: no .target";
  const std::string_view name = trimmed(target->substr(0, target->find(',')));
  const auto found = parse_sm(name, "sm_");
  if (!found || found->number != wanted->number || found->suffix != wanted->suffix) {
    return "PTX for " + std::string(name.substr(0, 32)) + ", not " + metadata.target;
  }
  return {};
}

std::string check_host(const Metadata& metadata, const std::byte* payload, std::size_t size) {
  if (!metadata.target.starts_with("host-")) {
    return "a host object's target is host-…, not " + in_quotes(metadata.target);
  }
  const auto header = elf_header(payload, size);
  if (!header) return "not a 64-bit ELF file";
  if (host_machine != EM_NONE && header->e_machine != host_machine) {
    return "an ELF file for machine " + std::to_string(header->e_machine) + ", not this one's";
  }
  return {};
}

}  // namespace

std::string check_payload(const Metadata& metadata, const std::byte* payload, std::size_t size) {
  if (metadata.kind == "cubin") return check_cubin(metadata, payload, size);
  if (metadata.kind == "ptx") return check_ptx(metadata, payload, size);
  if (metadata.kind == "host") return check_host(metadata, payload, size);
  return "unknown kind " + in_quotes(metadata.kind);
}

}  // namespace tilec::cache

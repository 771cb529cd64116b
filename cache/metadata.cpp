#include "metadata.h"

#include <charconv>
#include <cmath>

#include "bytes.h"

namespace tilec::cache {

namespace {

constexpr std::string_view parameter_prefix = "parameter:";
constexpr std::string_view note_prefix = "note:";

template <class Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

std::string signed_text(int value) {
  return std::to_string(value);
}

// A whole number of microseconds: no locale, no rounding of text.
std::uint64_t microseconds(double seconds) {
  if (!(seconds > 0)) return 0;
  return seconds > 1e9 ? std::uint64_t{1'000'000'000'000'000}
                       : static_cast<std::uint64_t>(std::llround(seconds * 1e6));
}

std::string encode_entry_point(const EntryPoint& entry) {
  FieldWriter out;
  out.add("name", entry.name);
  out.add("registers", signed_text(entry.registers));
  out.add("static_shared_bytes", signed_text(entry.static_shared_bytes));
  out.add("local_bytes", signed_text(entry.local_bytes));
  out.add("spill_store_bytes", signed_text(entry.spill_store_bytes));
  out.add("spill_load_bytes", signed_text(entry.spill_load_bytes));
  out.add("max_threads", signed_text(entry.max_threads));
  return out.str();
}

bool decode_field(EntryPoint& entry, std::string_view name, std::string_view value) {
  if (name == "name") return entry.name = value, true;
  if (name == "registers") return read_number(value, entry.registers);
  if (name == "static_shared_bytes") return read_number(value, entry.static_shared_bytes);
  if (name == "local_bytes") return read_number(value, entry.local_bytes);
  if (name == "spill_store_bytes") return read_number(value, entry.spill_store_bytes);
  if (name == "spill_load_bytes") return read_number(value, entry.spill_load_bytes);
  if (name == "max_threads") return read_number(value, entry.max_threads);
  return true;
}

template <class Value>
bool decode_fields(Value& value, std::string_view bytes);

bool decode_field(Metadata& out, std::string_view name, std::string_view value) {
  if (name == "kind") return out.kind = value, true;
  if (name == "template") return out.template_name = value, true;
  if (name == "target") return out.target = value, true;
  if (name == "builder") return out.builder = value, true;
  if (name == "least_driver") return read_number(value, out.least_driver);
  if (name == "source_bytes") return read_number(value, out.source_bytes);
  if (name == "description") return out.description = value, true;
  if (name == "log") return out.log = value, true;
  if (name == "build_microseconds") {
    std::uint64_t count = 0;
    if (!read_number(value, count)) return false;
    out.build_seconds = static_cast<double>(count) / 1e6;
    return true;
  }
  if (name == "entry") return decode_fields(out.entries.emplace_back(), value);
  if (name.starts_with(parameter_prefix)) {
    return out.parameters[std::string(name.substr(parameter_prefix.size()))] = value, true;
  }
  if (name.starts_with(note_prefix)) {
    return out.notes[std::string(name.substr(note_prefix.size()))] = value, true;
  }
  return true;
}

template <class Value>
bool decode_fields(Value& value, std::string_view bytes) {
  FieldReader reader(bytes);
  while (const auto field = reader.next()) {
    if (!decode_field(value, field->first, field->second)) return false;
  }
  return !reader.bad();
}

}  // namespace

std::string encode_metadata(const Metadata& metadata) {
  FieldWriter out;
  out.add("kind", metadata.kind);
  out.add("template", metadata.template_name);
  for (const auto& [name, value] : metadata.parameters) {
    out.add(std::string(parameter_prefix) + name, value);
  }
  out.add("target", metadata.target);
  out.add("builder", metadata.builder);
  out.add("least_driver", signed_text(metadata.least_driver));
  out.add("source_bytes", metadata.source_bytes);
  out.add("build_microseconds", microseconds(metadata.build_seconds));
  out.add("description", metadata.description);
  for (const EntryPoint& entry : metadata.entries) out.add("entry", encode_entry_point(entry));
  for (const auto& [name, value] : metadata.notes) out.add(std::string(note_prefix) + name, value);
  out.add("log", metadata.log);
  return out.str();
}

std::optional<Metadata> decode_metadata(std::string_view bytes) {
  Metadata out;
  if (!decode_fields(out, bytes)) return std::nullopt;
  return out;
}

std::string check_metadata(const Metadata& metadata) {
  if (metadata.kind != "cubin" && metadata.kind != "ptx" && metadata.kind != "host") {
    return "the kind is '" + metadata.kind + "', not cubin, ptx or host";
  }
  if (!valid_builder(metadata.builder)) {
    return "the builder '" + metadata.builder + "' can't be part of a file name";
  }
  if (metadata.target.empty()) return "the target is empty";
  return {};
}

}  // namespace tilec::cache

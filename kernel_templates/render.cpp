// render: from a template and complete parameters to the exact text that is compiled. Pure.
#include <algorithm>
#include <map>
#include <stdexcept>

#include "tilec/kernel_template.h"

namespace tilec {
namespace {

// The prologue: what the template's text takes as given.
std::string prologue(const KernelTemplate& kernel, DType T, const Parameters& parameters) {
  std::string text = "// " + kernel.name + ": T=" + std::string(info(T).name);
  if (!parameters.empty()) text += " " + describe(parameters);
  text += "\n#include \"tilec/numeric.h\"\n\n";
  text += "using T = " + std::string(info(T).device_spelling) + ";\n";
  for (const Parameter& parameter : kernel.parameters) {
    const Value& value = parameters.find(parameter.name)->second;
    if (value.is_dtype()) {
      text += "using " + parameter.name + " = " + std::string(info(value.dtype()).device_spelling) +
              ";\n";
    } else {
      text += "[[maybe_unused]] constexpr int " + parameter.name + " = " + value.text() + ";\n";
    }
  }
  return text + "\n#line 1 \"/tilec/" + kernel.name + ".cu\"\n";
}

// The name in an #include directive on this line; empty where there is none.
std::string_view included_name(std::string_view line) {
  const auto skip_blanks = [&line] {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  };
  skip_blanks();
  if (!line.starts_with('#')) return {};
  line.remove_prefix(1);
  skip_blanks();
  constexpr std::string_view kInclude = "include";
  if (!line.starts_with(kInclude)) return {};
  line.remove_prefix(kInclude.size());
  skip_blanks();
  if (line.empty() || (line.front() != '"' && line.front() != '<')) return {};
  const char close = line.front() == '"' ? '"' : '>';
  line.remove_prefix(1);
  const std::size_t end = line.find(close);
  return end == std::string_view::npos ? std::string_view() : line.substr(0, end);
}

// The user's headers come first; a name that neither of us knows is the toolkit's.
const Header* find_header(const KernelTemplate& kernel, std::string_view name) {
  for (const std::vector<Header>* headers : {&kernel.headers, &device_headers()}) {
    for (const Header& header : *headers) {
      if (header.name == name) return &header;
    }
  }
  return nullptr;
}

using FoundHeaders = std::map<std::string, const Header*>;  // null: the toolkit's

void collect_headers(const KernelTemplate& kernel, std::string_view text, FoundHeaders& found) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view name = included_name(text.substr(0, end));
    const Header* header = find_header(kernel, name);
    if (!name.empty() && found.emplace(name, header).second && header != nullptr) {
      collect_headers(kernel, header->text, found);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

Source render(const KernelTemplate& kernel, DType T, const Parameters& parameters) {
  for (const Parameter& parameter : kernel.parameters) {
    if (!parameters.contains(parameter.name)) {
      throw std::invalid_argument(kernel.name + ": parameter " + parameter.name + " has no value");
    }
  }
  if (parameters.size() != kernel.parameters.size()) {
    throw std::invalid_argument(kernel.name +
                                ": a parameter is given that it does not declare, among " +
                                describe(parameters));
  }
  Source source{.text = prologue(kernel, T, parameters) + kernel.source,
                .entry = kernel.entry_point(),
                .headers = {},
                .toolkit_headers = {}};
  FoundHeaders found;
  collect_headers(kernel, source.text, found);
  for (const auto& [name, header] : found) {
    if (header != nullptr) {
      source.headers.push_back(*header);
    } else {
      source.toolkit_headers.push_back(name);
    }
  }
  return source;
}

}  // namespace tilec

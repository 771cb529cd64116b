// render: from a template and complete parameters to the exact text that is compiled. Pure.
#include <map>
#include <stdexcept>

#include "includes.h"
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

using FoundHeaders = std::map<std::string, const Header*>;  // null: the toolkit's

void collect_headers(const KernelTemplate& kernel, std::string_view text, FoundHeaders& found) {
  for (const Include& include : includes(text)) {
    if (include.computed) continue;  // check() refuses it
    const Header* header = find_header(kernel, include.name);
    if (found.emplace(include.name, header).second && header != nullptr) {
      collect_headers(kernel, header->text, found);
    }
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

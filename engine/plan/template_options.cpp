#include "plan/template_options.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tilec/error.h"

namespace tilec {
namespace {

// Of NVRTC and of C++ compilers, without their dashes: whole, or with a value after a '=' or at once.
constexpr std::array<std::string_view, 12> kFileOptions{
    "I",       "include", "pre-include", "isystem", "iquote",       "idirafter",
    "imacros", "pch",     "create-pch",  "use-pch", "options-file", "optf"};
// Those begin like them and read nothing.
constexpr std::array<std::string_view, 1> kHarmless{"pch-messages"};

bool reads_files(std::string_view option) {
  const std::size_t start = option.find_first_not_of(" \t");
  if (start == std::string_view::npos || option[start] != '-') return false;
  option.remove_prefix(std::min(option.find_first_not_of('-', start), option.size()));
  const auto begins = [&](std::string_view name) { return option.starts_with(name); };
  return std::ranges::any_of(kFileOptions, begins) && std::ranges::none_of(kHarmless, begins);
}

}  // namespace

void expect_seen_by_key(const KernelTemplate& kernel) {
  const auto found = std::ranges::find_if(kernel.options, reads_files);
  if (found == kernel.options.end()) return;
  throw Error(ErrorKind::invalid_argument,
              fmt::format("template {} has the compiler option '{}', which brings in files that a "
                          "kernel's key does not see: a changed file would go unnoticed. Give "
                          "their text in KernelTemplate::headers, by the names that the source "
                          "includes them with",
                          kernel.name, *found));
}

}  // namespace tilec

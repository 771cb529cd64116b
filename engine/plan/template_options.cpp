#include "plan/template_options.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tilec/error.h"

namespace tilec {
namespace {

// Of NVRTC, and of C++ compilers that it may yet learn from; without their dashes and values.
constexpr std::array<std::string_view, 14> kFileOptions{
    "include-path", "include", "pre-include", "isystem", "iquote",       "idirafter", "imacros",
    "pch",          "pch-dir", "create-pch",  "use-pch", "options-file", "optf",      "I"};

bool reads_files(std::string_view option) {
  const std::size_t start = option.find_first_not_of(" \t");
  if (start == std::string_view::npos || option[start] != '-') return false;
  option.remove_prefix(start);
  if (option.starts_with("-I")) return true;  // takes its value at once
  option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
  return std::ranges::find(kFileOptions, option.substr(0, option.find_first_of("= \t"))) !=
         kFileOptions.end();
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

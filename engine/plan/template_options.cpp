#include "plan/template_options.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tilec/error.h"

namespace tilec {
namespace {

// Without dashes and values: of NVRTC, and of ptxas, which it hands options on to. What a C++ compiler
// has besides, neither takes.
constexpr std::array<std::string_view, 12> kFileOptions{
    "I",          "include-path", "include",      "pre-include", "pch",  "pch-dir",
    "create-pch", "use-pch",      "options-file", "optf",        "time", "fdevice-time-trace"};
constexpr std::array<std::string_view, 3> kTargetOptions{"gpu-architecture", "gpu-name", "arch"};
constexpr std::string_view kBlanks = " \t\n\v\f\r";

// The names of the options in one string of them: itself, and those in its value (-Xptxas=-a,-b).
std::vector<std::string_view> option_names(std::string_view option) {
  std::vector<std::string_view> names;
  option.remove_prefix(std::min(option.find_first_not_of(kBlanks), option.size()));
  if (!option.starts_with('-')) return names;
  constexpr std::string_view kEnds = "=, \t\n\v\f\r";
  while (!option.empty()) {
    const std::size_t end = std::min(option.find_first_of(kEnds), option.size());
    std::string_view word = option.substr(0, end);
    if (word.starts_with('-')) {
      const bool single = !word.starts_with("--");
      word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
      if (word.starts_with("define-macro") || (single && word.starts_with('D'))) return names;
      // -I takes its value at once.
      names.push_back(single && word.starts_with('I') ? word.substr(0, 1) : word);
    }
    option.remove_prefix(std::min(end + 1, option.size()));
  }
  return names;
}

template <std::size_t N>
const std::string* find_named(const std::vector<std::string>& options,
                              const std::array<std::string_view, N>& wanted) {
  for (const std::string& option : options) {
    for (const std::string_view name : option_names(option)) {
      if (std::ranges::find(wanted, name) != wanted.end()) return &option;
    }
  }
  return nullptr;
}

}  // namespace

void expect_seen_by_key(const KernelTemplate& kernel) {
  if (const std::string* option = find_named(kernel.options, kFileOptions)) {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("template {} has the compiler option '{}', which makes the compiler use "
                    "files that a kernel's key does not see: a changed file would go "
                    "unnoticed. Give the text of headers in KernelTemplate::headers, by the "
                    "names that the source includes them with",
                    kernel.name, *option));
  }
  if (const std::string* option = find_named(kernel.options, kTargetOptions)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("template {} has the compiler option '{}'; what a kernel is compiled "
                            "for is its device's, or Device::offline's, to say",
                            kernel.name, *option));
  }
}

}  // namespace tilec

// The list of shipped templates, and the texts embedded in the library.
#include "catalog.h"

#include <span>
#include <stdexcept>
#include <utility>

namespace tilec {

namespace embedded {
using File = std::pair<std::string_view, std::string_view>;
std::span<const File> kernel_sources();
std::span<const File> kernel_headers();
}  // namespace embedded

std::string embedded_text(std::string_view file) {
  for (const auto& [name, text] : embedded::kernel_sources()) {
    if (name == file) return std::string(text);
  }
  throw std::logic_error("no text is embedded for " + std::string(file));
}

const std::vector<KernelTemplate>& catalog() {
  static const std::vector<KernelTemplate> templates = {
      gemm_naive(),  // one thread an output
      gemm_regn(),   // register tiling along N
      add_elementwise(),
      add_tiled(),        // the tile is a thread's
      add_block_tiled(),  // the tile is a block's
  };
  return templates;
}

const std::vector<Header>& device_headers() {
  static const std::vector<Header> headers = [] {
    std::vector<Header> list;
    constexpr std::string_view kFolder = "device/";
    for (const auto& [file, text] : embedded::kernel_headers()) {
      list.push_back({std::string(file.substr(kFolder.size())), std::string(text)});
    }
    return list;
  }();
  return headers;
}

}  // namespace tilec

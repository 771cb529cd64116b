// Reads lines such as
//   ptxas info    : Compiling entry function 'gemm_regn' for 'sm_90'
//       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 40 registers, used 1 barriers, 8448 bytes smem, 632 bytes cmem[0]
#include "compile/ptxas_log.h"

#include <algorithm>
#include <charconv>

namespace tilec {
namespace {

// The number that stands right before `unit` in the line; 0 where there is none.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos || at == 0) return 0;
  std::size_t start = at;
  while (start > 0 && line[start - 1] >= '0' && line[start - 1] <= '9') --start;
  int value = 0;
  std::from_chars(line.data() + start, line.data() + at, value);
  return value;
}

std::string_view quoted_after(std::string_view line, std::string_view mark) {
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + mark.size());
  return line.substr(0, line.find('\''));
}

}  // namespace

std::vector<cache::EntryPoint> parse_ptxas_log(std::string_view log) {
  std::vector<cache::EntryPoint> entries;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (const auto name = quoted_after(line, "Compiling entry function '"); !name.empty()) {
      entries.push_back({.name = std::string(name)});
    } else if (entries.empty()) {
      continue;
    } else if (line.find("bytes stack frame") != std::string_view::npos) {
      entries.back().local_bytes = number_before(line, " bytes stack frame");
      entries.back().spill_store_bytes = number_before(line, " bytes spill stores");
      entries.back().spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (line.find(" registers") != std::string_view::npos) {
      entries.back().registers = number_before(line, " registers");
      entries.back().static_shared_bytes = number_before(line, " bytes smem");
    }
  }
  return entries;
}

}  // namespace tilec

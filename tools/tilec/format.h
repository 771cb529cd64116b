// Quantities for people. Pure, and the same in every locale.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilec::command {

std::string human_time(double seconds);        // "412 ns", "1.23 ms", "12.3 s"
std::string human_duration(double seconds);    // "35 s", "4 min", "2 h 10 min"
std::string human_bytes(std::uint64_t bytes);  // "812 B", "48.2 KiB"
std::string typed_bytes(std::uint64_t bytes);  // "49K", not smaller: as TILEC_CACHE_MAX_BYTES takes
std::string human_bound(std::uint64_t bytes);  // "at most 1.0 GiB", "no bound" for 0

// Columns, each as wide as its widest cell; numbers, by `right`, to the right.
std::string table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<bool>& right = {});

// Each line of `text` behind `indent`.
std::string indented(const std::string& text, const std::string& indent);

}  // namespace tilec::command

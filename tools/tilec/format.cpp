// Quantities for people.
#include "format.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tilec::command {
namespace {

// Characters of UTF-8 text, for the width of a column.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

std::string human_time(double seconds) {
  struct Unit {
    double seconds;
    const char* name;
  };
  for (const Unit unit : {Unit{1, "s"}, Unit{1e-3, "ms"}, Unit{1e-6, "µs"}}) {
    if (seconds >= 0.9995 * unit.seconds) {
      return fmt::format("{:.3g} {}", seconds / unit.seconds, unit.name);
    }
  }
  return fmt::format("{:.3g} ns", seconds * 1e9);
}

std::string human_duration(double seconds) {
  const auto whole = static_cast<long long>(std::max(1.0, seconds));
  if (whole < 100) return fmt::format("{} s", whole);
  const long long minutes = (whole + 30) / 60;
  if (minutes < 60) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string typed_bytes(std::uint64_t bytes) {
  std::uint64_t value = std::max<std::uint64_t>(bytes, 1);
  for (const char* unit = "KMG";; ++unit) {
    value = value / 1024 + (value % 1024 == 0 ? 0 : 1);
    if (value < 1024 || *unit == 'G') return fmt::format("{}{}", value, *unit);
  }
}

std::string human_bound(std::uint64_t bytes) {
  return bytes == 0 ? "no bound" : "at most " + human_bytes(bytes);
}

std::string table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<bool>& right) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], characters(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - characters(row[i]), ' ');
      const bool flush_right = i < right.size() && right[i];
      line += (i == 0 ? "" : "  ") + (flush_right ? blanks + row[i] : row[i] + blanks);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string indented(const std::string& text, const std::string& indent) {
  std::string out;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    out += indent + text.substr(start, end - start) + "\n";
    start = end + 1;
  }
  return out;
}

}  // namespace tilec::command

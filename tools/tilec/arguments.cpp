// Parsing words.
#include "arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "output.h"

namespace tilec::command {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text) + "'";
}

// Insertions, deletions, replacements and swaps of neighbours from one word to the other (optimal
// string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) edits[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) edits[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
      }
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::int64_t parse_integer(std::string_view text, std::string_view what, std::int64_t low,
                           std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    const std::string range = high == kMost
                                  ? "of " + std::to_string(low) + " or more"
                                  : "from " + std::to_string(low) + " to " + std::to_string(high);
    throw UsageError(std::string(what) + " = " + in_quotes(text) + " is not an integer " + range);
  }
  return value;
}

double parse_number(std::string_view text, std::string_view what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    throw UsageError(std::string(what) + " = " + in_quotes(text) +
                     " is not a number such as 2 or 0.5");
  }
  return value;
}

DType parse_type(std::string_view text) {
  const std::optional<DType> type = parse_dtype(text);
  if (!type) throw UsageError(in_quotes(text) + " is not a dtype; dtypes are " + dtype_names());
  return *type;
}

Value parse_value(std::string_view text, std::string_view what) {
  std::int64_t integer = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), integer);
  if (error == std::errc() && end == text.data() + text.size()) return Value(integer);
  if (const std::optional<DType> type = parse_dtype(text)) return Value(*type);
  throw UsageError(std::string(what) + " = " + in_quotes(text) +
                   " is neither an integer nor a dtype (" + dtype_names() + ")");
}

Parameters parse_settings(const std::vector<std::string>& settings) {
  Parameters parameters;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("--set " + in_quotes(setting) +
                       ": it should read NAME=VALUE, as in --set TILE=64");
    }
    const std::string name = setting.substr(0, equals);
    if (!parameters.emplace(name, parse_value(setting.substr(equals + 1), name)).second) {
      throw UsageError("--set " + in_quotes(setting) + ": " + name + " is set twice");
    }
  }
  return parameters;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

GemmProblem parse_gemm(std::string_view text) {
  const std::vector<std::string> words = split(text, ',');
  if (words.size() < 3 || words.size() > 4) {
    throw UsageError("--gemm " + in_quotes(text) + ": it should read M,N,K or M,N,K,dtype");
  }
  GemmProblem problem{.M = parse_integer(words[0], "M", 0, kMost),
                      .N = parse_integer(words[1], "N", 0, kMost),
                      .K = parse_integer(words[2], "K", 0, kMost)};
  if (words.size() == 4) problem.a = parse_type(words[3]);
  return problem;
}

Shape parse_shape(std::string_view text) {
  const std::vector<std::string> words = split(text, 'x');
  if (words.size() > 4) throw UsageError(in_quotes(text) + ": a shape has one to four extents");
  std::vector<std::int64_t> extents;
  for (const std::string& word : words) {
    extents.push_back(parse_integer(word, "an extent of '" + std::string(text) + "'", 0, kMost));
  }
  return Shape(extents.data(), static_cast<int>(extents.size()));
}

AddProblem parse_add(std::string_view text) {
  const std::vector<std::string> words = split(text, ',');
  if (words.size() > 2) {
    throw UsageError("--add " + in_quotes(text) +
                     ": it should read N or N,dtype, N being a length or a shape "
                     "such as 64x32");
  }
  AddProblem problem{.shape = parse_shape(words[0])};
  if (words.size() == 2) problem.dtype = parse_type(words[1]);
  return problem;
}

Shard parse_shard(std::string_view text) {
  const std::vector<std::string> words = split(text, '/');
  if (words.size() != 2) {
    throw UsageError("--shard " + in_quotes(text) +
                     ": it should read i/n, as in 1/4 for the first of four");
  }
  const std::int64_t count = parse_integer(words[1], "the n of --shard i/n", 1, 1'000'000);
  return {.index = parse_integer(words[0], "the i of --shard i/n", 1, count), .count = count};
}

std::vector<std::string> similar(std::string_view word, const std::vector<std::string>& names) {
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& name : names) {
    const std::size_t edits = distance(word, name);
    const bool begins = word.size() >= 3 && name.starts_with(word);
    if (begins || edits <= std::max<std::size_t>(1, std::min(word.size(), name.size()) / 3)) {
      near.emplace_back(begins ? 1 : edits, name);
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> best;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, near.size()); ++i)
    best.push_back(near[i].second);
  return best;
}

std::string either(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "" : (i + 1 == names.size() ? " or " : ", ");
    text += names[i];
  }
  return text;
}

}  // namespace tilec::command

// Reading JSON strictly.
#include "json_node.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <set>

namespace tilec::command {
namespace {

constexpr std::size_t kMostBytes = std::size_t{256} << 20;

// What a value is, for a person.
std::string kind_of(const Json& value) {
  if (value.is_number_integer()) return value.dump();
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string shown = text.size() <= 40 ? text : text.substr(0, 37) + "…";
  return std::string(value.type_name()) + " " + shown;
}

// nlohmann's text without its exception's number: "line 3, column 5: …".
std::string readable(const std::string& what) {
  const std::size_t start = what.find("at line ");
  return start == std::string::npos ? what : what.substr(start + 3);
}

}  // namespace

std::string read_text(const std::string& path) {
  const bool standard_input = path == "-";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> owned(
      standard_input ? nullptr : std::fopen(path.c_str(), "rbe"),
      [](std::FILE* file) { return file == nullptr ? 0 : std::fclose(file); });
  std::FILE* file = standard_input ? stdin : owned.get();
  if (file == nullptr) throw UsageError(path + ": can't be read: " + std::strerror(errno));
  std::string text;
  std::array<char, 1 << 16> block{};
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file)) {
    text.append(block.data(), got);
    if (text.size() > kMostBytes)
      throw UsageError(path + ": is over 256 MiB, too large to be read");
  }
  if (std::ferror(file) != 0) throw UsageError(path + ": can't be read: " + std::strerror(errno));
  return text;
}

Json parse_json(std::string_view text, const std::string& file) {
  std::vector<std::set<std::string>> open;
  const auto expect_single_keys = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second) {
      throw UsageError(file + ": the key '" + value.get<std::string>() +
                       "' appears twice in one object");
    }
    return true;
  };
  try {
    return Json::parse(text, expect_single_keys);
  } catch (const Json::parse_error& error) {
    throw UsageError(file + ": not valid JSON: " + readable(error.what()));
  }
}

void Node::fail(const std::string& message) const {
  throw UsageError(file_ + ": " + (path_.empty() ? "" : path_ + ": ") + message);
}

void Node::expect_keys(std::initializer_list<std::string_view> allowed) const {
  if (!is_object()) fail("an object is expected here, not " + kind_of(*value_));
  for (const auto& [key, unused] : value_->items()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    std::string names;
    for (const std::string_view name : allowed) {
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    fail("'" + key + "' is not known here; allowed: " + names);
  }
}

std::optional<Node> Node::find(std::string_view key) const {
  const auto found = value_->find(std::string(key));
  if (found == value_->end()) return std::nullopt;
  return Node(*found, file_, path_ + (path_.empty() ? "" : ".") + std::string(key));
}

Node Node::at(std::string_view key) const {
  std::optional<Node> found = find(key);
  if (!found) fail("'" + std::string(key) + "' is missing");
  return *found;
}

std::vector<Node> Node::items() const {
  if (!is_array()) return {*this};
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < value_->size(); ++i) {
    nodes.emplace_back((*value_)[i], file_, path_ + "[" + std::to_string(i) + "]");
  }
  return nodes;
}

std::int64_t Node::integer(std::int64_t low, std::int64_t high) const {
  const bool too_large = value_->is_number_unsigned() &&
                         value_->get<std::uint64_t>() >
                             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool integral = value_->is_number_integer() && !too_large;
  if (!integral || value_->get<std::int64_t>() < low || value_->get<std::int64_t>() > high) {
    const bool bounded = high != std::numeric_limits<std::int64_t>::max();
    fail("an integer " +
         (bounded ? "from " + std::to_string(low) + " to " + std::to_string(high)
                  : "of " + std::to_string(low) + " or more") +
         " is expected here, not " + kind_of(*value_));
  }
  return value_->get<std::int64_t>();
}

double Node::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) {
    fail("a number is expected here, not " + kind_of(*value_));
  }
  return value_->get<double>();
}

bool Node::boolean() const {
  if (!value_->is_boolean()) fail("true or false is expected here, not " + kind_of(*value_));
  return value_->get<bool>();
}

std::string Node::string() const {
  if (!is_string()) fail("a string is expected here, not " + kind_of(*value_));
  return value_->get<std::string>();
}

}  // namespace tilec::command

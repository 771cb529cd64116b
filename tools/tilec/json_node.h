// Strict reading of JSON documents that people write: every complaint names the file, the place in
// the document and what is allowed there. Values; a Node refers into a document that must outlive
// it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output.h"

namespace tilec::command {

// The text of a file, or of the standard input for "-". Throws UsageError if it can't be read or is
// over 256 MiB.
std::string read_text(const std::string& path);

// Throws UsageError, with line and column, for what is no JSON, and for an object with a key twice.
Json parse_json(std::string_view text, const std::string& file);

class Node {
 public:
  Node(const Json& value, std::string file, std::string path = {})
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  const Json& value() const { return *value_; }
  bool is_object() const { return value_->is_object(); }
  bool is_array() const { return value_->is_array(); }
  bool is_string() const { return value_->is_string(); }

  // Each throws UsageError where the value is of another kind or has what is not allowed.
  void expect_keys(
      std::initializer_list<std::string_view> allowed) const;  // an object of only these
  std::optional<Node> find(std::string_view key) const;
  Node at(std::string_view key) const;
  std::vector<Node> items() const;  // of an array; any other value is its own only item
  std::int64_t integer(std::int64_t low, std::int64_t high) const;
  double number() const;
  bool boolean() const;
  std::string string() const;

  // "manifest.json: problems[2].K: …"
  [[noreturn]] void fail(const std::string& message) const;

 private:
  const Json* value_;
  std::string file_;
  std::string path_;
};

}  // namespace tilec::command

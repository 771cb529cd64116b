// What a subcommand says and how: results on stdout, as text or as one JSON document; failures as
// one line on stderr. No state.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "tilec/error.h"

namespace tilec::command {

using Json = nlohmann::ordered_json;

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// What was typed, or a document it names, can't be right: exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What was asked for could not be done: exit status 1.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& message, std::string kind = "failure")
      : std::runtime_error(message), kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

// The {"kind", "message", "exit_status"[, "log"]} of an exception.
Json error_json(const std::exception_ptr& error);
int exit_status(const std::exception_ptr& error);

// "tilec: …" and, below it, a compiler's log. Control characters in the message are made visible.
void print_error(const std::exception_ptr& error);
void print_warning(const std::string& message);

// One JSON document and a newline. Bytes that are no UTF-8 are replaced. These throw Failure where
// stdout does not take it (a full disk, a file-size limit).
void print_json(const Json& document);
void print_text(const std::string& text);
void flush_results();  // of what else was printed

}  // namespace tilec::command

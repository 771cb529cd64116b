// Printing, and what exceptions become.
#include "output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace tilec::command {
namespace {

// One line: what a file name or an argument may smuggle in is shown as \xNN.
std::string one_line(const std::string& message) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string line;
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += ' ';
    } else if (byte < 0x20 || byte == 0x7f) {
      line += "\\x";
      line += kDigits[byte >> 4];
      line += kDigits[byte & 15];
    } else {
      line += c;
    }
  }
  return line;
}

struct Described {
  std::string kind;
  std::string message;
  std::string log;
  int status = kExitFailure;
};

Described describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UsageError& e) {
    return {"usage", e.what(), {}, kExitUsage};
  } catch (const Failure& e) {
    return {e.kind(), e.what(), {}, kExitFailure};
  } catch (const Error& e) {
    const bool usage = e.kind() == ErrorKind::invalid_argument;
    return {std::string(to_string(e.kind())), e.what(), e.log(), usage ? kExitUsage : kExitFailure};
  } catch (const std::invalid_argument& e) {
    return {"invalid_argument", e.what(), {}, kExitUsage};
  } catch (const std::bad_alloc&) {
    return {"memory", "this machine has not enough memory for it; try a smaller problem", {}, 1};
  } catch (const std::exception& e) {
    return {"internal", e.what(), {}, kExitFailure};
  }
}

}  // namespace

Json error_json(const std::exception_ptr& error) {
  const Described described = describe(error);
  Json json{
      {"kind", described.kind}, {"message", described.message}, {"exit_status", described.status}};
  if (!described.log.empty()) json["log"] = described.log;
  return json;
}

int exit_status(const std::exception_ptr& error) {
  return describe(error).status;
}

void print_error(const std::exception_ptr& error) {
  const Described described = describe(error);
  const std::string line = "tilec: " + one_line(described.message) + "\n";
  std::fputs(line.c_str(), stderr);
  if (described.log.empty()) return;
  std::fputs(described.log.c_str(), stderr);
  if (described.log.back() != '\n') std::fputc('\n', stderr);
}

void print_warning(const std::string& message) {
  const std::string line = "tilec: " + one_line(message) + "\n";
  std::fputs(line.c_str(), stderr);
}

void print_json(const Json& document) {
  print_text(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void print_text(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  flush_results();
}

void flush_results() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  const int error = errno;
  throw Failure(std::string("the results could not be written to the standard output: ") +
                std::strerror(error));
}

}  // namespace tilec::command

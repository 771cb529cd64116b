#include "includes.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>

namespace tilec {
namespace {

constexpr std::string_view kBlanks = " \t\v\f\r";

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Without the ends of lines that a backslash takes away. Compilers differ over blanks between the two:
// NVRTC minds them, GCC does not.
std::string spliced(std::string_view text, bool mind_blanks) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t mark = std::min(text.find('\\'), text.size());
    std::size_t end = std::min(mark + 1, text.size());
    if (!mind_blanks)
      end = text.find_first_not_of(kBlanks, end);
    else if (text.substr(end).starts_with("\r\n"))
      ++end;
    const bool splice = end < text.size() && text[end] == '\n';
    out.append(text.substr(0, splice ? mark : mark + 1));
    text.remove_prefix(std::min(splice ? end + 1 : mark + 1, text.size()));
  }
  return out;
}

// Where the raw string literal ends whose R stands at `start`; `start` itself where there is none.
std::size_t end_of_raw_string(std::string_view text, std::size_t start) {
  if (!text.substr(start).starts_with("R\"")) return start;
  std::size_t word = start;
  while (word > 0 && is_word(text[word - 1])) --word;
  const std::string_view prefix = text.substr(word, start - word);
  if (!prefix.empty() && prefix != "u8" && prefix != "u" && prefix != "U" && prefix != "L") {
    return start;
  }
  const std::size_t open = text.find('(', start);
  if (open == std::string_view::npos) return start;
  const std::string close = ")" + std::string(text.substr(start + 2, open - start - 2)) + "\"";
  const std::size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

// Where the literal ends that begins with the quote at `start`: behind its other quote, or with its
// line.
std::size_t end_of_literal(std::string_view text, std::size_t start) {
  for (std::size_t i = start + 1; i < text.size(); ++i) {
    if (text[i] == text[start]) return i + 1;
    if (text[i] == '\n') return i;
    if (text[i] == '\\') ++i;
  }
  return text.size();
}

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// A line that brings in a file: "#include <a.h>", "include" and "<a.h>". All empty for another line.
struct Directive {
  std::string_view whole, word, rest;
};

Directive directive(std::string_view line) {
  line = without_blanks(line);
  const std::size_t mark = line.starts_with('#') ? 1 : line.starts_with("%:") ? 2 : 0;
  if (mark == 0) return {};
  const std::string_view behind = without_blanks(line.substr(mark));
  const auto length =
      static_cast<std::size_t>(std::ranges::find_if_not(behind, is_word) - behind.begin());
  const std::string_view word = behind.substr(0, length);
  if (word != "include" && word != "include_next" && word != "import" && word != "embed") return {};
  return {line, word, without_blanks(behind.substr(length))};
}

// Whether the quote at `at` parts the digits of a number.
bool is_separator(std::string_view text, std::size_t at) {
  std::size_t start = at;
  while (start > 0 && (is_word(text[start - 1]) || text[start - 1] == '\'')) --start;
  return start < at && std::isdigit(static_cast<unsigned char>(text[start])) != 0;
}

// With a blank for each comment and raw string.
std::string plain(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t kept = 0;  // up to here is copied, or left out
  const auto leave_out = [&](std::size_t start, std::size_t end) {
    out.append(text.substr(kept, start - kept)).append(" ");
    kept = end;
    return end;
  };
  const auto end_at = [&](std::size_t found, std::size_t behind) {
    return found == std::string_view::npos ? text.size() : found + behind;
  };
  // Of an #include's name, in which nothing begins a comment.
  const auto in_brackets = [&](std::size_t at) {
    std::size_t start = text.substr(0, at).rfind('\n') + 1;
    if (text.substr(start, at - start).find('<') == std::string_view::npos) return false;
    std::string line;
    if (start < kept) {  // a comment of this line is left out
      line = out.substr(out.rfind('\n') + 1);
      start = std::max(start, kept);
    }
    line.append(text.substr(start, at - start));
    const std::string_view name = directive(line).rest;
    return name.starts_with('<') && name.find('>') == std::string_view::npos;
  };
  const auto may_begin_one = [](char c) { return c == '/' || c == '"' || c == '\'' || c == 'R'; };
  for (std::size_t i = 0;;) {
    i = static_cast<std::size_t>(
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(i), text.end(), may_begin_one) -
        text.begin());
    if (i == text.size()) break;
    const std::string_view rest = text.substr(i);
    if (in_brackets(i)) {
      i = std::min(text.find_first_of(">\n", i), text.size());
    } else if (rest.starts_with("//")) {
      i = leave_out(i, end_at(text.find('\n', i), 0));
    } else if (rest.starts_with("/*")) {
      i = leave_out(i, end_at(text.find("*/", i + 2), 2));
    } else if (const std::size_t raw = end_of_raw_string(text, i); raw != i) {
      i = leave_out(i, raw);
    } else if (text[i] == '"' || (text[i] == '\'' && !is_separator(text, i))) {
      i = end_of_literal(text, i);
    } else {
      ++i;
    }
  }
  return out.append(text.substr(std::min(kept, text.size())));
}

// The name in quotes or brackets that the text begins with; empty where it begins otherwise.
std::string quoted_name(std::string_view text) {
  if (!text.starts_with('"') && !text.starts_with('<')) return {};
  const std::size_t close = text.find(text.front() == '"' ? '"' : '>', 1);
  return std::string(close == text.npos ? std::string_view() : text.substr(1, close - 1));
}

Include include_of(std::string_view whole, std::string_view what, bool readable) {
  std::string name = quoted_name(what);
  if (readable && !name.empty()) return {.name = std::move(name)};
  return {.name = std::string(whole), .computed = true};
}

// Of a text without splices and comments.
std::vector<Include> includes_of(std::string_view text) {
  std::vector<Include> found;
  constexpr std::string_view kAsk = "__has_include";
  for (std::size_t at = text.find(kAsk); at != text.npos; at = text.find(kAsk, at + 1)) {
    std::string_view what = text.substr(at + kAsk.size());
    what = what.substr(0, what.find('\n'));
    if (what.starts_with("_next")) what.remove_prefix(5);
    what = without_blanks(what);
    if (!what.starts_with('(')) continue;
    found.push_back(include_of(text.substr(at, kAsk.size()), without_blanks(what.substr(1)), true));
  }
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto [whole, word, rest] = directive(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (whole.empty()) continue;
    found.push_back(include_of(whole, rest, word != "embed"));
  }
  return found;
}

}  // namespace

std::vector<Include> includes(std::string_view text) {
  const std::string all = plain(spliced(text, true));
  std::vector<Include> found = includes_of(all);
  if (text.find('\\') == std::string_view::npos) return found;
  if (const std::string other = plain(spliced(text, false)); other != all) {
    std::ranges::move(includes_of(other), std::back_inserter(found));
  }
  return found;
}

const Header* find_header(const KernelTemplate& kernel, std::string_view name) {
  for (const std::vector<Header>* headers : {&kernel.headers, &device_headers()}) {
    for (const Header& header : *headers) {
      if (header.name == name) return &header;
    }
  }
  return nullptr;
}

std::string unseen_include(const KernelTemplate& kernel) {
  std::vector<Include> all = includes(kernel.source);
  for (const Header& header : kernel.headers)
    std::ranges::move(includes(header.text), std::back_inserter(all));
  for (const Include& include : all) {
    if (include.computed) {
      return "it has `" + include.name +
             "`: which file that is, only the compiler can tell, and a kernel's key does not see "
             "its text. Write the name out, and give the text in KernelTemplate::headers";
    }
    const std::filesystem::path name(include.name);
    const bool leaves = name.is_absolute() || std::ranges::find(name, "..") != name.end();
    if (!leaves || find_header(kernel, include.name) != nullptr) continue;
    return "it includes '" + include.name +
           "', a file whose text a kernel's key does not see: a changed one would go unnoticed. "
           "Give its text in KernelTemplate::headers, by that name";
  }
  return {};
}

}  // namespace tilec

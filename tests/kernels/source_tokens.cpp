#include "tests/kernels/source_tokens.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tilec::test {
namespace {

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool blank(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

class Reader {
 public:
  Reader(std::string_view source, std::size_t first, std::size_t last)
      : source_(source), at_(first), last_(std::min(last, source.size())) {}

  std::vector<Token> all() {
    while (skip_unread()) {
      Token token{kind(), {}, at_};
      token.text = source_.substr(at_, length());
      if (token.kind == TokenKind::other) token.kind = kind_of_operator(token);
      at_ = token.end();
      if (token.is("__launch_bounds__")) {
        skip_parentheses();
      } else {
        tokens_.push_back(token);
      }
    }
    return tokens_;
  }

 private:
  bool starts(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  bool at_line_start() const {
    const std::size_t before = source_.find_last_not_of(" \t", at_ - 1);
    return at_ == 0 || before == std::string_view::npos || source_[before] == '\n';
  }

  // To the next token; false at the end.
  bool skip_unread() {
    while (at_ < last_) {
      if (blank(source_[at_])) {
        ++at_;
      } else if (starts("//") || (starts("#") && at_line_start())) {
        at_ = std::min(source_.find('\n', at_), last_);
      } else {
        return true;
      }
    }
    return false;
  }

  void skip_parentheses() {
    int depth = 0;
    do {
      if (source_[at_] == '(') ++depth;
      if (source_[at_] == ')') --depth;
      ++at_;
    } while (depth > 0 && at_ < last_);
  }

  TokenKind kind() const {
    const char c = source_[at_];
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return TokenKind::number;
    if (in_word(c)) return TokenKind::word;
    if (c == '(' || c == '[' || c == '{') return TokenKind::open;
    if (c == ')' || c == ']' || c == '}') return TokenKind::close;
    return TokenKind::other;
  }

  std::size_t length() const {
    if (in_word(source_[at_])) {
      std::size_t end = at_;
      while (end < last_ && in_word(source_[end])) ++end;
      return end - at_;
    }
    if (source_[at_] == '"') return source_.find('"', at_ + 1) + 1 - at_;
    constexpr std::array<std::string_view, 12> kLong{
        "::", "->", "&&", "||", "<=", ">=", "==", "!=", "+=", "-=", "++", "--"};
    return std::ranges::any_of(kLong, [&](std::string_view text) { return starts(text); }) ? 2 : 1;
  }

  TokenKind kind_of_operator(const Token& token) {
    const bool spaced = token.begin > 0 && blank(source_[token.begin - 1]) &&
                        token.end() < source_.size() && blank(source_[token.end()]);
    if (token.is("<") && (!spaced || (!tokens_.empty() && tokens_.back().is("template")))) {
      ++angles_;
      return TokenKind::open;
    }
    if (token.is(">") && angles_ > 0 &&
        !(spaced && source_[token.begin - 1] == ' ' && tokens_.back().kind == TokenKind::number)) {
      --angles_;
      return TokenKind::close;
    }
    return spaced ? TokenKind::binary : TokenKind::other;
  }

  std::string_view source_;
  std::size_t at_, last_;
  int angles_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens(std::string_view source, std::size_t first, std::size_t last) {
  return Reader(source, first, last).all();
}

}  // namespace tilec::test

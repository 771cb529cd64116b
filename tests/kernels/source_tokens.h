// The tokens of a kernel's source text, as far as mutation needs to tell them apart. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::test {

enum class TokenKind { word, number, open, close, binary, other };

struct Token {
  TokenKind kind;
  std::string_view text;
  std::size_t begin;

  std::size_t end() const { return begin + text.size(); }
  bool is(std::string_view what) const { return text == what; }
};

// Of source[first, last), without comments, preprocessor lines and __launch_bounds__(…). The angle
// brackets of templates are open and close; an operator with blanks on both sides is binary.
std::vector<Token> tokens(std::string_view source, std::size_t first, std::size_t last);

}  // namespace tilec::test

// Alters a kernel's source text in one place at a time: statements and barriers removed, conditions
// fixed, conjuncts, terms and factors dropped, comparisons, constants, steps, subscripts and names
// shifted. Works on text formatted by clang-format. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::test {

struct Mutant {
  int line;          // of the change, from 1
  std::string was;   // the line or lines changed, without their indentation
  std::string is;    // the same after the change
  std::string text;  // the whole
};

// The mutants of text[first, last), each once. Comments, preprocessor lines, launch bounds and the
// extents of array declarations are left alone.
std::vector<Mutant> mutants(const std::string& text, std::size_t first = 0,
                            std::size_t last = std::string::npos);

}  // namespace tilec::test

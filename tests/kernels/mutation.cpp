#include "tests/kernels/mutation.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tests/kernels/source_tokens.h"

namespace tilec::test {
namespace {

using Words = std::vector<std::string_view>;

// What an operand of an operator ends at, outside of brackets: operators that bind no tighter.
const Words kLoosest = {"?", ":", "=", "+=", "-=", ",", ";", "return"};
const Words kLogical = {"&&", "||"};
const Words kRelations = {"<", "<=", ">", ">=", "==", "!=", "|"};
const Words kSums = {"+", "-"};
const Words kProducts = {"*", "/", "%"};

Words joined(std::initializer_list<const Words*> lists) {
  Words all;
  for (const Words* list : lists) all.insert(all.end(), list->begin(), list->end());
  return all;
}

bool among(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

const std::map<std::string_view, std::string_view> kShiftedComparison = {
    {"<", "<="}, {"<=", "<"}, {">", ">="}, {">=", ">"}, {"==", "!="}, {"!=", "=="}};

// A name and the one to take instead: behind a dot, and by itself.
const std::map<std::string_view, std::string_view> kOtherMember = {
    {"x", "y"},     {"y", "x"},     {"z", "y"},     {"M", "N"},        {"N", "K"},       {"K", "M"},
    {"lda", "ldb"}, {"ldb", "ldc"}, {"ldc", "ldd"}, {"ldd", "lda"},    {"a", "b"},       {"b", "a"},
    {"c", "d"},     {"d", "c"},     {"out", "a"},   {"alpha", "beta"}, {"beta", "alpha"}};
const std::map<std::string_view, std::string_view> kOtherName = {{"tx", "ty"},
                                                                 {"ty", "tx"},
                                                                 {"row", "block_row"},
                                                                 {"block_row", "block_col"},
                                                                 {"col", "row"},
                                                                 {"col0", "block_col"},
                                                                 {"block_col", "block_row"},
                                                                 {"k0", "row"},
                                                                 {"kk", "j"},
                                                                 {"j", "kk"},
                                                                 {"k", "row"},
                                                                 {"M", "N"},
                                                                 {"N", "K"},
                                                                 {"K", "M"},
                                                                 {"A", "B"},
                                                                 {"B", "A"},
                                                                 {"As", "Bs"},
                                                                 {"Bs", "As"},
                                                                 {"C", "D"},
                                                                 {"a", "b"},
                                                                 {"b", "a"},
                                                                 {"x", "y"},
                                                                 {"y", "x"},
                                                                 {"alpha", "beta"},
                                                                 {"beta", "alpha"},
                                                                 {"u", "lane"},
                                                                 {"start", "t"},
                                                                 {"blockIdx", "threadIdx"},
                                                                 {"threadIdx", "blockIdx"},
                                                                 {"gridDim", "blockDim"}};

class Mutator {
 public:
  Mutator(const std::string& text, std::size_t first, std::size_t last)
      : text_(text), tokens_(tokens(text, first, last)) {}

  std::vector<Mutant> all() {
    int parentheses = 0;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (token(i).is("(")) ++parentheses;
      if (token(i).is(")")) --parentheses;
      if (parentheses == 0) remove_statement(i);
      fix_condition(i);
      drop_operands(i);
      shift(i);
      rename(i);
    }
    return std::move(mutants_);
  }

 private:
  const Token& token(std::size_t i) const { return tokens_[i]; }
  bool at(std::size_t i, std::string_view what) const {
    return i < tokens_.size() && tokens_[i].is(what);
  }

  // --- places -----------------------------------------------------------------------------------

  // The token that closes the bracket opened at i.
  std::size_t closing(std::size_t i) const {
    int depth = 0;
    for (; i < tokens_.size(); ++i) {
      if (token(i).kind == TokenKind::open) ++depth;
      if (token(i).kind == TokenKind::close && --depth == 0) return i;
    }
    return tokens_.size();
  }

  bool ends(const Words& stops, std::size_t i) const {
    const bool bracket = token(i).kind == TokenKind::open || token(i).kind == TokenKind::close;
    return !bracket && among(stops, token(i).text);
  }

  // The last token of the operand behind the operator at i, and the first of the one before it.
  std::size_t right_end(std::size_t i, const Words& stops) const {
    int depth = 0;
    for (std::size_t at = i + 1; at < tokens_.size(); ++at) {
      if (token(at).kind == TokenKind::open) ++depth;
      if (token(at).kind == TokenKind::close && --depth < 0) return at - 1;
      if (depth == 0 && ends(stops, at)) return at - 1;
    }
    return tokens_.size() - 1;
  }
  std::size_t left_begin(std::size_t i, const Words& stops) const {
    int depth = 0;
    for (std::size_t at = i; at-- > 0;) {
      if (token(at).kind == TokenKind::close) ++depth;
      if (token(at).kind == TokenKind::open && --depth < 0) return at + 1;
      if (depth == 0 && ends(stops, at)) return at + 1;
    }
    return 0;
  }

  // --- operators --------------------------------------------------------------------------------

  // Statements that declare nothing: barriers, assignments, calls, returns and breaks.
  void remove_statement(std::size_t i) {
    static const Words kNot = {"const",  "constexpr", "using", "template", "extern",
                               "struct", "for",       "if",    "else",     "auto"};
    const bool starts = i == 0 || at(i - 1, ";") || at(i - 1, "{") || at(i - 1, "}") ||
                        at(i - 1, "else") || (at(i - 1, ")") && token(i).kind == TokenKind::word);
    if (!starts || token(i).kind != TokenKind::word || among(kNot, token(i).text)) return;
    int depth = 0;
    std::size_t end = i;
    for (; end < tokens_.size() && (depth > 0 || !at(end, ";")); ++end) {
      if (token(end).kind == TokenKind::open) ++depth;
      if (token(end).kind == TokenKind::close && --depth < 0) return;
      const bool declares = depth == 0 && end > i && token(end).kind == TokenKind::word &&
                            token(end - 1).kind == TokenKind::word && !at(i, "return");
      if (declares) return;
    }
    // Without its value, a function has no meaning at all.
    if (at(i, "return") && end > i + 1) return;
    if (end < tokens_.size()) replace(token(i).begin, token(end).begin, "");
  }

  void fix_condition(std::size_t i) {
    std::size_t first = i, last = i;
    if (token(i).is("if") && at(i + 1, "(")) {
      first = i + 2;
      last = closing(i + 1) - 1;
    } else if (token(i).is("?")) {
      first = left_begin(i, kLoosest);
      last = i - 1;
    } else {
      return;
    }
    for (const char* fixed : {"true", "false"}) {
      replace(token(first).begin, token(last).end(), fixed);
    }
  }

  void drop_operands(std::size_t i) {
    static const Words kLogicalStops = joined({&kLoosest, &kLogical});
    static const Words kBitStops = joined({&kLogicalStops, &kRelations});
    static const Words kSumStops = joined({&kBitStops, &kSums});
    static const Words kProductStops = joined({&kSumStops, &kProducts});
    if (token(i).kind != TokenKind::binary) return;
    const Words* stops = nullptr;
    if (among(kLogical, token(i).text)) stops = &kLogicalStops;
    if (token(i).is("|")) stops = &kBitStops;
    if (among(kSums, token(i).text)) stops = &kSumStops;
    if (among(kProducts, token(i).text)) stops = &kProductStops;
    if (stops == nullptr) return;
    replace(token(left_begin(i, *stops)).begin, token(i + 1).begin, "");
    replace(token(i - 1).end(), token(right_end(i, *stops)).end(), "");
  }

  // By one: comparisons, constants, steps, subscripts.
  void shift(std::size_t i) {
    const Token& here = token(i);
    const auto comparison = kShiftedComparison.find(here.text);
    if (here.kind == TokenKind::binary && comparison != kShiftedComparison.end()) {
      replace(here.begin, here.end(), std::string(comparison->second));
    }
    if (here.is("+") && here.kind == TokenKind::binary) replace(here.begin, here.end(), "-");
    if (here.kind == TokenKind::number) {
      replace(here.begin, here.end(), std::to_string(std::stoi(std::string(here.text)) + 1));
    }
    if (here.is("++") && i + 1 < tokens_.size()) {
      replace(here.begin, token(i + 1).end(), std::string(token(i + 1).text) + " += 2");
    }
    if (here.is("+=")) {
      const std::size_t end = token(right_end(i, kLoosest)).end();
      replace(end, end, " + 1");
    }
    if (here.is("[") && !declares_array(i)) {
      const std::size_t end = token(closing(i)).begin;
      replace(end, end, " + 1");
      replace(end, end, " - 1");
    }
  }

  // `acc[TN]` in `ACC acc[TN];`, `y[N]` in `V x[N], y[N];`: nothing before has named it.
  bool declares_array(std::size_t bracket) const {
    if (bracket == 0 || token(bracket - 1).kind != TokenKind::word) return false;
    for (std::size_t i = 0; i + 1 < bracket; ++i) {
      const bool member = i > 0 && at(i - 1, ".");
      if (!member && token(i).is(token(bracket - 1).text)) return false;
    }
    return true;
  }

  void rename(std::size_t i) {
    const bool member = i > 0 && at(i - 1, ".");
    const bool declared = at(i + 1, "=") && i > 0 && !at(i - 1, ";") && !at(i - 1, ")");
    const bool parameter =
        i > 0 && (at(i - 1, "*") || at(i - 1, "&")) && token(i - 1).kind != TokenKind::binary;
    if (token(i).kind != TokenKind::word || (!member && (declared || parameter))) return;
    const auto& names = member ? kOtherMember : kOtherName;
    const auto other = names.find(token(i).text);
    const auto known = [&](const Token& one) { return one.is(other->second); };
    if (other == names.end() || std::ranges::none_of(tokens_, known)) return;
    replace(token(i).begin, token(i).end(), std::string(other->second));
  }

  // --- result -----------------------------------------------------------------------------------

  // Without comments and surplus blanks.
  static std::string trimmed(std::string_view lines) {
    std::string text;
    bool between = false;  // words, in blanks
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const char c = lines[i];
      if (lines.substr(i).starts_with("//")) {
        i = std::min(lines.find('\n', i), lines.size()) - 1;
        continue;
      }
      if (c == ' ' || c == '\n') {
        between = !text.empty();
        continue;
      }
      if (between) text += ' ';
      between = false;
      text += c;
    }
    return text;
  }

  void replace(std::size_t begin, std::size_t end, const std::string& by) {
    std::string changed = text_.substr(0, begin) + by + text_.substr(end);
    if (changed == text_ || !seen_.insert(changed).second) return;
    const std::size_t before = begin == 0 ? std::string::npos : text_.rfind('\n', begin - 1);
    const std::size_t first = before == std::string::npos ? 0 : before + 1;
    const std::size_t last = std::min(text_.find('\n', end), text_.size());
    const std::size_t last_changed = last - end + begin + by.size();
    mutants_.push_back(
        {.line = 1 + static_cast<int>(std::count(
                         text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(begin), '\n')),
         .was = trimmed(std::string_view(text_).substr(first, last - first)),
         .is = trimmed(std::string_view(changed).substr(first, last_changed - first)),
         .text = std::move(changed)});
  }

  const std::string& text_;
  std::vector<Token> tokens_;
  std::set<std::string> seen_;
  std::vector<Mutant> mutants_;
};

}  // namespace

std::vector<Mutant> mutants(const std::string& text, std::size_t first, std::size_t last) {
  return Mutator(text, first, last).all();
}

}  // namespace tilec::test

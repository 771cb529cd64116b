// The mutator itself: which alterations it makes of small texts.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/kernels/mutation.h"

namespace tilec::test {
namespace {

std::vector<std::string> changes(const std::string& text) {
  std::vector<std::string> list;
  for (const Mutant& mutant : mutants(text)) list.push_back(mutant.is);
  return list;
}

TEST_SUITE("cpu") {
  TEST_CASE("mutation: one change at a time") {
    const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
        {"__syncthreads();", {";"}},
        {"int t;", {}},
        {"f(args);  // a - b", {";"}},
        {"if (p < 9) return;",
         {"if (true) return;", "if (false) return;", "if (p <= 9) return;", "if (p < 10) return;",
          "if (p < 9) ;"}},
        {"const int r = p && q;", {"const int r = q;", "const int r = p;"}},
        {"const int r = f(p + q * r, s);",
         {"const int r = f(q * r, s);", "const int r = f(p, s);", "const int r = f(p - q * r, s);",
          "const int r = f(p + r, s);", "const int r = f(p + q, s);"}},
        {"const V v = static_cast<const V*>(p)[i];",
         {"const V v = static_cast<const V*>(p)[i + 1];",
          "const V v = static_cast<const V*>(p)[i - 1];"}},
        {"const long long r = z * static_cast<long long>(g.w);",
         {"const long long r = static_cast<long long>(g.w);", "const long long r = z;"}},
        {"const int r = p == q ? s : t;",
         {"const int r = p != q ? s : t;", "const int r = true ? s : t;",
          "const int r = false ? s : t;"}},
        {"V r[N];", {}},
        {"const T r = p.lda;\nconst T q = p.ldb;", {"const T r = p.ldb;"}},
        {"#pragma unroll\n__launch_bounds__(p + q)", {}},
        {"for (; i < n; ++i) r;",
         {"for (; i <= n; ++i) r;", "for (; i < n; i += 2) r;", "for (; i < n; ++i) ;"}},
        {"p += q;", {";", "p += q + 1;"}},
    };
    for (const auto& [text, expected] : table) {
      CAPTURE(text);
      std::vector<std::string> made = changes(text);
      CHECK(made == expected);
    }
  }

  TEST_CASE("mutation: lines and ranges") {
    const std::string text = "first();\n  second(\n      p + q);\nthird();\n";
    const std::vector<Mutant> all = mutants(text);
    REQUIRE(all.size() == 6);
    CHECK(all[1].line == 2);
    CHECK(all[1].was == "second( p + q);");
    CHECK(all[1].is == ";");
    CHECK(all[1].text == "first();\n  ;\nthird();\n");
    CHECK(mutants(text, 0, 9).size() == 1);
    CHECK(mutants(text, 9, 34).size() == 4);
  }
}

}  // namespace
}  // namespace tilec::test

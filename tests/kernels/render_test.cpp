// render: the headers a source reaches, what it needs of its parameters, purity. The text itself is
// in golden_test.cpp.
#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "tests/kernels/fixture_template.h"

namespace tilec::test {
namespace {

Source rendered(KernelTemplate kernel) {
  return render(kernel, f32, complete(kernel, f32, {}, Target::parse("sm_90")));
}

std::vector<std::string> names(const std::vector<Header>& headers) {
  std::vector<std::string> list;
  for (const Header& header : headers) list.push_back(header.name);
  return list;
}

// A template of that text, with those headers of its own.
KernelTemplate with(const std::string& source, std::vector<Header> headers = {}) {
  KernelTemplate kernel = fixture_template();
  kernel.source = source;
  kernel.headers = std::move(headers);
  return kernel;
}

const std::string kOurs = "tilec/numeric.h";  // every prologue includes it

TEST_SUITE("cpu") {
  TEST_CASE("render: headers, transitively, the user's before ours, the toolkit's by name") {
    const Source source = rendered(fixture_template());
    CHECK(names(source.headers) ==
          std::vector<std::string>{"fixture/inner.h", "fixture/outer.h", "tilec/numeric.h"});
    CHECK(source.headers.back().text == "// the fixture's own\n");
    CHECK(source.toolkit_headers == std::vector<std::string>{"cuda_fp16.h"});
  }

  TEST_CASE("render: how an include may be written") {
    const struct {
      const char* source;
      std::vector<std::string> ours, toolkit;
    } table[] = {
        {"void f();", {kOurs}, {}},
        {"#include \"tilec/gemm_args.h\"",
         {"tilec/gemm_args.h", kOurs, "tilec/scalar_argument.h"},
         {}},
        {"#include <tilec/add_args.h>\n", {"tilec/add_args.h", kOurs}, {}},
        {"  #  include\t\"tilec/add_args.h\" // x\n", {"tilec/add_args.h", kOurs}, {}},
        {"#include\"tilec/add_args.h\"\r\n", {"tilec/add_args.h", kOurs}, {}},
        {"#include <mma.h>\n#include \"cuda_bf16.h\"\n#include <mma.h>\n",
         {kOurs},
         {"cuda_bf16.h", "mma.h"}},
        {"// #include <mma.h>\nint include; x #include <mma.h>\n", {kOurs}, {}},
        {"#include MACRO\n#include\n#\n#include \"\n#include <>\n", {kOurs}, {}},
        {"#pragma once\n#define include\n", {kOurs}, {}},
        {"/* a\n */ #/**/include/**/<mma.h>// x\n", {kOurs}, {"mma.h"}},
        {"%:include <mma.h>\n# \\\n inc\\ \nlude \"cu\\\nda.h\"\n", {kOurs}, {"cuda.h", "mma.h"}},
        {"#if __has_include ( \"tilec/add_args.h\") && __has_include(<mma.h>)\n#endif\n",
         {"tilec/add_args.h", kOurs},
         {"mma.h"}},
        {"int a; /*\n*/ #include <mma.h>\n", {kOurs}, {}},
        {"/*\n#include <mma.h>\n*/ // \\\n#include <mma.h>\n", {kOurs}, {}},
        {"auto a = R\"x(\n#include <mma.h>\n)\" )x\", b = \"/*\";\n#include <cuda.h>\n",
         {kOurs},
         {"cuda.h"}},
        {"int n = 1'000; char c = '\"';\n#include <mma.h> // it's\n#include <cuda.h>\n",
         {kOurs},
         {"cuda.h", "mma.h"}},
    };
    for (const auto& row : table) {
      CAPTURE(row.source);
      const Source source = rendered(with(row.source));
      CHECK(names(source.headers) == row.ours);
      CHECK(source.toolkit_headers == row.toolkit);
    }
  }

  TEST_CASE("render: headers that include each other") {
    const Source source =
        rendered(with("#include \"a.h\"\n", {{"a.h", "#include \"b.h\"\n#include <cmath>\n"},
                                             {"b.h", "#include \"a.h\"\n#include \"b.h\"\n"}}));
    CHECK(names(source.headers) == std::vector<std::string>{"a.h", "b.h", kOurs});
    CHECK(source.toolkit_headers == std::vector<std::string>{"cmath"});
  }

  TEST_CASE("render: the template's text stays whole, behind a #line of its own") {
    const KernelTemplate kernel = fixture_template();
    const Source source = rendered(kernel);
    const std::string line = "\n#line 1 \"/tilec/fixture.cu\"\n";
    const std::size_t at = source.text.find(line);
    REQUIRE(at != std::string::npos);
    CHECK(source.text.substr(at + line.size()) == kernel.source);
    CHECK(source.entry == "fixture");
    KernelTemplate other = kernel;
    other.entry = "second";
    CHECK(rendered(other).entry == "second");
  }

  TEST_CASE("render: parameters must be complete, and no more than that") {
    const KernelTemplate kernel = fixture_template();
    CHECK_THROWS_WITH_AS(render(kernel, f32, {{"ROWS", 4}, {"SUM", f32}}),
                         "fixture: parameter MODE has no value", std::invalid_argument);
    CHECK_THROWS_WITH_AS(render(kernel, f32, {{"ROWS", 4}, {"SUM", f32}, {"MODE", 7}, {"TILE", 3}}),
                         "fixture: a parameter is given that it does not declare, among MODE=7 "
                         "ROWS=4 SUM=f32 TILE=3",
                         std::invalid_argument);
  }

  TEST_CASE("render: same arguments, same bytes; other arguments, others") {
    const KernelTemplate kernel = fixture_template();
    const Parameters base{{"ROWS", 4}, {"SUM", f32}, {"MODE", 7}};
    const Source source = render(kernel, f32, base);
    CHECK(render(kernel, f32, base) == source);
    CHECK(render(kernel, f64, base).text != source.text);
    for (const Parameters& change : {Parameters{{"ROWS", 5}}, {{"SUM", f64}}, {{"MODE", 1}}}) {
      Parameters changed = base;
      changed.insert_or_assign(change.begin()->first, change.begin()->second);
      CHECK(render(kernel, f32, changed).text != source.text);
    }
    KernelTemplate other = kernel;
    other.headers[1].text += "// changed\n";
    CHECK(rendered(other).text == rendered(kernel).text);
    CHECK(rendered(other) != rendered(kernel));
  }
}

}  // namespace
}  // namespace tilec::test

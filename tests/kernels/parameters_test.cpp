// Parameters: values, what is allowed, completing a set, and every way a set or a template is
// wrong.
#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>

#include "tests/kernels/fixture_template.h"

namespace tilec::test {
namespace {

const Target kTarget = Target::parse("sm_90");

TEST_SUITE("cpu") {
  TEST_CASE("parameters: values") {
    CHECK(Value(32).text() == "32");
    CHECK(Value(-1).text() == "-1");
    CHECK(Value(f16).text() == "f16");
    CHECK(Value(32).integer() == 32);
    CHECK(Value(bf16).dtype() == bf16);
    CHECK(Value(1) != Value(f64));
    CHECK_THROWS_WITH_AS(Value(f32).integer(), "f32 is an element type, not an integer",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(Value(4).dtype(), "4 is an integer, not an element type",
                         std::invalid_argument);
    CHECK(describe(Parameters{{"TN", 4}, {"ACC", f32}, {"TILE", 32}}) == "ACC=f32 TILE=32 TN=4");
    CHECK(describe(Parameters{}).empty());
    CHECK(integer(Parameters{{"TN", 4}}, "TN") == 4);
    CHECK_THROWS_WITH_AS(integer({{"TN", 4}}, "TM"), "there is no parameter TM",
                         std::invalid_argument);
  }

  TEST_CASE("parameters: what is allowed") {
    const Allowed range = Allowed::range(2, 5), listed = Allowed::one_of({1, 4, f16});
    for (const int inside : {2, 3, 5}) CHECK(range.contains(inside));
    for (const int outside : {1, 6, -2}) CHECK_FALSE(range.contains(outside));
    CHECK_FALSE(range.contains(f32));
    CHECK(listed.contains(4));
    CHECK(listed.contains(f16));
    CHECK_FALSE(listed.contains(2));
    CHECK_FALSE(listed.contains(0));
    CHECK_FALSE(listed.contains(-1));
    CHECK_FALSE(listed.contains(f32));
    CHECK(range.text() == "2 to 5");
    CHECK(listed.text() == "1, 4, f16");
  }

  TEST_CASE("parameters: completing a set") {
    const KernelTemplate kernel = fixture_template();
    CHECK(complete(kernel, f32, {}, kTarget) == Parameters{{"ROWS", 4}, {"SUM", f32}, {"MODE", 7}});
    // A default may depend on T and on what was declared before, given or not.
    CHECK(complete(kernel, f64, {}, kTarget).at("SUM") == Value(f64));
    CHECK(complete(kernel, f32, {{"ROWS", 9}}, kTarget).at("SUM") == Value(f64));
    CHECK(complete(kernel, f32, {{"ROWS", 9}, {"SUM", f32}}, kTarget).at("SUM") == Value(f32));
    const Parameters whole = complete(kernel, f32, {{"MODE", 1}}, kTarget);
    CHECK(complete(kernel, f32, whole, kTarget) == whole);
  }

  TEST_CASE("parameters: a wrong set") {
    const struct {
      DType T;
      Parameters given;
      const char* target;
      const char* message;
    } table[] = {
        {f32,
         {{"TILE", 3}},
         "sm_90",
         "fixture: it has no parameter TILE; it declares ROWS, SUM, MODE"},
        {f32, {{"T", f32}}, "sm_90", "fixture: it has no parameter T; it declares ROWS, SUM, MODE"},
        {f32,
         {{"ROWS", 0}},
         "sm_90",
         "fixture: ROWS = 0 (elements of one thread) is not allowed; allowed: 1 to 64"},
        {f32,
         {{"ROWS", 65}},
         "sm_90",
         "fixture: ROWS = 65 (elements of one thread) is not allowed; allowed: 1 to 64"},
        {f32,
         {{"ROWS", f32}},
         "sm_90",
         "fixture: ROWS = f32 (elements of one thread) is not allowed; allowed: 1 to 64"},
        {f32,
         {{"SUM", f16}},
         "sm_90",
         "fixture: SUM = f16 (type of the sums) is not allowed; allowed: f32, f64"},
        {f32,
         {{"SUM", 4}},
         "sm_90",
         "fixture: SUM = 4 (type of the sums) is not allowed; allowed: f32, f64"},
        {f32,
         {{"MODE", 3}},
         "sm_90",
         "fixture: MODE = 3 (nothing) is not allowed; allowed: 1, 2, 7"},
        {f64, {{"SUM", f32}}, "sm_90", "fixture: SUM = f32 is narrower than T"},
        {f32, {{"ROWS", 33}}, "sm_80", "fixture: ROWS is over 32"},
    };
    for (const auto& row : table) {
      CHECK_THROWS_WITH_AS(
          complete(fixture_template(), row.T, row.given, Target::parse(row.target)), row.message,
          std::invalid_argument);
    }
    CHECK_NOTHROW(complete(fixture_template(), f32, {{"ROWS", 33}}, kTarget));
    // A template may allow what no int of its text can be.
    KernelTemplate wide = fixture_template();
    wide.parameters[0].allowed = Allowed::range(0, std::int64_t{1} << 40);
    CHECK_THROWS_WITH_AS(complete(wide, f32, {{"ROWS", std::int64_t{1} << 32}}, kTarget),
                         "fixture: ROWS = 4294967296 (elements of one thread) is beyond an int, "
                         "which parameters are in a kernel's text",
                         std::invalid_argument);
    // Right, but not here.
    CHECK_THROWS_WITH_AS(complete(fixture_template(), f16, {}, kTarget),
                         "fixture: no kernel for f16; it supports f32, f64", std::domain_error);
    CHECK_THROWS_WITH_AS(complete(fixture_template(), f32, {}, Target::parse("sm_75")),
                         "fixture: needs sm_80 or later, not sm_75", std::domain_error);
  }

  TEST_CASE("parameters: a wrong template") {
    using Change = std::function<void(KernelTemplate&)>;
    const std::vector<std::pair<Change, const char*>> table = {
        {[](KernelTemplate& k) { k.name = ""; }, "a template's name is a C identifier, not ''"},
        {[](KernelTemplate& k) { k.name = "9lives"; },
         "a template's name is a C identifier, not '9lives'"},
        {[](KernelTemplate& k) { k.name = "a b"; },
         "a template's name is a C identifier, not 'a b'"},
        {[](KernelTemplate& k) { k.entry = "f()"; },
         "fixture: its entry is a C identifier, not 'f()'"},
        {[](KernelTemplate& k) { k.source = ""; }, "fixture: the template has no source"},
        {[](KernelTemplate& k) { k.launch = nullptr; },
         "fixture: the template has no launch function (grid, block, shared memory)"},
        {[](KernelTemplate& k) { k.dtypes = {}; }, "fixture: the template supports no dtype"},
        {[](KernelTemplate& k) { k.args_version = 2; },
         "fixture: it expects version 2 of the argument struct; this tilec passes version 1"},
        {[](KernelTemplate& k) { k.parameters[0].name = "T"; },
         "fixture: a parameter is called by a C identifier other than T, not 'T'"},
        {[](KernelTemplate& k) { k.parameters[1].name = "a-b"; },
         "fixture: a parameter is called by a C identifier other than T, not 'a-b'"},
        {[](KernelTemplate& k) { k.parameters[2].default_value = nullptr; },
         "fixture: parameter MODE has no default"},
        {[](KernelTemplate& k) { k.parameters[2].name = "ROWS"; },
         "fixture: parameter ROWS is declared twice"},
    };
    CHECK_NOTHROW(check(fixture_template()));
    for (const auto& [change, message] : table) {
      KernelTemplate kernel = fixture_template();
      change(kernel);
      CHECK_THROWS_WITH_AS(check(kernel), message, std::invalid_argument);
    }
  }
}

}  // namespace
}  // namespace tilec::test

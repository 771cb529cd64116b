// The covers of a template's parameters: legal, without repetition, and every pair that can go
// together in the pairwise one.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/kernels/fixture_template.h"

namespace tilec::test {
namespace {

using Pairs = std::set<std::string>;

Pairs pairs_of(const std::vector<Parameters>& sets) {
  Pairs pairs;
  for (const Parameters& set : sets) {
    for (const auto& [name, value] : set) {
      for (const auto& [other, other_value] : set) {
        pairs.insert(name + "=" + value.text() + " " + other + "=" + other_value.text());
      }
    }
  }
  return pairs;
}

TEST_SUITE("cpu") {
  TEST_CASE("samples: all of the fixture's") {
    // ROWS × SUM × MODE, and f64 does not go with SUM = f32.
    CHECK(all_samples(fixture_template(), f32, Target::parse("sm_90")).size() == 12);
    CHECK(all_samples(fixture_template(), f64, Target::parse("sm_90")).size() == 6);
    CHECK(all_samples(fixture_template(), f16, Target::parse("sm_90")).empty());
    CHECK(all_samples(fixture_template(), f32, Target::parse("sm_75")).empty());
    KernelTemplate plain = fixture_template();
    plain.parameters.clear();
    plain.why_not = nullptr;
    CHECK(all_samples(plain, f32, Target::parse("sm_90")) == std::vector<Parameters>{{}});
    CHECK(pairwise_samples(plain, f32, Target::parse("sm_90")).size() <= 1);
  }

  TEST_CASE("samples: the catalog's cover every pair") {
    for (const KernelTemplate& kernel : catalog()) {
      for (const DType T : kernel.dtypes) {
        for (const char* name : {"sm_75", "sm_90"}) {
          const Target target = Target::parse(name);
          const std::vector<Parameters> all = all_samples(kernel, T, target);
          const std::vector<Parameters> cover = pairwise_samples(kernel, T, target);
          CAPTURE(kernel.name);
          CAPTURE(info(T).name);
          REQUIRE_FALSE(cover.empty());
          CHECK(pairs_of(cover) == pairs_of(all));
          CHECK(cover.size() <= all.size());
          CHECK(cover.size() <= 40);
          CHECK(std::set<Parameters>(cover.begin(), cover.end()).size() == cover.size());
          for (const Parameters& set : cover) CHECK(complete(kernel, T, set, target) == set);
        }
      }
    }
  }

  TEST_CASE("samples: every declared sample occurs in some set") {
    for (const KernelTemplate& kernel : catalog()) {
      Pairs seen;
      for (const DType T : kernel.dtypes)
        seen.merge(pairs_of(all_samples(kernel, T, Target::host())));
      for (const Parameter& parameter : kernel.parameters) {
        CHECK_FALSE(parameter.samples.empty());
        for (const Value& value : parameter.samples) {
          const std::string one = parameter.name + "=" + value.text();
          CHECK_MESSAGE(seen.contains(one + " " + one), kernel.name, ": ", one, " is never legal");
        }
      }
    }
  }
}

}  // namespace
}  // namespace tilec::test

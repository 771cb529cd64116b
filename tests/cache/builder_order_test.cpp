// Builders: which names are valid, and which is newer.
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "source.h"
#include "tilec/cache_entry.h"

namespace tilec::cache {
namespace {

TEST_SUITE("cpu tsan") {
  TEST_CASE("older to newer") {
    const std::vector<std::string> rising = {
        "g++-9.4.0",          "g++-12.2.0",
        "g++-12.10.0",        "nvrtc",
        "nvrtc-12.9.86",      "nvrtc-12.10.1",
        "nvrtc-13.0",         "nvrtc-13.0.48",
        "nvrtc-13.0.88",      "nvrtc-13.00.88",
        "nvrtc-13.0.88-beta", "nvrtc-13.0.100",
        "nvrtc-14",           "nvrtc-99999999999999999999999999.1"};
    for (std::size_t i = 0; i < rising.size(); ++i) {
      for (std::size_t j = 0; j < rising.size(); ++j) {
        const int order = compare_builders(rising[i], rising[j]);
        CAPTURE(rising[i]);
        CAPTURE(rising[j]);
        if (rising[i] == "nvrtc-13.0.88" && rising[j] == "nvrtc-13.00.88") continue;
        if (rising[j] == "nvrtc-13.0.88" && rising[i] == "nvrtc-13.00.88") continue;
        CHECK((order > 0) == (i > j));
        CHECK((order < 0) == (i < j));
      }
    }
    // Two spellings of one number are two names, in either order but not equal.
    CHECK(compare_builders("nvrtc-13.0.88", "nvrtc-13.00.88") != 0);
    CHECK(compare_builders("nvrtc-13.0.88", "nvrtc-13.00.88") ==
          -compare_builders("nvrtc-13.00.88", "nvrtc-13.0.88"));
  }

  TEST_CASE("newest first, each once") {
    CHECK(newest_first({"nvrtc-12.9.1", "nvrtc-13.0.88", "nvrtc-12.10.1", "nvrtc-13.0.88"}) ==
          std::vector<std::string>{"nvrtc-13.0.88", "nvrtc-12.10.1", "nvrtc-12.9.1"});
  }

  TEST_CASE("valid names") {
    for (const char* good : {"nvrtc-13.0.88", "g++-12.2.0", "a", "0", "A_b"})
      CHECK(valid_builder(good));
    CHECK(valid_builder(std::string(64, 'x')));
    for (const std::string& bad :
         {std::string(), std::string("."), std::string(".."), std::string("../x"),
          std::string("a/b"), std::string(".hidden"), std::string("-x"), std::string("a b"),
          std::string("a\0b", 3), std::string("ü"), std::string(65, 'x')}) {
      CHECK_FALSE(valid_builder(bad));
    }
  }
}

}  // namespace
}  // namespace tilec::cache

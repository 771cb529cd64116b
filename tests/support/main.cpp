// The main function of every test program: doctest's, with 77 as the exit status where nothing
// failed and a test case skipped itself.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <atomic>
#include <iostream>

#include "tests/support/skip.h"

namespace tilec::test {
namespace {

constexpr int skipped_status = 77;

std::atomic<bool>& any_skipped() {
  static std::atomic<bool> skipped = false;
  return skipped;
}

}  // namespace

void skip(std::string_view reason) {
  std::cout << "skipped: " << reason << std::endl;
  any_skipped() = true;
}

}  // namespace tilec::test

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int failures = context.run();
  if (failures == 0 && tilec::test::any_skipped()) return tilec::test::skipped_status;
  return failures;
}

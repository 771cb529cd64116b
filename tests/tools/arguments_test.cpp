// From words to values: what is taken, and what is refused with which words.
#include "arguments.h"

#include <doctest/doctest.h>

#include "format.h"
#include "output.h"
#include "progress.h"

namespace tilec::command {
namespace {

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "taken";
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("problems in one word") {
  const GemmProblem gemm = parse_gemm("12,0,7,f16");
  CHECK(gemm == GemmProblem{.M = 12, .N = 0, .K = 7, .a = f16});
  CHECK(parse_gemm("1,2,3").a == f32);
  CHECK(parse_add("10") == AddProblem{.shape = {10}});
  CHECK(parse_add("4x5,s32") == AddProblem{.shape = {4, 5}, .dtype = s32});
  for (const char* bad :
       {"", "1,2", "1,2,3,f16,5", "1,2,-3", "1,2,3,f8", "1,,3", "1,2,0x10", "1,2,3 "}) {
    CAPTURE(bad);
    CHECK(refusal([&] { parse_gemm(bad); }) != "taken");
  }
  for (const char* bad : {"", "1,2,3", "x", "1xx2", "1x2x3x4x5", "-1", "1,f9"}) {
    CAPTURE(bad);
    CHECK(refusal([&] { parse_add(bad); }) != "taken");
  }
}

TEST_CASE("parameters") {
  CHECK(parse_settings({"TILE=64", "ACC=f32", "PAD=-1"}) ==
        Parameters{{"TILE", 64}, {"ACC", f32}, {"PAD", -1}});
  for (const char* bad : {"TILE", "=3", "TILE=", "TILE=x", "TILE=3.5"}) {
    CAPTURE(bad);
    CHECK(refusal([&] { parse_settings({bad}); }) != "taken");
  }
  CHECK(mentions(refusal([] { parse_settings({"A=1", "A=2"}); }), "set twice"));
}

TEST_CASE("shards") {
  CHECK(parse_shard("3/8").index == 3);
  CHECK(parse_shard("3/8").count == 8);
  for (const char* bad : {"", "3", "0/8", "9/8", "1/0", "a/b", "1/2/3", "-1/2"}) {
    CAPTURE(bad);
    CHECK(refusal([&] { parse_shard(bad); }) != "taken");
  }
}

TEST_CASE("slips of the finger") {
  const std::vector<std::string> names{"run", "info", "build", "source", "--dtype", "--device"};
  CHECK(similar("rnu", names) == std::vector<std::string>{"run"});
  CHECK(similar("--dtpye", names).front() == "--dtype");
  CHECK(similar("--dev", names).front() == "--device");
  CHECK(similar("xyz", names).empty());
  CHECK(either({"a"}) == "a");
  CHECK(either({"a", "b", "c"}) == "a, b or c");
}

TEST_CASE("quantities for people") {
  CHECK(human_time(4.12e-7) == "412 ns");
  CHECK(human_time(1.23e-3) == "1.23 ms");
  CHECK(human_time(12.34) == "12.3 s");
  CHECK(human_duration(35.2) == "35 s");
  CHECK(human_duration(600) == "10 min");
  CHECK(human_duration(7800) == "2 h 10 min");
  CHECK(human_bytes(812) == "812 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(std::uint64_t{3} << 30) == "3.0 GiB");
  CHECK(table({{"a", "1"}, {"bbb", "22"}}, {false, true}) == "a     1\nbbb  22\n");
  CHECK(indented("a\nb", "> ") == "> a\n> b\n");
}

TEST_CASE("the progress bar tells counts and an estimate, and fits the terminal") {
  const Counts half{.total = 40, .built = 10, .present = 8, .failed = 2};
  const std::string bar = progress_bar(half, 30, 200);
  CHECK(mentions(bar, "20/40"));
  CHECK(mentions(bar, "10 built, 8 present, 2 failed"));
  CHECK(mentions(bar, "about 50 s left"));
  CHECK(mentions(bar, "[############............]"));
  CHECK(progress_bar(half, 30, 20).size() == 20);
  const Counts fresh{.total = 4};
  CHECK_FALSE(mentions(progress_bar(fresh, 0, 200), "left"));
}

}  // namespace tilec::command

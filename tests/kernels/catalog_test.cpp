// The shipped templates on the host side: defaults, launch shapes, and every illegal parameter.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "tilec/kernel_template.h"

namespace tilec::test {
namespace {

const KernelTemplate& shipped(const std::string& name) {
  const auto found = std::ranges::find(catalog(), name, &KernelTemplate::name);
  REQUIRE(found != catalog().end());
  return *found;
}

LaunchShape launch(const std::string& name, const Problem& problem, const Parameters& given) {
  const KernelTemplate& kernel = shipped(name);
  const Problem whole = std::holds_alternative<GemmProblem>(problem)
                            ? Problem(normalized(std::get<GemmProblem>(problem)))
                            : problem;
  return kernel.launch(whole,
                       complete(kernel, element_type(problem), given, Target::parse("sm_90")));
}

TEST_SUITE("cpu") {
  TEST_CASE("catalog: names, candidates, texts") {
    std::set<std::string> names;
    for (const KernelTemplate& kernel : catalog()) {
      CAPTURE(kernel.name);
      CHECK_NOTHROW(check(kernel));
      CHECK(names.insert(kernel.name).second);
      // A drawing first, then the code.
      CHECK(kernel.source.starts_with("// " + kernel.name + ":"));
      CHECK(kernel.source.find("┌") + kernel.source.find("├") != std::string::npos);
      CHECK(kernel.source.find("extern \"C\" __global__") != std::string::npos);
      for (const Candidate& candidate : kernel.candidates) {
        for (const DType T : candidate.dtypes.empty() ? kernel.dtypes : candidate.dtypes) {
          CHECK_NOTHROW(complete(kernel, T, candidate.parameters, Target::parse("sm_90")));
        }
      }
    }
    for (const char* name :
         {"gemm_naive", "gemm_regn", "add_elementwise", "add_tiled", "add_block_tiled"}) {
      CHECK(names.contains(name));
    }
    std::set<std::string> headers;
    for (const Header& header : device_headers()) {
      CHECK(headers.insert(header.name).second);
      CHECK(header.text.find("#pragma once") != std::string::npos);
    }
    CHECK(headers.contains("tilec/gemm_args.h"));
  }

  TEST_CASE("catalog: defaults") {
    const Target target = Target::parse("sm_80");
    const struct {
      const char* name;
      DType T;
      Parameters given;
      const char* all;
    } table[] = {
        {"gemm_regn", f32, {}, "ACC=f32 PAD=1 TILE=32 TN=4 UNROLL_K=32"},
        {"gemm_regn", f16, {}, "ACC=f32 PAD=1 TILE=32 TN=4 UNROLL_K=32"},
        {"gemm_regn", bf16, {}, "ACC=f32 PAD=1 TILE=32 TN=4 UNROLL_K=32"},
        {"gemm_regn", f64, {}, "ACC=f64 PAD=1 TILE=32 TN=4 UNROLL_K=32"},
        {"gemm_regn", s32, {}, "ACC=s32 PAD=1 TILE=32 TN=4 UNROLL_K=32"},
        {"gemm_regn", f32, {{"TILE", 64}, {"TN", 8}}, "ACC=f32 PAD=1 TILE=64 TN=8 UNROLL_K=8"},
        {"gemm_regn", f32, {{"TILE", 10}}, "ACC=f32 PAD=1 TILE=10 TN=1 UNROLL_K=10"},
        {"gemm_naive", f16, {}, "ACC=f32 BLOCK_X=32 BLOCK_Y=8"},
        {"add_tiled", f32, {}, "BLOCK=256 TILE=32 W=4"},
        {"add_tiled", f16, {}, "BLOCK=256 TILE=32 W=8"},
        {"add_tiled", f16, {{"TILE", 12}}, "BLOCK=256 TILE=12 W=4"},
        {"add_tiled", f32, {{"TILE", 5}}, "BLOCK=256 TILE=5 W=1"},
        {"add_elementwise", f64, {}, "BLOCK=256 W=2"},
        {"add_block_tiled", s32, {}, "BLOCK=256 UNROLL=2 W=4"},
    };
    for (const auto& row : table) {
      CHECK(describe(complete(shipped(row.name), row.T, row.given, target)) == row.all);
    }
  }

  TEST_CASE("catalog: launch shapes") {
    constexpr std::int64_t kTwo31 = std::int64_t{1} << 31;
    const struct {
      const char* name;
      Problem problem;
      Parameters given;
      LaunchShape expected;
    } table[] = {
        {"gemm_regn",
         GemmProblem{.M = 100, .N = 65, .K = 7},
         {},
         {.grid = {3, 4, 1}, .block = {8, 32, 1}, .shared_bytes = 8448}},
        {"gemm_regn",
         GemmProblem{.M = 48, .N = 49, .K = 7},
         {{"TILE", 48}, {"TN", 6}},
         {.grid = {2, 1, 1}, .block = {8, 48, 1}, .shared_bytes = 18816}},
        {"gemm_regn",
         GemmProblem{.M = 24, .N = 1, .K = 7, .a = f16},
         {{"TILE", 24}, {"TN", 3}},
         {.grid = {1, 1, 1}, .block = {8, 24, 1}, .shared_bytes = 2 * 24 * 25 * 2}},
        // Arrays start at multiples of 16 bytes.
        {"gemm_regn",
         GemmProblem{.M = 1, .N = 1, .K = 1, .a = f16},
         {{"TILE", 1}, {"PAD", 0}},
         {.grid = {1, 1, 1}, .block = {1, 1, 1}, .shared_bytes = 32}},
        {"gemm_regn",
         GemmProblem{.M = 64, .N = 64, .K = 1, .a = f64},
         {{"TILE", 64}, {"TN", 8}},
         {.grid = {1, 1, 1}, .block = {8, 64, 1}, .shared_bytes = 66560}},
        {"gemm_regn",
         GemmProblem{.M = 65535 * 32, .N = 1, .K = 1},
         {},
         {.grid = {1, 65535, 1}, .block = {8, 32, 1}, .shared_bytes = 8448}},
        {"gemm_regn",
         GemmProblem{.M = 65535 * 32 + 1, .N = 1, .K = 1},
         {},
         {.grid = {1, 65535, 2}, .block = {8, 32, 1}, .shared_bytes = 8448}},
        {"gemm_regn",
         GemmProblem{.M = 0, .N = 5, .K = 5},
         {},
         {.grid = {1, 0, 0}, .block = {8, 32, 1}, .shared_bytes = 8448}},
        {"gemm_naive",
         GemmProblem{.M = 17, .N = 33, .K = 5},
         {},
         {.grid = {2, 3, 1}, .block = {32, 8, 1}}},
        {"gemm_naive",
         GemmProblem{.M = 5, .N = kTwo31 * 16, .K = 5},
         {{"BLOCK_X", 1024}, {"BLOCK_Y", 1}},
         {.grid = {kTwo31 / 64, 5, 1}, .block = {1024, 1, 1}}},
        // 1,024 floats: 32 active threads of 8 steps, against 256 of one.
        {"add_tiled",
         AddProblem{.shape = {1024}},
         {{"BLOCK", 32}},
         {.grid = {1, 1, 1}, .block = {32, 1, 1}}},
        {"add_elementwise",
         AddProblem{.shape = {1024}},
         {},
         {.grid = {1, 1, 1}, .block = {256, 1, 1}}},
        {"add_elementwise",
         AddProblem{.shape = {1025}},
         {},
         {.grid = {2, 1, 1}, .block = {256, 1, 1}}},
        {"add_tiled", AddProblem{.shape = {8193}}, {}, {.grid = {2, 1, 1}, .block = {256, 1, 1}}},
        {"add_block_tiled",
         AddProblem{.shape = {64, 64}},
         {},
         {.grid = {2, 1, 1}, .block = {256, 1, 1}}},
        {"add_block_tiled",
         AddProblem{.shape = {3, 4096}},
         {},
         {.grid = {6, 1, 1}, .block = {256, 1, 1}}},
        {"add_block_tiled",
         AddProblem{.shape = {0}},
         {},
         {.grid = {0, 1, 1}, .block = {256, 1, 1}}},
        {"add_elementwise",
         AddProblem{.shape = {kTwo31 * 1024}},
         {},
         {.grid = {kTwo31, 1, 1}, .block = {256, 1, 1}}},
    };
    for (const auto& row : table) {
      CAPTURE(row.name);
      CAPTURE(describe(row.problem));
      const LaunchShape shape = launch(row.name, row.problem, row.given);
      CHECK(shape.grid == row.expected.grid);
      CHECK(shape.block == row.expected.block);
      CHECK(shape.shared_bytes == row.expected.shared_bytes);
    }
  }

  TEST_CASE("catalog: every illegal parameter, and why") {
    const struct {
      const char* name;
      DType T;
      Parameters given;
      const char* target;
      const char* message;
    } table[] = {
        {"gemm_regn",
         f32,
         {{"TILE", 32}, {"TN", 3}},
         "sm_80",
         "gemm_regn: TN = 3 does not divide TILE = 32"},
        {"gemm_regn",
         f32,
         {{"TILE", 8}, {"TN", 16}},
         "sm_80",
         "gemm_regn: TN = 16 does not divide TILE = 8"},
        {"gemm_regn",
         f32,
         {{"TILE", 64}, {"TN", 2}},
         "sm_80",
         "gemm_regn: TILE = 64 with TN = 2 makes blocks of 2048 threads; a block has at most 1024. "
         "A "
         "larger TN makes fewer"},
        {"gemm_regn",
         f64,
         {{"TILE", 64}, {"TN", 8}},
         "sm_75",
         "gemm_regn: two tiles of 64×65 f64 need 66560 bytes of shared memory; a block on sm_75 "
         "has "
         "at most 65536"},
        {"gemm_regn",
         f64,
         {{"TILE", 128}, {"TN", 16}},
         "sm_90",
         "gemm_regn: two tiles of 128×129 f64 need 264192 bytes of shared memory; a block on sm_90 "
         "has at most 232448"},
        {"gemm_regn",
         f32,
         {{"TILE", 0}},
         "sm_80",
         "gemm_regn: TILE = 0 (edge of the square tile of D that a block computes, and the step in "
         "K) is not allowed; allowed: 1 to 1024"},
        {"gemm_regn",
         f32,
         {{"TN", -4}},
         "sm_80",
         "gemm_regn: TN = -4 (neighbouring outputs of one thread) is not allowed; allowed: 1 to "
         "1024"},
        {"gemm_regn",
         f32,
         {{"PAD", -1}},
         "sm_80",
         "gemm_regn: PAD = -1 (elements added to each row of a shared tile) is not allowed; "
         "allowed: "
         "0 to 32"},
        {"gemm_regn",
         f32,
         {{"UNROLL_K", 0}},
         "sm_80",
         "gemm_regn: UNROLL_K = 0 (steps of k that the inner loop is unrolled by) is not allowed; "
         "allowed: 1 to 1024"},
        {"gemm_regn",
         f32,
         {{"ACC", 4}},
         "sm_80",
         "gemm_regn: ACC = 4 (type of the sums of products) is not allowed; allowed: f32, f64, "
         "f16, "
         "bf16, s32"},
        {"gemm_regn",
         f32,
         {{"ACC", f64}},
         "sm_80",
         "gemm_regn: ACC = f64 does not go with T = f32, which is summed in f32"},
        {"gemm_regn",
         f16,
         {{"ACC", bf16}},
         "sm_80",
         "gemm_regn: ACC = bf16 does not go with T = f16, which is summed in f32 or in f16 itself"},
        {"gemm_regn",
         s32,
         {{"ACC", f32}},
         "sm_80",
         "gemm_regn: ACC = f32 does not go with T = s32, which is summed in s32"},
        {"gemm_regn",
         f32,
         {{"BM", 64}},
         "sm_80",
         "gemm_regn: it has no parameter BM; it declares TILE, TN, PAD, ACC, UNROLL_K"},
        {"gemm_naive",
         f32,
         {{"BLOCK_X", 64}, {"BLOCK_Y", 17}},
         "sm_80",
         "gemm_naive: BLOCK_X · BLOCK_Y = 1088 threads; a block has at most 1024"},
        {"gemm_naive",
         f32,
         {{"BLOCK_X", 1025}},
         "sm_80",
         "gemm_naive: BLOCK_X = 1025 (columns of D that a block computes) is not allowed; allowed: "
         "1 "
         "to 1024"},
        {"gemm_naive",
         f32,
         {{"BLOCK_Y", 0}},
         "sm_80",
         "gemm_naive: BLOCK_Y = 0 (rows of D that a block computes) is not allowed; allowed: 1 to "
         "1024"},
        {"gemm_naive",
         f64,
         {{"ACC", f32}},
         "sm_80",
         "gemm_naive: ACC = f32 does not go with T = f64, which is summed in f64"},
        {"add_tiled",
         f32,
         {{"TILE", 257}},
         "sm_80",
         "add_tiled: TILE = 257 (neighbouring elements that one thread owns) is not allowed; "
         "allowed: "
         "1 to 256"},
        {"add_tiled",
         f32,
         {{"TILE", 6}, {"W", 4}},
         "sm_80",
         "add_tiled: W = 4 does not divide TILE = 6"},
        {"add_tiled",
         f32,
         {{"W", 3}},
         "sm_80",
         "add_tiled: W = 3 (elements of one vector access) is not allowed; allowed: 1, 2, 4, 8"},
        {"add_tiled",
         f32,
         {{"W", 8}},
         "sm_80",
         "add_tiled: W = 8 elements of f32 are 32 bytes; one access moves at most 16"},
        {"add_elementwise",
         f64,
         {{"W", 4}},
         "sm_80",
         "add_elementwise: W = 4 elements of f64 are 32 bytes; one access moves at most 16"},
        {"add_elementwise",
         f32,
         {{"BLOCK", 1025}},
         "sm_80",
         "add_elementwise: BLOCK = 1025 (threads of a block) is not allowed; allowed: 1 to 1024"},
        {"add_block_tiled",
         s32,
         {{"W", 8}},
         "sm_80",
         "add_block_tiled: W = 8 elements of s32 are 32 bytes; one access moves at most 16"},
        {"add_block_tiled",
         f32,
         {{"UNROLL", 17}},
         "sm_80",
         "add_block_tiled: UNROLL = 17 (vectors of one lane) is not allowed; allowed: 1 to 16"},
    };
    for (const auto& row : table) {
      CHECK_THROWS_WITH_AS(complete(shipped(row.name), row.T, row.given, Target::parse(row.target)),
                           row.message, std::invalid_argument);
    }
    CHECK_THROWS_WITH_AS(complete(shipped("add_tiled"), f32, {}, Target::parse("sm_70")),
                         "add_tiled: needs sm_75 or later, not sm_70", std::domain_error);
    // Just within the limits.
    CHECK_NOTHROW(
        complete(shipped("gemm_regn"), f32, {{"TILE", 32}, {"TN", 1}}, Target::parse("sm_75")));
    CHECK_NOTHROW(complete(shipped("gemm_naive"), f32, {{"BLOCK_X", 1024}, {"BLOCK_Y", 1}},
                           Target::parse("sm_75")));
    CHECK_NOTHROW(complete(shipped("gemm_regn"), f64, {{"TILE", 64}, {"TN", 8}, {"PAD", 0}},
                           Target::parse("sm_75")));
  }
}

}  // namespace
}  // namespace tilec::test

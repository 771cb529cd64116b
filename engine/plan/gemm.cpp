// Gemm: checks its arguments, packs them, launches.
#include "tilec/gemm.h"

#include <spdlog/fmt/fmt.h>

#include "plan/overlap.h"
#include "plan/plan_state.h"
#include "tilec/gemm_args.h"

namespace tilec {
namespace {

[[noreturn]] void reject(const std::string& why) {
  throw Error(ErrorKind::invalid_argument, why);
}

ScalarArgument scalar_argument(const char* name, const Scalar& scalar, DType type) {
  ScalarArgument argument{};
  if (type == f32 && scalar.type() == f32) {
    argument.f32 = static_cast<float>(scalar.value());
    return argument;
  }
  if (!scalar.fits(type)) {
    reject(fmt::format("{} = {} is not exactly an {}, which this plan takes for {}{}", name,
                       scalar.text(), tilec::info(type).name, name,
                       type == f32 ? "; pass a float" : ""));
  }
  store_from_double(type, &argument, 0, scalar.value());
  return argument;
}

Region region(const void* pointer, std::int64_t rows, std::int64_t columns, std::int64_t ld,
              std::int64_t size) {
  return {.start = reinterpret_cast<std::uintptr_t>(pointer),
          .rows = rows,
          .row_bytes = columns * size,
          .pitch = ld * size};
}

// Sizes of elements are powers of two.
void expect_pointer(const char* name, const void* pointer, std::uintptr_t size, DType type) {
  if (pointer == nullptr) [[unlikely]]
    reject(fmt::format("{} is a null pointer", name));
  if ((reinterpret_cast<std::uintptr_t>(pointer) & (size - 1)) != 0) [[unlikely]] {
    reject(fmt::format("{} is not aligned to its elements ({}, {} bytes)", name,
                       tilec::info(type).name, size));
  }
}

[[noreturn]] void reject_overlap(const char* name) {
  reject(
      fmt::format("D and {} share elements; the result would depend on the order of the threads. "
                  "Give D memory of its own",
                  name));
}

}  // namespace

void Gemm::run(const GemmArguments& arguments, Stream stream) const {
  const PlanState& state = *state_;
  const GemmProblem& p = std::get<GemmProblem>(state.problem);
  expect_runnable(state);
  if (p.M == 0 || p.N == 0) return;

  void* const d = arguments.d != nullptr ? arguments.d : arguments.c;
  const GemmArgs args{
      .a = arguments.a,
      .b = arguments.b,
      .c = arguments.c,
      .d = d,
      .M = p.M,
      .N = p.N,
      .K = p.K,
      .lda = p.lda,
      .ldb = p.ldb,
      .ldc = p.ldc,
      .ldd = arguments.d != nullptr ? p.ldd : p.ldc,
      .alpha = scalar_argument("alpha", arguments.alpha, state.scalar),
      .beta = scalar_argument("beta", arguments.beta, state.scalar),
  };
  const bool reads_ab = p.K > 0 && arguments.alpha.value() != 0;
  const bool reads_c = arguments.beta.value() != 0;
  expect_pointer("D", d, state.size_d, *p.d);
  const Region out = region(d, p.M, p.N, args.ldd, state.size_d);
  if (reads_ab) {
    expect_pointer("A", args.a, state.size_a, p.a);
    expect_pointer("B", args.b, state.size_b, *p.b);
    if (overlap(out, region(args.a, p.M, p.K, p.lda, state.size_a))) reject_overlap("A");
    if (overlap(out, region(args.b, p.K, p.N, p.ldb, state.size_b))) reject_overlap("B");
  }
  if (reads_c) {
    expect_pointer("C (which beta reads)", args.c, state.size_d, *p.d);
    if (d != args.c && overlap(out, region(args.c, p.M, p.N, p.ldc, state.size_d))) {
      reject_overlap("C");
    }
  }
  if (reads_c && d == args.c && args.ldd != p.ldc) {
    reject(fmt::format("D is C, but ldd = {} and ldc = {} differ", args.ldd, p.ldc));
  }
  launch_all(state, &args, stream);
}

void Gemm::expect_types(DType input, DType output) const {
  const GemmProblem& p = problem();
  if (p.a == input && *p.b == input && *p.d == output) return;
  reject(fmt::format("pointers to {} for a plan of {} · {} → {}", tilec::info(input).name,
                     tilec::info(p.a).name, tilec::info(*p.b).name, tilec::info(*p.d).name));
}

const GemmProblem& Gemm::problem() const {
  return std::get<GemmProblem>(state_->problem);
}
PlanInfo Gemm::info() const {
  return plan_info(*state_, origin_);
}
const std::string& Gemm::key() const {
  return state_->launches.front().info.key;
}
std::size_t Gemm::workspace_bytes() const {
  return state_->workspace_bytes;
}

}  // namespace tilec

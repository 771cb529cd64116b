// Add: checks its arguments, packs them, launches.
#include "tilec/add.h"

#include <spdlog/fmt/fmt.h>

#include "plan/overlap.h"
#include "plan/plan_state.h"
#include "tilec/add_args.h"

namespace tilec {
namespace {

[[noreturn]] void reject(const std::string& why) {
  throw Error(ErrorKind::invalid_argument, why);
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

// Exactly in place is right: each element is read by the thread that writes it.
void expect_whole_or_no_overlap(const char* name, const void* operand, const void* out,
                                std::int64_t bytes) {
  if (operand == out) return;
  const auto region = [&](const void* pointer) {
    return Region{reinterpret_cast<std::uintptr_t>(pointer), 1, bytes, bytes};
  };
  if (overlap(region(operand), region(out))) {
    reject(fmt::format("out overlaps {} in part; it may be exactly {}, or lie apart", name, name));
  }
}

}  // namespace

void Add::run(const AddArguments& arguments, Stream stream) const {
  const PlanState& state = *state_;
  const AddProblem& p = std::get<AddProblem>(state.problem);
  expect_runnable(state);
  const std::int64_t n = p.shape.elements();
  if (n == 0) return;
  expect_pointer("a", arguments.a, state.size_a, p.dtype);
  expect_pointer("b", arguments.b, state.size_a, p.dtype);
  expect_pointer("out", arguments.out, state.size_a, p.dtype);
  const std::int64_t bytes = n * state.size_a;
  expect_whole_or_no_overlap("a", arguments.a, arguments.out, bytes);
  expect_whole_or_no_overlap("b", arguments.b, arguments.out, bytes);
  const AddArgs args{.a = arguments.a, .b = arguments.b, .out = arguments.out, .n = n};
  launch_all(state, &args, stream);
}

void Add::expect_type(DType type) const {
  if (problem().dtype == type) return;
  reject(fmt::format("pointers to {} for a plan of {}", tilec::info(type).name,
                     tilec::info(problem().dtype).name));
}

const AddProblem& Add::problem() const {
  return std::get<AddProblem>(state_->problem);
}
PlanInfo Add::info() const {
  return plan_info(*state_, origin_);
}
const std::string& Add::key() const {
  return state_->launches.front().info.key;
}
std::size_t Add::workspace_bytes() const {
  return state_->workspace_bytes;
}

}  // namespace tilec

#include "tests/kernels/add_case.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <set>

#include "reference.h"
#include "tests/support/guarded_array.h"

namespace tilec::test {
namespace {

using Bytes = std::vector<std::byte>;

GuardedArray::Placement placement(const AddProblem& problem, Zone zone, int shift) {
  return {.zone = zone, .shift = static_cast<std::size_t>(shift * info(problem.dtype).size)};
}

// What must not have changed, and did.
std::string changed(const char* name, const GuardedArray& array, const Bytes& before) {
  const GuardedArray::Reading now = array.read();
  if (!now.zones_untouched) return fmt::format("memory beside {} was written; ", name);
  return now.contents == before ? "" : fmt::format("{} was written; ", name);
}

}  // namespace

std::string describe(const AddCase& add) {
  constexpr const char* kPlaces[] = {"apart", "in a", "in b", "a + a"};
  return fmt::format("{}, {}, {} {} {} off", tilec::describe(Problem(add.problem)),
                     kPlaces[static_cast<int>(add.place)], add.shift_a, add.shift_b, add.shift_out);
}

std::string failure(const Engine& engine, const PlanOptions& options, const AddCase& add) {
  const Add plan = engine.plan(add.problem, options);
  const auto n = static_cast<std::size_t>(add.problem.shape.elements());
  const DType T = add.problem.dtype;
  const Bytes a = reference::random_array(T, n, 1);
  const Bytes b = add.place == SumPlace::a_is_b ? a : reference::random_array(T, n, 2);
  const Bytes poison(a.size(), std::byte{0xFF});

  const Device& device = engine.device();
  const GuardedArray on_device_a(device, a, placement(add.problem, Zone::nan, add.shift_a));
  const GuardedArray on_device_b(device, b, placement(add.problem, Zone::nan, add.shift_b));
  const GuardedArray apart(device, poison, placement(add.problem, Zone::number, add.shift_out));
  const GuardedArray& second = add.place == SumPlace::a_is_b ? on_device_a : on_device_b;
  const GuardedArray& out = add.place == SumPlace::in_a   ? on_device_a
                            : add.place == SumPlace::in_b ? on_device_b
                                                          : apart;
  plan.run(AddArguments{.a = on_device_a.data(), .b = second.data(), .out = out.data()});
  device.synchronize();

  std::string wrong;
  if (&out != &on_device_a) wrong += changed("a", on_device_a, a);
  if (&out != &on_device_b) wrong += changed("b", on_device_b, b);
  if (&out != &apart) wrong += changed("an array that is no operand", apart, poison);
  const GuardedArray::Reading result = out.read();
  if (!result.zones_untouched) wrong += "memory beside out was written; ";
  const reference::Verdict verdict =
      reference::check_add(add.problem, a.data(), b.data(), result.contents.data());
  if (!verdict.ok) wrong += verdict.text();
  return wrong;
}

std::vector<AddCase> add_cases(DType T, const Parameters& parameters, std::int64_t columns) {
  std::set<std::int64_t> counts{
      0, 1, 2, 3, 97, columns - 1, columns, columns + 1, 2 * columns + 61};
  for (const auto& [name, value] : parameters) {
    const std::int64_t step = value.is_dtype() ? 1 : value.integer();
    counts.insert({step - 1, step + 1, 3 * step, 5 * step + 1});
  }
  std::vector<AddCase> cases;
  for (const std::int64_t n : counts) cases.push_back({.problem = {.shape = {n}, .dtype = T}});

  const std::int64_t several = std::min<std::int64_t>(columns, 4096) + 13;
  const AddProblem flat{.shape = {several}, .dtype = T};
  const AddCase aligned{.problem = flat};
  for (const SumPlace place : {SumPlace::in_a, SumPlace::in_b, SumPlace::a_is_b}) {
    cases.push_back(aligned);
    cases.back().place = place;
  }
  for (const auto& [a, b, out] :
       {std::array{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 1}, {2, 0, 0}, {0, 2, 2}, {4, 4, 0}}) {
    cases.push_back({.problem = flat, .shift_a = a, .shift_b = b, .shift_out = out});
  }
  cases.push_back({.problem = flat, .place = SumPlace::in_a, .shift_a = 1, .shift_b = 1});
  for (const Shape& shape : {Shape{7, 11}, {3, 5, 17}, {2, 3, 5, 7}, {4, 0, 3}, {1, 1, 1, 1}}) {
    cases.push_back({.problem = {.shape = shape, .dtype = T}});
  }
  return cases;
}

}  // namespace tilec::test

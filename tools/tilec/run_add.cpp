// tilec run add.
#include <chrono>

#include "run_report.h"
#include "tilec/buffer.h"
#include "tilec/engine.h"

namespace tilec::command {

RunReport run_add(const Engine& engine, const Request& request, const RunFlags& flags) {
  const auto& problem = std::get<AddProblem>(request.problem);
  const Device& device = engine.device();
  const int count = samples(device, flags);
  const std::uint64_t first_seed = seed(flags);
  const auto start = std::chrono::steady_clock::now();
  const Add plan = engine.plan(problem, request.options);
  const std::chrono::duration<double> planning = std::chrono::steady_clock::now() - start;

  const auto n = static_cast<std::size_t>(problem.shape.elements());
  const double bytes = 3.0 * static_cast<double>(n) * info(problem.dtype).size;
  expect_memory(bytes);
  const auto a = reference::random_array(problem.dtype, n, first_seed);
  const auto b = reference::random_array(problem.dtype, n, first_seed + 1);
  std::vector<std::byte> out(a.size(), std::byte{0xFF});
  using Buffer = DeviceBuffer<std::byte>;
  const auto copy = [&](const std::vector<std::byte>& from) {
    return from.empty() ? Buffer() : Buffer(device, std::span<const std::byte>(from));
  };
  const Buffer on_a = copy(a), on_b = copy(b), on_out = copy(out);
  const AddArguments arguments{.a = on_a.data(), .b = on_b.data(), .out = on_out.data()};

  RunReport report{.request = request,
                   .device = device.name(),
                   .plan = plan.info(),
                   .plan_seconds = planning.count(),
                   .timing = measure(device, count, [&] { plan.run(arguments); }),
                   .bytes = bytes};
  if (flags.check) {
    if (n != 0) device.copy_to_host(out.data(), on_out.data(), out.size());
    report.check = reference::check_add(problem, a.data(), b.data(), out.data());
  }
  return report;
}

}  // namespace tilec::command

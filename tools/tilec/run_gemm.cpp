// tilec run gemm.
#include <chrono>

#include "run_report.h"
#include "tilec/buffer.h"
#include "tilec/engine.h"

namespace tilec::command {
namespace {

DType accumulator(const Gemm& plan) {
  const PlanInfo info = plan.info();
  for (const LaunchInfo& launch : info.launches) {
    if (const auto found = launch.parameters.find("ACC"); found != launch.parameters.end()) {
      return found->second.dtype();
    }
  }
  return tilec::info(plan.problem().a).accumulator;
}

// The scalar as the plan's type holds it, and the same number for the reference.
struct TypedScalar {
  Scalar passed;
  double value;
};

TypedScalar scalar(const std::string& text, const char* name, DType type) {
  if (info(type).is_integer()) {
    const std::int64_t value = parse_integer(text, name, INT32_MIN, INT32_MAX);
    return {Scalar(static_cast<std::int32_t>(value)), static_cast<double>(value)};
  }
  const double value = parse_number(text, name);
  if (info(type).size == sizeof(double)) return {Scalar(value), value};
  const auto narrow = static_cast<float>(value);
  return {Scalar(narrow), static_cast<double>(narrow)};
}

using Bytes = std::vector<std::byte>;

struct Operands {
  Bytes a, b, c, d;
};

Operands operands(const GemmProblem& p, std::uint64_t seed, bool with_c) {
  const auto bytes = [](DType type, std::int64_t rows, std::int64_t columns, std::int64_t leading) {
    return static_cast<double>(rows) * static_cast<double>(std::max(columns, leading)) *
           info(type).size;
  };
  expect_memory(bytes(p.a, p.M, p.K, p.lda) + bytes(*p.b, p.K, p.N, p.ldb) +
                (with_c ? 2 : 1) * bytes(*p.d, p.M, p.N, p.ldd));
  const std::size_t results = reference::matrix_elements(p.M, p.N, p.ldd);
  return {.a = reference::random_matrix(p.a, p.M, p.K, p.lda, seed),
          .b = reference::random_matrix(*p.b, p.K, p.N, p.ldb, seed + 1),
          .c = with_c ? reference::random_matrix(*p.d, p.M, p.N, p.ldc, seed + 2) : Bytes(),
          .d = Bytes(results * static_cast<std::size_t>(info(*p.d).size), std::byte{0xFF})};
}

DeviceBuffer<std::byte> on_device(const Device& device, const Bytes& bytes) {
  if (bytes.empty()) return {};
  return {device, std::span<const std::byte>(bytes)};
}

}  // namespace

RunReport run_gemm(const Engine& engine, const Request& request, const RunFlags& flags) {
  const Device& device = engine.device();
  const int count = samples(device, flags);
  const std::uint64_t first_seed = seed(flags);
  const auto start = std::chrono::steady_clock::now();
  const Gemm plan = engine.plan(std::get<GemmProblem>(request.problem), request.options);
  const std::chrono::duration<double> planning = std::chrono::steady_clock::now() - start;

  const GemmProblem& p = plan.problem();
  const DType sums = accumulator(plan);
  const TypedScalar alpha = scalar(flags.alpha, "--alpha", info(sums).scalar);
  const TypedScalar beta = scalar(flags.beta, "--beta", info(sums).scalar);
  Operands host = operands(p, first_seed, beta.value != 0);
  const auto a = on_device(device, host.a), b = on_device(device, host.b);
  const auto c = on_device(device, host.c), d = on_device(device, host.d);
  const GemmArguments arguments{.a = a.data(),
                                .b = b.data(),
                                .c = c.data(),
                                .d = d.data(),
                                .alpha = alpha.passed,
                                .beta = beta.passed};

  RunReport report{.request = request,
                   .device = device.name(),
                   .plan = plan.info(),
                   .plan_seconds = planning.count(),
                   .timing = measure(device, count, [&] { plan.run(arguments); }),
                   .operations = 2.0 * static_cast<double>(p.M) * static_cast<double>(p.N) *
                                 static_cast<double>(p.K)};
  if (flags.check) {
    if (!host.d.empty()) device.copy_to_host(host.d.data(), d.data(), host.d.size());
    report.check = reference::check_gemm(p, sums,
                                         {.a = host.a.data(),
                                          .b = host.b.data(),
                                          .c = host.c.data(),
                                          .alpha = alpha.value,
                                          .beta = beta.value},
                                         host.d.data(), {.seed = first_seed});
    report.gaps_touched = !reference::gaps_untouched(*p.d, p.M, p.N, p.ldd, host.d.data());
  }
  return report;
}

}  // namespace tilec::command

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

struct Scalars {
  TypedScalar alpha, beta;
};

using Bytes = std::vector<std::byte>;

DeviceBuffer<std::byte> on_device(const Device& device, const Bytes& bytes) {
  if (bytes.empty()) return {};
  return {device, std::span<const std::byte>(bytes)};
}

void expect_memory_for(const GemmProblem& p, bool with_c) {
  const auto bytes = [](DType type, std::int64_t rows, std::int64_t columns, std::int64_t leading) {
    return static_cast<double>(rows) * static_cast<double>(std::max(columns, leading)) *
           info(type).size;
  };
  expect_memory(bytes(p.a, p.M, p.K, p.lda) + bytes(*p.b, p.K, p.N, p.ldb) +
                (with_c ? bytes(*p.d, p.M, p.N, p.ldc) : 0) + bytes(*p.d, p.M, p.N, p.ldd));
}

// A plan with data to run it on, here and on the device.
class Trial {
 public:
  Trial(const Engine& engine, const Gemm& plan, const Scalars& scalars, reference::Values values,
        std::uint64_t seed)
      : device_(engine.device()), plan_(plan), scalars_(scalars), values_(values), seed_(seed) {
    const GemmProblem& p = plan.problem();
    const auto random = [&](DType type, std::int64_t rows, std::int64_t columns,
                            std::int64_t leading, std::uint64_t place) {
      return reference::random_matrix(type, rows, columns, leading, seed + place, values);
    };
    a_ = random(p.a, p.M, p.K, p.lda, 0);
    b_ = random(*p.b, p.K, p.N, p.ldb, 1);
    if (scalars.beta.value != 0) c_ = random(*p.d, p.M, p.N, p.ldc, 2);
    d_.assign(
        reference::matrix_elements(p.M, p.N, p.ldd) * static_cast<std::size_t>(info(*p.d).size),
        std::byte{0xFF});
    on_a_ = on_device(device_, a_);
    on_b_ = on_device(device_, b_);
    on_c_ = on_device(device_, c_);
    on_d_ = on_device(device_, d_);
  }

  void run() const {
    plan_.run(GemmArguments{.a = on_a_.data(),
                            .b = on_b_.data(),
                            .c = on_c_.data(),
                            .d = on_d_.data(),
                            .alpha = scalars_.alpha.passed,
                            .beta = scalars_.beta.passed});
  }

  reference::Verdict check(DType sums) {
    if (!d_.empty()) device_.copy_to_host(d_.data(), on_d_.data(), d_.size());
    return reference::check_gemm(
        plan_.problem(), sums,
        {.a = a_.data(),
         .b = b_.data(),
         .c = c_.data(),
         .alpha = scalars_.alpha.value,
         .beta = scalars_.beta.value},
        d_.data(), {.data_with_mean = values_ == reference::Values::positive, .seed = seed_});
  }

  // Whether something lies between the rows of the D that was checked.
  bool gaps_touched() const {
    const GemmProblem& p = plan_.problem();
    return !reference::gaps_untouched(*p.d, p.M, p.N, p.ldd, d_.data());
  }

 private:
  const Device& device_;
  const Gemm& plan_;
  Scalars scalars_;
  reference::Values values_;
  std::uint64_t seed_;
  Bytes a_, b_, c_, d_;
  DeviceBuffer<std::byte> on_a_, on_b_, on_c_, on_d_;
};

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
  const Scalars scalars{.alpha = scalar(flags.alpha, "--alpha", info(sums).scalar),
                        .beta = scalar(flags.beta, "--beta", info(sums).scalar)};
  expect_memory_for(p, scalars.beta.value != 0);
  RunReport report{.request = request,
                   .device = device.name(),
                   .plan = plan.info(),
                   .plan_seconds = planning.count(),
                   .timing = {},
                   .operations = 2.0 * static_cast<double>(p.M) * static_cast<double>(p.N) *
                                 static_cast<double>(p.K)};
  // One set of operands at a time: they may fill the memory.
  {
    Trial trial(engine, plan, scalars, reference::Values::normal, first_seed);
    report.timing = measure(device, count, [&] { trial.run(); });
    if (!flags.check) return report;
    report.check = trial.check(sums);
    report.gaps_touched = trial.gaps_touched();
  }
  Trial trial(engine, plan, scalars, reference::Values::positive, first_seed);
  trial.run();
  report.positive_check = trial.check(sums);
  report.gaps_touched = report.gaps_touched || trial.gaps_touched();
  return report;
}

}  // namespace tilec::command

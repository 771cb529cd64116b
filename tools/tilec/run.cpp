// tilec run: plans a problem, runs it on random data, times it and checks it.
#include <CLI/CLI.hpp>
#include <memory>

#include "command.h"
#include "problem_flags.h"
#include "run_report.h"

namespace tilec::command {
namespace {

int run(const GlobalFlags& global, const Request& request, const RunFlags& flags) {
  const Engine engine(Device::named(flags.device), global.options());
  const bool gemm = operation(request.problem) == Operation::gemm;
  const RunReport report =
      gemm ? run_gemm(engine, request, flags) : run_add(engine, request, flags);
  if (global.json) {
    print_json(to_json(report));
  } else {
    print_text(text(report));
  }
  if (const std::string why = complaint(report); !why.empty()) print_warning(why);
  return report.right() ? kExitOk : kExitFailure;
}

}  // namespace

void register_run(CLI::App& root, Invocation& invocation) {
  auto* app =
      root.add_subcommand("run", "Plan one problem, run it on random data, time and check it");
  app->footer(
      "  tilec run gemm 512 512 512 --dtype f16 --check\n"
      "  tilec run gemm 100 200 300 --template gemm_regn --set TILE=24 --set TN=3 --device host\n"
      "  tilec run add 1000000 --template add_tiled --set TILE=64\n");
  add_problem_subcommands(*app, [&](CLI::App& operation, const MakeRequest& request) {
    const auto flags = std::make_shared<RunFlags>();
    operation
        .add_option("--device", flags->device, "cuda, cuda:1, …, or host for the CPU emulator")
        ->type_name("DEVICE")
        ->capture_default_str();
    operation.add_flag(
        "--check", flags->check,
        "Compare with a float64 reference, a GEMM on positive data too; 1 if it is wrong");
    operation.add_option("--seed", flags->seed, "Of the random data")
        ->type_name("N")
        ->capture_default_str();
    operation
        .add_option("--repeat", flags->repeat, "Samples; left out: 20 on a GPU, 1 on the host")
        ->type_name("N");
    if (operation.get_name() == "gemm") {
      operation.add_option("--alpha", flags->alpha, "Scale of A·B")->capture_default_str();
      operation.add_option("--beta", flags->beta, "Scale of C")->capture_default_str();
    }
    operation.callback([&invocation, flags, request] {
      invocation.run = [flags, request](const GlobalFlags& global) {
        return run(global, request(), *flags);
      };
    });
  });
}

}  // namespace tilec::command

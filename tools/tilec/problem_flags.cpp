// Problems on the command line.
#include "problem_flags.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <memory>

namespace tilec::command {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct ProblemFlags {
  std::string M, N, K;
  std::string dtype = "f32";
  std::string template_name;
  std::vector<std::string> settings;
  std::string lda, ldb, ldc, ldd;

  PlanOptions options() const {
    return {.template_name = template_name, .parameters = parse_settings(settings)};
  }
};

void add_common_flags(CLI::App& app, ProblemFlags& flags) {
  app.add_option("--dtype", flags.dtype, "Element type: " + dtype_names())
      ->type_name("DTYPE")
      ->capture_default_str();
  app.add_option("--template", flags.template_name, "The kernel template; left out: chosen")
      ->type_name("NAME");
  app.add_option("--set", flags.settings, "A template parameter, as in --set TILE=64; repeatable")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

Request gemm_request(const ProblemFlags& flags) {
  const auto ld = [](const std::string& text, const char* name) {
    return text.empty() ? 0 : parse_integer(text, name, 1, kMost);
  };
  const GemmProblem problem{.M = parse_integer(flags.M, "M", 0, kMost),
                            .N = parse_integer(flags.N, "N", 0, kMost),
                            .K = parse_integer(flags.K, "K", 0, kMost),
                            .a = parse_type(flags.dtype),
                            .lda = ld(flags.lda, "--lda"),
                            .ldb = ld(flags.ldb, "--ldb"),
                            .ldc = ld(flags.ldc, "--ldc"),
                            .ldd = ld(flags.ldd, "--ldd")};
  return {normalized(problem), flags.options()};
}

Request add_request(const ProblemFlags& flags) {
  return {AddProblem{.shape = parse_shape(flags.N), .dtype = parse_type(flags.dtype)},
          flags.options()};
}

}  // namespace

void add_problem_subcommands(CLI::App& parent,
                             const std::function<void(CLI::App&, const MakeRequest&)>& complete) {
  auto* gemm = parent.add_subcommand("gemm", "D = alpha·A·B + beta·C with A M×K, B K×N; row-major");
  const auto gemm_flags = std::make_shared<ProblemFlags>();
  gemm->add_option("M", gemm_flags->M, "Rows of A and D")->required();
  gemm->add_option("N", gemm_flags->N, "Columns of B and D")->required();
  gemm->add_option("K", gemm_flags->K, "Columns of A, rows of B")->required();
  add_common_flags(*gemm, *gemm_flags);
  const auto ld = [&](const char* name, std::string& value, const char* meaning) {
    gemm->add_option(name, value, meaning)->type_name("ELEMENTS");
  };
  ld("--lda", gemm_flags->lda, "From one row of A to the next; left out: K");
  ld("--ldb", gemm_flags->ldb, "From one row of B to the next; left out: N");
  ld("--ldc", gemm_flags->ldc, "From one row of C to the next; left out: --ldd, or N");
  ld("--ldd", gemm_flags->ldd, "From one row of D to the next; left out: --ldc, or N");
  complete(*gemm, [gemm_flags] { return gemm_request(*gemm_flags); });

  auto* add = parent.add_subcommand("add", "out = a + b, elementwise");
  const auto add_flags = std::make_shared<ProblemFlags>();
  add->add_option("N", add_flags->N, "Elements, or a shape such as 64x32")->required();
  add_common_flags(*add, *add_flags);
  complete(*add, [add_flags] { return add_request(*add_flags); });
  parent.require_subcommand(1);
}

Json to_json(const Parameters& parameters) {
  Json json = Json::object();
  for (const auto& [name, value] : parameters) {
    if (value.is_dtype()) {
      json[name] = value.text();
    } else {
      json[name] = value.integer();
    }
  }
  return json;
}

Json to_json(const Request& request) {
  Json json{{"op", to_string(operation(request.problem))}};
  if (const auto* gemm = std::get_if<GemmProblem>(&request.problem)) {
    json["M"] = gemm->M;
    json["N"] = gemm->N;
    json["K"] = gemm->K;
    json["dtype"] = info(gemm->a).name;
    if (gemm->b && *gemm->b != gemm->a) json["dtype_b"] = info(*gemm->b).name;
    if (gemm->d && *gemm->d != gemm->a) json["dtype_d"] = info(*gemm->d).name;
    for (const auto& [name, value] : stated_leading_dimensions(*gemm)) json[name] = value;
  } else {
    const auto& add = std::get<AddProblem>(request.problem);
    Json shape = Json::array();
    for (int i = 0; i < add.shape.rank(); ++i) shape.push_back(add.shape[i]);
    json["shape"] = shape;
    json["dtype"] = info(add.dtype).name;
  }
  if (!request.options.template_name.empty()) json["template"] = request.options.template_name;
  if (!request.options.parameters.empty()) {
    json["parameters"] = to_json(request.options.parameters);
  }
  if (request.options.max_workspace != PlanOptions{}.max_workspace) {
    json["max_workspace"] = request.options.max_workspace;
  }
  return json;
}

}  // namespace tilec::command

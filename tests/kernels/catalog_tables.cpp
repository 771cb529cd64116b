#include "tests/kernels/catalog_tables.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/kernels/add_case.h"
#include "tests/kernels/gemm_case.h"
#include "tests/kernels/tile_extent.h"

namespace tilec::test {
namespace {

// The default parameters, then a pairwise cover. Sanitizers make each of them cost several times as
// much.
std::vector<Parameters> parameter_sets(const KernelTemplate& kernel, DType T,
                                       const Target& target) {
  std::vector<Parameters> cover = pairwise_samples(kernel, T, target), sets{{}};
  const std::size_t step = sanitized ? 3 : 1;
  for (std::size_t i = 0; i < cover.size(); i += step) sets.push_back(cover[i]);
  return sets;
}

template <class Case>
void run_cases(const KernelTemplate& kernel, DType T, const Parameters& parameters,
               const std::vector<NamedEngine>& engines, const std::vector<Case>& cases) {
  const PlanOptions plan{.template_name = kernel.name, .parameters = parameters};
  for (const NamedEngine& named : engines) {
    for (const Case& one : cases) {
      const std::string wrong = failure(named.engine, plan, one);
      CHECK_MESSAGE(wrong.empty(), kernel.name, " ", describe(parameters), " T=", info(T).name,
                    ", ", describe(one), ", on ", named.name, ": ", wrong);
    }
  }
}

// Calls run(kernel, parameters, complete parameters) for all of an operation.
template <class Run>
void for_each_set(Operation operation, DType T, const Target& target, Run run) {
  int sets = 0;
  for (const KernelTemplate& kernel : catalog()) {
    if (kernel.operation != operation || std::ranges::count(kernel.dtypes, T) == 0 ||
        target.sm() < kernel.least_sm) {
      continue;
    }
    for (const Parameters& parameters : parameter_sets(kernel, T, target)) {
      run(kernel, parameters, complete(kernel, T, parameters, target));
      ++sets;
    }
  }
  CHECK(sets > 0);
}

}  // namespace

void run_gemm_table(DType T, const std::vector<NamedEngine>& engines) {
  const Target target = engines.front().engine.device().target();
  for_each_set(
      Operation::gemm, T, target,
      [&](const KernelTemplate& kernel, const Parameters& parameters, const Parameters& complete) {
        const TileExtent tile = tile_extent(kernel, T, complete);
        run_cases(kernel, T, parameters, engines, shape_cases(T, tile.rows, tile.columns));
        run_cases(kernel, T, parameters, engines, meaning_cases(T, tile.rows, tile.columns));
      });
}

void run_add_table(DType T, const std::vector<NamedEngine>& engines) {
  const Target target = engines.front().engine.device().target();
  for_each_set(
      Operation::add, T, target,
      [&](const KernelTemplate& kernel, const Parameters& parameters, const Parameters& complete) {
        run_cases(kernel, T, parameters, engines,
                  add_cases(T, complete, tile_extent(kernel, T, complete).columns));
      });
}

}  // namespace tilec::test

// The one table of GEMMs and Adds, on the host device under every scheduling order, and on a GPU.
#include <doctest/doctest.h>

#include "tests/kernels/catalog_tables.h"
#include "tests/kernels/element_types.h"
#include "tests/support/skip.h"

namespace tilec::test {
namespace {

TEST_SUITE("host") {
  TEST_CASE_TEMPLATE("GEMM on the host device", T, TILEC_ELEMENT_TYPES) {
    run_gemm_table(dtype_of<T>, host_engines());
  }
  TEST_CASE_TEMPLATE("Add on the host device", T, TILEC_ELEMENT_TYPES) {
    run_add_table(dtype_of<T>, host_engines());
  }
}

TEST_SUITE("gpu") {
  TEST_CASE_TEMPLATE("GEMM on a GPU", T, TILEC_ELEMENT_TYPES) {
    const GpuEngines gpu = gpu_engines();
    if (gpu.engines.empty()) return skip(gpu.why);
    run_gemm_table(dtype_of<T>, gpu.engines);
  }
  TEST_CASE_TEMPLATE("Add on a GPU", T, TILEC_ELEMENT_TYPES) {
    const GpuEngines gpu = gpu_engines();
    if (gpu.engines.empty()) return skip(gpu.why);
    run_add_table(dtype_of<T>, gpu.engines);
  }
}

}  // namespace
}  // namespace tilec::test

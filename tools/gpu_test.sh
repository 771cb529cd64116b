#!/usr/bin/env bash
# On a machine with a GPU: builds, runs the gpu-labelled tests, and a sample of them under
# compute-sanitizer (memcheck and racecheck). Installs nothing.
#
#   tools/gpu_test.sh [BUILD_DIR] [cmake arguments…]      by default build/gpu
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/gpu}
[ $# -gt 0 ] && shift

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" >"$build.configure.log" 2>&1 ||
  { cat "$build.configure.log" >&2; exit 1; }
cmake --build "$build" -j "$(nproc)"
ctest --test-dir "$build" -L gpu -j 4 --output-on-failure

export TILEC_CACHE_DIR=$build/sanitizer-cache
tilec=$build/tools/tilec/tilec
for tool in memcheck racecheck; do
  for problem in "gemm 65 33 70 --set TILE=32" "gemm 130 129 31 --template gemm_regn --set TILE=64 --set TN=8" \
                 "gemm 31 7 65 --template gemm_naive --dtype f64" "gemm 50 50 50 --template gemm_regn --dtype f16" \
                 "add 100003" "add 100003 --template add_tiled" "add 4099 --template add_elementwise --dtype bf16"; do
    echo "compute-sanitizer --tool $tool: $problem"
    # shellcheck disable=SC2086  # the problem is several words
    compute-sanitizer --tool "$tool" --error-exitcode 9 --quiet "$tilec" run $problem --device cuda:0 --check >/dev/null
  done
done
echo "gpu tests and sanitizer sample: passed"

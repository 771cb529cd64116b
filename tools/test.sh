#!/usr/bin/env bash
# From a fresh clone to the test summary: sets the machine up, builds, runs the tests.
#
#   tools/test.sh                  # all but the tests labelled long
#   tools/test.sh -L host          # what follows goes to ctest: here the tests of one label,
#   tools/test.sh -R 'gemm.*f16'   # here those whose names match
#   tools/test.sh --long           # all of them
#   tools/test.sh --ci             # as CI does: warnings are errors, once more at -O3 with fortification, and
#                                  # under sanitizers; CI in the environment, set to anything, does the same
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

preset=dev
ci=${CI:+yes}
while [[ ${1:-} == --ci || ${1:-} == --long ]]; do
  if [[ $1 == --ci ]]; then ci=yes; else preset=long; fi
  shift
done

say() { echo; echo "== $*"; }

cuda=$(tools/setup.sh)
export TILEC_NVRTC=${TILEC_NVRTC:-${cuda#*|}}
if command -v ccache >/dev/null 2>&1; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 # one clone's objects serve another
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS-pch_defines,time_macros} # what precompiled headers ask for
fi
jobs=$(nproc)
status=0
summaries=()

# build <preset> [<target>…]
build() {
  local preset=$1
  shift
  say "build: $preset"
  cmake --preset "$preset" -DTILEC_CUDA_INCLUDE_DIR="${cuda%|*}" "-DTILEC_WERROR=${ci:+ON}"
  "${wrapper[@]}" cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"}
}

# run_tests <name> <ctest argument>…: keeps going, so that one run shows everything that fails.
run_tests() {
  local name=$1 log
  shift
  say "test: $name"
  log=$(mktemp)
  "${wrapper[@]}" ctest -j "$jobs" "$@" </dev/null 2>&1 | tee "$log" || status=1
  summaries=("$(sed -n '/tests passed/,$p' "$log")" "${summaries[@]}")
  rm -f "$log"
}

# starts_under_tsan [<command>…]: some kernels randomise addresses further than g++'s TSan can follow.
starts_under_tsan() {
  local folder result=0
  folder=$(mktemp -d)
  echo 'int main() {}' | g++ -fsanitize=thread -x c++ - -o "$folder/probe"
  "$@" "$folder/probe" 2>/dev/null || result=1
  rm -rf "$folder"
  return "$result"
}

wrapper=(env)
build dev
run_tests dev --preset "$preset" "$@"

if [[ -n $ci ]]; then
  build strict
  run_tests strict --preset strict

  build asan tilec_asan_tests
  run_tests asan --preset asan

  starts_under_tsan env || wrapper=(setarch "$(uname -m)" -R)
  build tsan tilec_tsan_tests
  run_tests tsan --preset tsan
fi

if [[ -n $ci ]]; then
  say "all summaries, the dev build's last"
  printf '%s\n' "${summaries[@]}"
fi
exit "$status"

#!/usr/bin/env bash
# From a fresh clone to two kernels that run: sets the machine up, builds the tilec command, precompiles
# a few kernels, then plans, runs and checks a matrix product and an addition, twice: on the GPU if
# there is one, else on the host device, an emulator. The second time they come out of the cache.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo; echo "== $*"; }

cuda=$(tools/setup.sh)
export TILEC_NVRTC=${TILEC_NVRTC:-${cuda#*|}}
if command -v ccache >/dev/null 2>&1; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 # one clone's objects serve another
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS-pch_defines,time_macros} # what precompiled headers ask for
fi

say "build: the tilec command, in build/dev"
cmake --preset dev -DTILEC_CUDA_INCLUDE_DIR="${cuda%|*}" >/dev/null
quiet=()
[[ -t 1 ]] || quiet=(-- --quiet)
cmake --build --preset dev --target tilec_command -j "$(nproc)" "${quiet[@]}"
tilec=$PWD/build/dev/tools/tilec/tilec

# A cache of the demo's own, empty at first, so that the first runs really compile.
export TILEC_CACHE_DIR=$PWD/build/demo-cache
rm -rf "$TILEC_CACHE_DIR"

say "tilec build: kernels for two generations of GPUs, which need not be here"
"$tilec" build --arch sm_80,sm_90a --gemm 512,512,512 --gemm 512,512,512,f16 --add 1000000
"$tilec" cache ls

device=host
if grep -q '^cuda *cuda:0' <<<"$("$tilec" info)"; then
  device=cuda:0
else
  say "no GPU here: what follows runs on the host device, an emulator made for correctness, not speed"
fi
for time in first second; do
  say "tilec run, the $time time"
  "$tilec" run gemm 512 512 512 --device "$device" --check
  "$tilec" run add 1000000 --device "$device" --check
done

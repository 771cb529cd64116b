#!/usr/bin/env bash
# Installs what tilec is built with and this machine lacks: Debian or Ubuntu packages, and, where
# there is no CUDA toolkit, NVRTC and the CUDA headers as wheels in build/cuda. Where all is there it
# changes nothing and touches no network. The last line on stdout is the folder of the CUDA headers
# and NVRTC's library, parted by a '|', for the scripts that call this one.
#
#   tools/setup.sh                      # as root, or where sudo works
#   TILEC_FORCE_WHEELS=1 tools/setup.sh # the wheels even where there is a toolkit
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "setup: $*" >&2; }
fail() {
  say "$*"
  exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }
has_header() { has g++ && echo "#include <$1>" | g++ -E -x c++ - >/dev/null 2>&1; }
has_library() { has g++ && [[ $(g++ -print-file-name="$1") == /* ]]; }

# Sets `missing` to the packages that are not there, whoever installed what they hold.
find_missing_packages() {
  missing=()
  has g++ || missing+=(g++)
  has cmake || missing+=(cmake)
  has ninja || missing+=(ninja-build)
  has_header spdlog/spdlog.h || missing+=(libspdlog-dev)
  has_header xxhash.h || missing+=(libxxhash-dev)
  has_header doctest/doctest.h || missing+=(doctest-dev)
  has_header CLI/CLI.hpp || missing+=(libcli11-dev)
  has_header nlohmann/json.hpp || missing+=(nlohmann-json3-dev)
  { has_header boost/context/detail/fcontext.hpp &&
    { has_library libboost_context.a || has_library libboost_context.so; }; } ||
    missing+=(libboost-context-dev)
}

as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif has sudo; then
    sudo "$@"
  else
    fail "this needs root or sudo: $*"
  fi
}

install_packages() {
  has apt-get || fail "no apt-get here; please install by hand what these Debian packages hold: $*"
  say "installing $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q -o Acquire::Retries=3 >&2 ||
    say "apt-get update failed; going on with the package lists at hand"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    -o Acquire::Retries=3 "$@" </dev/null >&2 || fail "apt-get could not install $*"
}

check_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/.* //p')
  [[ $(printf '%s\n3.25\n' "$version" | sort -V | head -n 1) == 3.25 ]] ||
    fail "cmake $version is too old; tilec needs 3.25 (Debian 12, Ubuntu 24.04) or later"
}

find_cuda() { cmake ${TILEC_FORCE_WHEELS:+-DTILEC_FORCE_WHEELS=1} -P tools/cmake/cuda.cmake; }

fetch_cuda_wheels() {
  local packages=()
  python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)
  [[ -e /etc/ssl/certs/ca-certificates.crt ]] || packages+=(ca-certificates)
  [[ ${#packages[@]} == 0 ]] || install_packages "${packages[@]}"
  say "no CUDA toolkit with NVRTC in use; fetching NVIDIA's wheels into build/cuda (90 MB, under NVIDIA's licence)"
  mkdir -p build
  local folder
  folder=$(mktemp -d build/cuda.XXXXXX)
  python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps \
    --only-binary :all: --require-hashes --target "$folder" -r tools/cuda-wheels.txt </dev/null >&2 ||
    { rm -rf "$folder"; fail "pip could not fetch the wheels that tools/cuda-wheels.txt lists"; }
  chmod 755 "$folder" # mktemp makes it for this user alone
  cp tools/cuda-wheels.txt "$folder/"
  rm -rf build/cuda
  mv "$folder" build/cuda
}

find_missing_packages
[[ ${#missing[@]} == 0 ]] || install_packages "${missing[@]}"
check_cmake

cuda=$(find_cuda)
if [[ $cuda == "$PWD/build/cuda/"* ]] && ! cmp -s tools/cuda-wheels.txt build/cuda/cuda-wheels.txt; then
  cuda="|" # fetched for an older list
fi
if [[ $cuda != ?*'|'?* ]]; then
  fetch_cuda_wheels
  cuda=$(find_cuda)
  [[ $cuda == ?*'|'?* ]] || fail "the wheels in build/cuda hold no cuda.h, nvrtc.h or libnvrtc"
fi
say "ready; CUDA headers in ${cuda%|*}, NVRTC ${cuda#*|}"
echo "$cuda"

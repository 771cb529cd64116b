#!/usr/bin/env bash
# The README's two commands on bare systems, as a stranger has them: for each distribution debootstrap
# makes a minimal one, which gets a clone of HEAD and runs tools/demo.sh and tools/test.sh in it. By hand,
# as root; a quarter of an hour and 4 GB each. Ends on a table, and with status 1 if anything failed.
#
#   tools/check_distributions.sh                     # Debian 12 and 13
#   tools/check_distributions.sh trixie              # one of them
#   tools/check_distributions.sh noble@http://archive.ubuntu.com/ubuntu
#   WORK=/var/tmp/tilec KEEP=1 tools/check_distributions.sh
#       where the systems are made; KEEP leaves them for the next run, which then starts from them
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { echo "check_distributions: $*" >&2; exit 1; }
[[ $(id -u) == 0 ]] || fail "making a system needs root"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
[[ -z $(git status --porcelain) ]] || echo "check_distributions: HEAD is tried, without what is not committed" >&2

work=${WORK:-$(mktemp -d /var/tmp/tilec-distributions.XXXXXX)}
distributions=("$@")
[[ $# != 0 ]] || distributions=(bookworm trixie)
rows=()
status=0

# in_system <root> <command>: with mounts that end with it, and nothing of this machine's environment but
# the certificates that a proxy may need.
in_system() {
  local root=$1 certificates=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt} pip=
  if [[ -e $certificates ]]; then
    cp -f "$certificates" "$root/root/certificates.crt"
    pip=PIP_CERT=/root/certificates.crt
  fi
  unshare --mount --pid --fork --kill-child bash -c '
    mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/dev/shm" &&
    exec chroot "$1" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      $3 bash -c "$2"' bash "$root" "$2" "$pip" </dev/null
}

# try <distribution> <root> <command>: a row of the table.
try() {
  local name=$1 root=$2 command=$3 start=$SECONDS result=passed log
  log=$work/$name-${command##*/}.log
  echo "== $name: $command (its output: $log)"
  in_system "$root" "cd /root/tilec && $command" >"$log" 2>&1 || { result=FAILED; status=1; tail -n 25 "$log"; }
  local compiler tests size
  compiler=$(in_system "$root" 'g++ -dumpfullversion; cmake --version | sed -n "1s/.* //p"' | tr '\n' ' ')
  tests=$(grep -E 'tests passed' "$log" | tail -n 1 || true)
  size=$(du -sh "$root/root/tilec/build" 2>/dev/null | cut -f 1 || true)
  rows+=("$(printf '%-10s %-14s %-7s %4d s  g++, cmake %s build/ %s  %s' "$name" "$command" "$result" \
    $((SECONDS - start)) "$compiler" "$size" "$tests")")
}

for distribution in "${distributions[@]}"; do
  name=${distribution%%@*}
  mirror=
  [[ $distribution != *@* ]] || mirror=${distribution#*@}
  root=$work/$name
  if [[ ! -e $root/complete ]]; then
    echo "== $name: debootstrap in $root"
    mkdir -p "$root"
    debootstrap --variant=minbase "$name" "$root" ${mirror:+"$mirror"} >"$work/$name-debootstrap.log" 2>&1 ||
      { tail -n 5 "$work/$name-debootstrap.log"; fail "debootstrap could not make $name"; }
    touch "$root/complete"
  fi
  cp -f /etc/resolv.conf "$root/etc/resolv.conf"
  rm -rf "$root/root/tilec"
  git clone -q --no-hardlinks . "$root/root/tilec"
  try "$name" "$root" tools/demo.sh
  rm -rf "$root/root/tilec/build/dev" # so that each command builds from nothing
  try "$name" "$root" tools/test.sh
  [[ -n ${KEEP:-} ]] || rm -rf "$root"
done

echo
printf '%s\n' "${rows[@]}"
exit "$status"

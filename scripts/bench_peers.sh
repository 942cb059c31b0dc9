#!/usr/bin/env bash
# Installs the peers of symccl-bench and builds their workers beside it; prints their versions. Run `make setup` first:
# gloo comes with the torch of .venv.
#
#   scripts/bench_peers.sh [folder of symccl-bench]     default: build/tools
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/tools}

say() { printf 'bench-peers: %s\n' "$*"; }
fail() {
  printf 'bench-peers: %s\n' "$@" >&2
  exit 1
}

[[ -x $folder/symccl-bench ]] || fail "there is no $folder/symccl-bench; build it first (make setup)"

packages=(openmpi-bin libopenmpi-dev mpich libmpich-dev)
if command -v dpkg-query >/dev/null; then
  missing=()
  for package in "${packages[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  if ((${#missing[@]})); then
    install=(apt-get install -y --no-install-recommends "${missing[@]}")
    ((EUID == 0)) || fail "packages are missing; please run" "  sudo ${install[*]}"
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=300 -qq update
    apt-get -o DPkg::Lock::Timeout=300 -qq "${install[@]:1}" >/dev/null
  fi
fi

for mpi in openmpi mpich; do
  compiler=mpicc.$mpi
  if ! command -v "$compiler" >/dev/null; then
    say "$mpi: absent, there is no $compiler"
    continue
  fi
  "$compiler" -std=gnu11 -O2 -Wall -Wextra tools/symccl_bench/mpi_worker.c -o "$folder/symccl-bench-peer-$mpi"
  say "$mpi: $("mpirun.$mpi" --version 2>&1 | awk 'NF' | head -n 2 | tr -s ' \n' ' ')"
done
say "gloo: torch $(.venv/bin/python -c 'import torch; print(torch.__version__)' 2>/dev/null || echo 'absent, .venv has none')"
say "shm-staged: built in"

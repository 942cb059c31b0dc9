# Debian packages, for scripts to source. Expects `script`, which stands before what is said.

say() { printf '%s: %s\n' "$script" "$*"; }
fail() {
  printf "$script: %s\n" "$@" >&2
  exit 1
}

# install_packages PACKAGE...: by apt what is missing, or, without the right to do so, the one command to run.
install_packages() {
  local package missing=()
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian: expecting the equivalents of $*"
    return
  fi
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local install=(apt-get install -y --no-install-recommends "${missing[@]}")
  ((EUID == 0)) || fail "packages are missing; please run" "  sudo ${install[*]}"
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -o DPkg::Lock::Timeout=300 -qq update
  apt-get -o DPkg::Lock::Timeout=300 -qq "${install[@]:1}" >/dev/null
}

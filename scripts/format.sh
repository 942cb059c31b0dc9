#!/usr/bin/env bash
# Formats and lints all code; with --check only says what differs, as `make test` does.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin

mapfile -t cpp < <(find include src python tools tests examples -name '*.cpp' -o -name '*.hpp' | sort)
failed=0
if [[ ${1:-} == --check ]]; then
  places=$("$bin/clang-format" --dry-run -Werror "${cpp[@]}" 2>&1 | grep -oE '^[^ :]+:[0-9]+:[0-9]+: error.*')
  if [[ -n $places ]]; then
    printf '%s\n' "$places" | cut -d: -f1 | uniq -c | sed 's/$/: places that `make format` would change/'
    failed=1
  fi
  "$bin/ruff" check --output-format concise || failed=1
  "$bin/ruff" format --check || failed=1
else
  "$bin/clang-format" -i "${cpp[@]}" || failed=1
  "$bin/ruff" check --fix || failed=1
  "$bin/ruff" format || failed=1
fi
exit $failed

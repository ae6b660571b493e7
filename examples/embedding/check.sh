#!/usr/bin/env bash
# Builds vyre's wheel, installs it and tinylang side by side, type-checks tinylang against the installed wheel, runs it.
# Usage: check.sh PYTHON, a Python that has pip and mypy.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../installed.sh" "${1:-}" "$here"

cp "$here/run_installed.py" "$work/"
cd "$work"
for what in "-p tinylang" run_installed.py; do
    # shellcheck disable=SC2086  # two words on purpose
    "$python" -m mypy --strict --no-incremental --config-file= --python-executable "$fresh" $what
done
"$fresh" -c 'import vyre, sys; assert vyre.__file__.startswith(sys.prefix), vyre.__file__'
"$fresh" run_installed.py

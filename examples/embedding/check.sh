#!/usr/bin/env bash
# Builds vyre's wheel, installs it and tinylang side by side, type-checks tinylang against the installed wheel, runs it.
# Usage: check.sh PYTHON, a Python that has pip and mypy.
set -euo pipefail

python=$(realpath --no-symlinks "${1:?usage: check.sh PYTHON}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pip=("$python" -m pip --disable-pip-version-check --quiet)
purelib='import sysconfig; print(sysconfig.get_path("purelib"))'

# A fresh environment that holds the two wheels and borrows third-party packages from PYTHON.
"$python" -m venv --without-pip "$work/venv"
fresh="$work/venv/bin/python"
site=$("$fresh" -c "$purelib")
"$python" -c "$purelib" > "$site/borrowed.pth"
"${pip[@]}" wheel --no-deps --wheel-dir "$work/wheels" "$root" "$here"
"${pip[@]}" install --no-deps --no-compile --target "$site" "$work"/wheels/*.whl

cp "$here/run_installed.py" "$work/"
cd "$work"
for what in "-p tinylang" run_installed.py; do
    # shellcheck disable=SC2086  # two words on purpose
    "$python" -m mypy --strict --no-incremental --config-file= --python-executable "$fresh" $what
done
"$fresh" -c 'import vyre, sys; assert vyre.__file__.startswith(sys.prefix), vyre.__file__'
"$fresh" run_installed.py

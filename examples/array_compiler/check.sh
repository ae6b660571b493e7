#!/usr/bin/env bash
# Builds the wheels of vyre and of this compiler, installs both in a fresh environment, type-checks the compiler against
# the installed wheel with mypy and pyright, both strict, and runs its tests from outside the tree.
# Usage: check.sh PYTHON, a Python that has pip, mypy, basedpyright, pytest and the dependencies of vyre and `vyre[cpu]`.
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

cp -r "$here/tests" "$here/pyproject.toml" "$work/"
cd "$work"
"$fresh" -c 'import vyre, sys; assert vyre.__file__.startswith(sys.prefix), vyre.__file__'
"$python" -m mypy --strict --no-incremental --config-file= --python-executable "$fresh" -p array_compiler
"$python" -m mypy --strict --no-incremental --config-file= --python-executable "$fresh" tests
cat > pyrightconfig.json << EOF
{"typeCheckingMode": "strict", "include": ["$site/array_compiler", "tests"], "exclude": []}
EOF
"$(dirname "$python")/basedpyright" --pythonpath "$fresh" -p pyrightconfig.json
"$fresh" -m pytest -q -p no:cacheprovider tests

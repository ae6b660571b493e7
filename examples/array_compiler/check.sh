#!/usr/bin/env bash
# Builds the wheels of vyre and of this compiler, installs both in a fresh environment, type-checks the compiler against
# the installed wheel with mypy and pyright, both strict, and runs its tests from outside the tree.
# Usage: check.sh PYTHON, a Python that has pip, mypy, basedpyright, pytest and the dependencies of vyre and `vyre[cpu]`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../installed.sh" "${1:-}" "$here"

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

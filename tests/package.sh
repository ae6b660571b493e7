#!/usr/bin/env bash
# Builds the source distribution, the wheel from it as pip does, and runs vyre from an environment that has nothing else.
# Usage: package.sh PYTHON, a Python that has pip and hatchling.
set -euo pipefail

python=$(realpath --no-symlinks "${1:?usage: package.sh PYTHON}")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$root"
"$python" -m hatchling build --target sdist --directory "$work/sdist"
cd "$work"
"$python" -m venv "$work/venv"
fresh=(env --unset=PYTHONPATH "$work/venv/bin/python" -I)
"${fresh[@]}" -m pip --disable-pip-version-check --quiet wheel --no-deps --wheel-dir wheels sdist/*.tar.gz
wheel=$(echo wheels/*.whl)
"${fresh[@]}" -m pip --disable-pip-version-check --quiet install "./$wheel[cli,cpu]"
"${fresh[@]}" -c 'import vyre, sys; assert vyre.__file__.startswith(sys.prefix), vyre.__file__'
export VYRE_CACHE_DIR="$work/cache"
"${fresh[@]}" -m vyre doctor
"${fresh[@]}" -m vyre demo --out "$work/pictures"

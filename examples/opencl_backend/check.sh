#!/usr/bin/env bash
# Builds the wheels of vyre and of this backend, installs both in a fresh environment, type-checks the backend against
# the installed wheel, and checks it from outside the tree: the contract, a short `vyre conform`, and its certificate.
# Usage: check.sh PYTHON [SECONDS], a Python that has pip, mypy, PyOpenCL and `vyre[cli]`'s dependencies.
set -euo pipefail

seconds=${2:-60}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../installed.sh" "${1:-}" "$here"
export POCL_CACHE_DIR="$work/pocl"
mkdir "$POCL_CACHE_DIR"

cd "$work"
"$python" -m mypy --strict --no-incremental --config-file= --python-executable "$fresh" -p vyre_opencl
"$fresh" -c 'import vyre_opencl, sys; assert vyre_opencl.__file__.startswith(sys.prefix), vyre_opencl.__file__'
"$fresh" -m vyre.testing.backend_contract opencl | grep -v '^SKIP'
"$fresh" -m vyre conform --backend opencl --budget "$seconds" -o certificate.json
"$fresh" -m vyre conform --verify certificate.json

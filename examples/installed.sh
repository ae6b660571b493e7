# Sourced by the check.sh of examples that are packages, with the arguments PYTHON and the folder of the example: builds the
# wheels of vyre and of the example and installs both in a fresh environment, which borrows all other packages from PYTHON.
# Sets: python (PYTHON, absolute), fresh (the Python of that environment), site (its packages), work (a folder of its own,
# which goes when the script ends).
# shellcheck shell=bash disable=SC2034  # what it sets is used by the script that sources it
python=$(realpath --no-symlinks "${1:?usage: check.sh PYTHON}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pip=("$python" -m pip --disable-pip-version-check --quiet)
purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
"$python" -m venv --without-pip "$work/venv"
fresh="$work/venv/bin/python"
site=$("$fresh" -c "$purelib")
"$python" -c "$purelib" > "$site/borrowed.pth"
"${pip[@]}" wheel --no-deps --wheel-dir "$work/wheels" "$2/../.." "$2"
"${pip[@]}" install --no-deps --no-compile --target "$site" "$work"/wheels/*.whl

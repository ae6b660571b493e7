"""``make matrix``: a quick part of the tests on every supported version of CPython that this machine has.

For each version an interpreter is looked for: ``python3.12`` on the search path, then those of pyenv and uv.  For each
one found, a virtual environment is made outside the working tree, the package is installed into it as a user would
install it, and the tests run against that.  Versions without an interpreter are named at the end.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
EXTRAS: Final = "cli,metrics,cpu"
TESTS: Final = (
    "tests/unit/frontend",
    "tests/unit/builder",
    "tests/unit/domain",
    "tests/unit/forms",
    "tests/unit/app",
    "tests/unit/cli",
    "tests/unit/cpu/native",
    "tests/unit/cpu/pool",
    "tests/unit/cpu/runtime",
    "tests/mistakes",
)
"""The areas that a version of Python can break: syntax trees, annotations, records, threads, the terminal."""
NOT_HERE: Final = ("tests/unit/app/test_public_face.py",)
"""Tests of the working tree and not of what is installed."""
PROBE_S: Final = 30
INSTALL_S: Final = 1_800
TESTS_S: Final = 3_600
_PROBE: Final = (
    "import ensurepip, platform, sys, sysconfig, venv\n"
    "print(platform.python_implementation(), '%d.%d' % sys.version_info[:2], platform.python_version(), "
    "sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
)


@dataclass(frozen=True)
class Interpreter:
    """A CPython that can make virtual environments.  ``release``: its whole version, such as 3.12.1."""

    version: str
    release: str
    path: Path


@dataclass(frozen=True)
class Outcome:
    """What came of one version.  ``ok`` is None for one without an interpreter."""

    version: str
    ok: bool | None
    text: str


def candidates(version: str, environment: dict[str, str], home: Path) -> Iterator[Path]:
    """Yields the places where an interpreter of a version may be, the likeliest first."""
    for folder in environment.get("PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder) / f"python{version}"
    pyenv = Path(environment.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    uv = Path(environment.get("UV_PYTHON_INSTALL_DIR") or home / ".local" / "share" / "uv" / "python")
    for root, pattern, executable in (
        (pyenv, rf"{re.escape(version)}\.\d+", "bin/python"),
        (uv, rf"cpython-{re.escape(version)}\.\d+-.*", f"bin/python{version}"),
    ):
        if root.is_dir():
            fitting = (found for found in root.iterdir() if re.fullmatch(pattern, found.name))
            for found in sorted(fitting, key=_numbers, reverse=True):
                yield found / executable


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.name)]


def found(version: str, paths: Iterable[Path]) -> Interpreter | None:
    """Returns the first of these files that is a CPython of the version, with a lock and with what a new
    environment needs.
    """
    for path in paths:
        if not path.is_file():
            continue
        try:
            done = subprocess.run([path, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=PROBE_S)
        except (OSError, subprocess.TimeoutExpired):
            continue
        words = done.stdout.split()
        if done.returncode == 0 and len(words) == 4 and words[:2] == ["CPython", version] and words[3] == "0":
            return Interpreter(version, words[2], path)
    return None


def install(version: str) -> str:
    """Installs an interpreter with uv or pyenv; returns what came of it."""
    for tool, command in (
        ("uv", ["uv", "python", "install", version]),
        ("pyenv", ["pyenv", "install", "--skip-existing", version]),
    ):
        if shutil.which(tool) is None:
            continue
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            return f"{tool} took too long"
        if done.returncode == 0:
            return f"installed by {tool}"
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason"]
        return f"{tool} could not install it: {lines[-1]}"
    return "neither uv nor pyenv is here to install it"


def test_requirements() -> list[str]:
    """Returns the packages that the tests need."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        group: list[str] = tomllib.load(file)["dependency-groups"]["test"]
    return group


def checked(interpreter: Interpreter, jobs: int, tests: Sequence[str], say: Callable[[str], None]) -> Outcome:
    """Installs the package for an interpreter, and runs the tests on it."""
    with tempfile.TemporaryDirectory(prefix=f"vyre-matrix-{interpreter.version}-") as folder:
        python = Path(folder) / "environment" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        environment |= {"VYRE_CACHE_DIR": str(Path(folder) / "cache"), "PYTHONDONTWRITEBYTECODE": ""}
        environment["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        steps: tuple[tuple[str, Sequence[str], int], ...] = (
            ("make an environment", [str(interpreter.path), "-m", "venv", str(python.parents[1])], INSTALL_S),
            ("install the package", [*pip, f"{ROOT}[{EXTRAS}]", *test_requirements()], INSTALL_S),
            (
                "pass the tests",
                [str(python), "-m", "pytest", "-q", "-n", str(jobs), "--quick", *tests]
                + [f"--ignore={path}" for path in NOT_HERE],
                TESTS_S,
            ),
        )
        for what, command, limit_s in steps:
            say(f"CPython {interpreter.release}: to {what}")
            try:
                code = subprocess.run(command, cwd=ROOT, env=environment, timeout=limit_s).returncode
            except subprocess.TimeoutExpired:
                return Outcome(interpreter.version, False, f"{interpreter.release} took too long to {what}")
            if code != 0:
                return Outcome(interpreter.version, False, f"{interpreter.release} failed to {what}")
    return Outcome(interpreter.version, True, f"{interpreter.release} passed ({interpreter.path})")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the matrix; returns 1 if a version failed or none was found, or one is missing that ``--require`` names."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--versions", default=",".join(VERSIONS), help="versions to look for, with commas")
    parser.add_argument("--require", default="", help="versions whose absence is a failure, with commas, or all")
    parser.add_argument("--install", action="store_true", help="let uv or pyenv install versions that are missing")
    parser.add_argument("--jobs", type=int, default=2, help="processes that run tests")
    parser.add_argument("tests", nargs="*", default=list(TESTS), help="tests to run instead of the usual ones")
    given = parser.parse_args(arguments)
    versions = [version for version in given.versions.split(",") if version]
    required = versions if given.require == "all" else given.require.split(",")
    outcomes = []
    for version in versions:
        places = list(candidates(version, dict(os.environ), Path.home()))
        interpreter, why = found(version, places), "no interpreter was found"
        if interpreter is None and given.install:
            why = install(version)
            interpreter = found(version, candidates(version, dict(os.environ), Path.home()))
        if interpreter is None:
            outcomes.append(Outcome(version, None, f"missing: {why}"))
        else:
            outcomes.append(checked(interpreter, given.jobs, given.tests, lambda text: print(text, flush=True)))
    return told(outcomes, required)


def told(outcomes: Sequence[Outcome], required: Sequence[str]) -> int:
    """Prints a line for each version, and returns the exit code."""
    marks = {True: "ok", False: "FAILED", None: "--"}
    for outcome in outcomes:
        print(f"{outcome.version:<6}{marks[outcome.ok]:<8}{outcome.text}")
    missing = [outcome.version for outcome in outcomes if outcome.ok is None]
    failed = [outcome.version for outcome in outcomes if outcome.ok is False]
    passed = len(outcomes) - len(missing) - len(failed)
    print(f"{passed} passed, {len(failed)} failed, {len(missing)} missing")
    return 1 if failed or not passed or set(missing) & set(required) else 0


if __name__ == "__main__":
    sys.exit(main())

"""The tests on several versions of Python: which interpreters are taken, and what is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from matrix import TESTS, VERSIONS, Interpreter, Outcome, candidates, found, told

ROOT = Path(__file__).parents[2]
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_interpreters_are_looked_for_on_the_path_then_in_pyenv_and_uv(tmp_path: Path) -> None:
    for name in ("3.12.1", "3.12.11", "3.11.7", "3.12-dev", "pypy3.12.1"):
        (tmp_path / ".pyenv" / "versions" / name).mkdir(parents=True)
    (tmp_path / ".local/share/uv/python/cpython-3.12.4-linux-x86_64-gnu").mkdir(parents=True)
    (tmp_path / ".local/share/uv/python/cpython-3.12.4+freethreaded-linux-x86_64-gnu").mkdir(parents=True)
    places = [str(path) for path in candidates("3.12", {"PATH": "/one::/two"}, tmp_path)]
    assert places == [
        "/one/python3.12",
        "/two/python3.12",
        f"{tmp_path}/.pyenv/versions/3.12.11/bin/python",
        f"{tmp_path}/.pyenv/versions/3.12.1/bin/python",
        f"{tmp_path}/.local/share/uv/python/cpython-3.12.4-linux-x86_64-gnu/bin/python3.12",
    ]


def test_only_an_interpreter_that_runs_and_has_the_version_is_taken(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 127\n", "utf-8")
    broken.chmod(0o755)
    real = Path(sys.executable)
    taken = found(HERE, [tmp_path / "nothing", tmp_path, broken, real])
    assert isinstance(taken, Interpreter)
    assert (taken.version, taken.path) == (HERE, real)
    assert taken.release.startswith(f"{HERE}.")
    assert found("3.99", [real]) is None
    assert found(HERE, [broken]) is None


@pytest.mark.parametrize(
    ("outcomes", "required", "code", "last"),
    [
        ([Outcome("3.11", True, "a"), Outcome("3.14", None, "missing")], [], 0, "1 passed, 0 failed, 1 missing"),
        ([Outcome("3.11", True, "a"), Outcome("3.14", None, "missing")], ["3.14"], 1, "1 passed, 0 failed, 1 missing"),
        ([Outcome("3.11", True, "a"), Outcome("3.12", False, "b")], [], 1, "1 passed, 1 failed, 0 missing"),
        ([Outcome("3.14", None, "missing")], [], 1, "0 passed, 0 failed, 1 missing"),
    ],
)
def test_the_last_line_counts(
    outcomes: list[Outcome], required: list[str], code: int, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(outcomes, required) == code
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_the_tests_and_versions_are_those_of_this_package() -> None:
    assert all((ROOT / path).exists() for path in TESTS)
    assert f'requires-python = ">={VERSIONS[0]}"' in (ROOT / "pyproject.toml").read_text("utf-8")

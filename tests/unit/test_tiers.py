"""What ``make test`` leaves to ``make check``: the same in every run, and of no test more than was said."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from support.limits import LIMIT_S
from support.tiers import CASES, COSTLY, MARKS, SHARE, chosen, quick_part

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Named:
    nodeid: str
    mark: str = ""

    def get_closest_marker(self, name: str, /) -> object | None:
        return self if name == self.mark else None


def cases(count: int, test: str = "tests/a.py::test_a") -> list[Named]:
    return [Named(f"{test}[{number}]") for number in range(count)]


def test_what_stays_depends_on_names_alone() -> None:
    items = [*cases(100), *cases(3, "tests/b.py::test_b"), Named("tests/c.py::test_c")]
    mixed = Random(1).sample(items, len(items))
    assert set(quick_part(items)) == set(quick_part(mixed))
    assert quick_part(mixed) == [item for item in mixed if item in quick_part(items)]


@pytest.mark.parametrize(
    ("count", "kept"), [(1, 1), (CASES, CASES), (CASES + 1, CASES), (CASES + 10 * SHARE, CASES + 10)]
)
def test_so_many_cases_of_a_test_stay(count: int, kept: int) -> None:
    assert len(quick_part(cases(count))) == kept


@pytest.mark.parametrize("mark", MARKS)
def test_what_is_marked_as_long_goes(mark: str) -> None:
    assert quick_part([Named("tests/a.py::test_a", mark), Named("tests/a.py::test_b")]) == [Named("tests/a.py::test_b")]


def test_of_a_costly_test_so_many_stay_as_the_table_says() -> None:
    name, most = next((name, most) for name, most in COSTLY.items() if most > 1)
    assert len(quick_part(cases(50, name))) == most
    assert chosen([item.nodeid for item in cases(50, name)], most) == chosen(
        reversed([i.nodeid for i in cases(50, name)]), most
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_last_line_says_what_was_left_and_the_one_before_what_passed(workers: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--quick", "tests/unit/domain/test_geometry.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    closing, last = done.stdout.splitlines()[-2:]
    passed = re.match(r"(\d+) passed", closing)
    kept = re.match(r"(\d+) of (\d+) tests, .*`make check` runs all\.$", last)
    assert passed is not None and kept is not None
    assert int(passed[1]) == int(kept[1]) < int(kept[2])


@pytest.mark.parametrize("name", COSTLY)
def test_every_costly_test_is_there(name: str) -> None:
    path, _, test = name.partition("::")
    defined = {
        node.name for node in ast.parse((ROOT / path).read_text("utf-8")).body if isinstance(node, ast.FunctionDef)
    }
    assert test in defined

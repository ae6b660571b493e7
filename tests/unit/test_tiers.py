"""What ``make test`` leaves to ``make check``: the same in every run, and of no test more than was said."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from support.limits import LIMIT_S
from support.tiers import BUDGET_S, CASES, MARKS, SHARE, Stopwatch, quick_part, recorded, without_case

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
    assert set(quick_part(items, {})) == set(quick_part(mixed, {}))
    assert quick_part(mixed, {}) == [item for item in mixed if item in quick_part(items, {})]


@pytest.mark.parametrize(
    ("count", "kept"), [(1, 1), (CASES, CASES), (CASES + 1, CASES), (CASES + 10 * SHARE, CASES + 10)]
)
def test_so_many_cases_of_a_test_stay(count: int, kept: int) -> None:
    assert len(quick_part(cases(count), {})) == kept


@pytest.mark.parametrize("mark", MARKS)
def test_what_is_marked_as_long_goes(mark: str) -> None:
    kept = quick_part([Named("tests/a.py::test_a", mark), Named("tests/a.py::test_b")], {})
    assert kept == [Named("tests/a.py::test_b")]


def test_of_a_long_test_so_many_cases_stay_as_fit_into_the_budget() -> None:
    items = [*cases(50), *cases(50, "tests/a.py::test_b")]
    kept = quick_part(items, {"tests/a.py::test_a": BUDGET_S / 2.5})
    assert [without_case(item.nodeid) for item in kept[:3]] == ["tests/a.py::test_a"] * 2 + ["tests/a.py::test_b"]
    assert set(kept) <= set(quick_part(items, {}))


def test_of_a_file_of_long_tests_one_case_of_the_quickest_stays() -> None:
    items = [*cases(50), *cases(50, "tests/a.py::test_b"), Named("tests/b.py::test_c")]
    kept = quick_part(items, {"tests/a.py::test_a": BUDGET_S * 3, "tests/a.py::test_b": BUDGET_S * 2})
    assert [without_case(item.nodeid) for item in kept] == ["tests/a.py::test_b", "tests/b.py::test_c"]


def test_what_cases_take_is_recorded_with_their_fixtures() -> None:
    watch = Stopwatch()
    for case, seconds in (("1", 0.2), ("1", 0.7), ("2", 0.3)):
        watch.add(f"tests/a.py::test_a[{case}]", seconds)
    for item in cases(CASES + 5, "tests/a.py::test_b"):  # as many as stay fit into the budget, all of them do not
        watch.add(item.nodeid, BUDGET_S / (CASES + 1))
    assert watch.means() == {"tests/a.py::test_a": 0.6}


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


def test_what_is_recorded_is_of_tests_that_are_there() -> None:
    assert recorded()
    gone = [name for name in recorded() if not defined(name)]
    assert not gone, "Fix: rename or remove their lines in tests/support/test_seconds.json"


def defined(nodeid: str) -> bool:
    path, name = nodeid.split("::")[:2]
    return (ROOT / path).is_file() and re.search(rf"\b{name}\b", (ROOT / path).read_text("utf-8")) is not None

"""What ``make test`` runs, of all that ``make check`` runs: a part of every area, and the same part in every run.

Left out are tests marked ``slow`` or ``thorough``, and of a test that is written once for many cases all but some,
which the digests of their names choose.  Of a test whose cases are recorded as long, as many stay as fit into a budget;
of a file of which nothing would stay, one case of its quickest test.  Properties look at fewer examples.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol, TypeVar

MARKS: Final = ("slow", "thorough")
CASES: Final = 4
"""The number of cases that stay of every quick test, if it has so many."""
SHARE: Final = 20
"""One in so many of a quick test's further cases stays."""
BUDGET_S: Final = 0.5
"""Seconds that the cases of one test may take together, on the machine that measured them."""
RECORD: Final = Path(__file__).with_name("test_seconds.json")
"""Maps each test that exceeds the budget to the seconds that one of its cases takes, as JSON.

``pytest --record-seconds`` writes the file; run all tests with it.
"""


class Named(Protocol):
    """A test with its arguments."""

    @property
    def nodeid(self) -> str: ...
    def get_closest_marker(self, name: str, /) -> object | None: ...


Item = TypeVar("Item", bound=Named)


def quick_part(items: Sequence[Item], seconds: Mapping[str, float]) -> list[Item]:
    """Returns the tests that stay, in their order.

    ``seconds`` maps the name of each test that exceeds the budget to the seconds that one of its cases takes.
    """
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in MARKS):
            cases[without_case(item.nodeid)].append(item.nodeid)
    kept = {test: chosen(names, seconds.get(test, 0.0)) for test, names in cases.items()}
    files: defaultdict[str, list[str]] = defaultdict(list)
    for test in cases:
        files[test.partition("::")[0]].append(test)
    for tests in files.values():
        if not any(kept[test] for test in tests):
            quickest = min(tests, key=lambda test: (seconds[test], test))
            kept[quickest] = ranked(cases[quickest])[:1]
    staying = {name for names in kept.values() for name in names}
    return [item for item in items if item.nodeid in staying]


def chosen(names: Collection[str], seconds: float) -> list[str]:
    """Returns the cases of one test that stay: which ones depends on their names alone."""
    most = usual(len(names))
    return ranked(names)[: min(most, int(BUDGET_S / seconds)) if seconds else most]


def usual(cases: int) -> int:
    """Returns how many of the cases of a test stay if they are quick."""
    return min(cases, CASES + max(0, cases - CASES) // SHARE)


def ranked(names: Iterable[str]) -> list[str]:
    """Returns names in the order of their digests."""
    return sorted(names, key=_digest)


def without_case(nodeid: str) -> str:
    """Returns the name of a test without its case."""
    return nodeid.partition("[")[0]


class Stopwatch:
    """Adds up what the cases of each test take, with their fixtures."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._cases: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, nodeid: str, seconds: float) -> None:
        self._seconds[without_case(nodeid)] += seconds
        self._cases[without_case(nodeid)].add(nodeid)

    def means(self) -> dict[str, float]:
        """Returns the mean seconds of one case for each test that exceeds the budget, by the test's name."""
        means = {test: total / len(self._cases[test]) for test, total in sorted(self._seconds.items())}
        return {test: round(mean, 3) for test, mean in means.items() if mean * usual(len(self._cases[test])) > BUDGET_S}


def recorded() -> dict[str, float]:
    """Returns the content of ``RECORD``."""
    found: dict[str, float] = json.loads(RECORD.read_text("utf-8"))
    return found


def _digest(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=16).digest()

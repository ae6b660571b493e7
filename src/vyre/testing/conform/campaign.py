"""Runs the cases of a seed on a backend until its budget of time is spent."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from blake3 import blake3

from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.stmt import STMT_TYPES
from vyre.ports.backend import Backend
from vyre.testing.conform.cases import Cases, ConformCase, Group
from vyre.testing.conform.judging import Judged, Judgement, expected_of, judge
from vyre.testing.conform.minimising import minimised

MOST_MINIMISED: Final = 12
"""The number of failures that are made small; further ones are listed with their case."""
SECONDS_EACH: Final = 5.0
"""The time in which a failure is made small."""


class CaseRecord(NamedTuple):
    """A case that was run.  ``identity`` names the case and ``expected`` the reference's result, as BLAKE3 digests."""

    group: str
    key: str
    identity: str
    expected: str
    judgement: str
    text: str = ""
    reproducer: str = ""
    """The text of the smallest failing program with its input and the right answer, "" if it was not made small."""


@dataclass
class Campaign:
    """The findings of a check so far."""

    records: list[CaseRecord] = field(default_factory=list)
    witnesses: Counter[str] = field(default_factory=Counter)
    """The number of operands for which each operation was compared."""
    statements: Counter[str] = field(default_factory=lambda: Counter({kind.__name__: 0 for kind in STMT_TYPES}))
    """The number of compared programs that contain each kind of statement."""
    unfinished: dict[str, int] = field(default_factory=dict)
    """The number of cases that the budget did not allow, by group, without the random programs, which never end."""
    seconds: float = 0.0

    @property
    def failures(self) -> list[CaseRecord]:
        """The cases that speak against the backend."""
        return [each for each in self.records if each.judgement in (Judgement.DIFFERS.value, Judgement.RAISED.value)]

    @property
    def counts(self) -> Counter[str]:
        """The number of cases by verdict."""
        return Counter(each.judgement for each in self.records)


Report = Callable[[ConformCase, Judged], None]
Begun = Callable[[ConformCase, Judged | None], None]
"""Is called before a case runs, and with its verdict before it is made smaller: a backend may end the process."""


def run_campaign(
    backend: Backend,
    reference: Backend,
    cases: Cases,
    *,
    budget_s: float,
    random_programs: int | None = None,
    told: Report = lambda case, judged: None,
    begun: Begun = lambda case, judged: None,
    clock: Callable[[], float] = time.monotonic,
) -> Campaign:
    """Runs operations first, then the other groups in turns, until the time or ``random_programs`` are over.

    ``told`` is called after every case.
    """
    campaign, start = Campaign(), clock()
    schedule = _Schedule(cases, random_programs)
    for case in schedule:
        if clock() - start > budget_s:
            schedule.put_back(case)
            break
        begun(case, None)
        expected = expected_of(reference, case.case)
        judged = judge(backend, case.case, expected)
        reproducer = ""
        if judged.failed and len(campaign.failures) < MOST_MINIMISED:
            seconds = min(SECONDS_EACH, max(1.0, budget_s - (clock() - start)))
            begun(case, judged)
            reproducer = minimised(backend, reference, case, judged, seconds)
        outcome = blake3(expected.identity()).hexdigest()
        campaign.records.append(
            CaseRecord(
                case.group.value, case.key, case.identity(), outcome, judged.judgement.value, judged.text, reproducer
            )
        )
        if judged.judgement in (Judgement.AGREED, Judgement.DIFFERS):
            _count(campaign, case)
        told(case, judged)
    campaign.unfinished = schedule.left()
    campaign.seconds = clock() - start
    return campaign


def _count(campaign: Campaign, case: ConformCase) -> None:
    if case.operation is not None:
        campaign.witnesses[case.key] += len(case.rows)
    for kind in node_facts(case.case.program).types:
        if kind in STMT_TYPES:
            campaign.statements[kind.__name__] += 1


class _Schedule:
    """The order of the cases."""

    def __init__(self, cases: Cases, random_programs: int | None) -> None:
        self._groups = {group: cases.group(group) for group in Group}
        self._random_left = random_programs
        self._returned: list[ConformCase] = []

    def __iter__(self) -> Iterator[ConformCase]:
        yield from self._groups[Group.OPERATIONS]
        yield from self._groups[Group.AGAIN]
        waiting = [Group.RANDOM, Group.FORMS, Group.GALLERY]
        while waiting:
            for group in list(waiting):
                case = None if group is Group.RANDOM and self._random_left == 0 else next(self._groups[group], None)
                if case is None:
                    waiting.remove(group)
                    continue
                if group is Group.RANDOM and self._random_left is not None:
                    self._random_left -= 1
                yield case

    def put_back(self, case: ConformCase) -> None:
        """Counts a case as not run."""
        self._returned.append(case)

    def left(self) -> dict[str, int]:
        """Returns how many cases of each group that ends were not run, for groups with any."""
        counts = Counter(case.group.value for case in self._returned if case.group is not Group.RANDOM)
        for group, cases in self._groups.items():
            if group is not Group.RANDOM:
                counts[group.value] += sum(1 for _ in cases)
        return {group: number for group, number in counts.items() if number}

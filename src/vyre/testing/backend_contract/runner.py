"""Runs cases on a subject."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from vyre.testing.backend_contract.bench import Bench, Subject
from vyre.testing.backend_contract.case import Case
from vyre.testing.backend_contract.expect import Skipped
from vyre.testing.outcomes import Outcome, Verdict


def check_case(case: Case, subject: Subject) -> None:
    """Runs one case.

    Raises ``Skipped`` with the reason, ``Violation`` if the rule is broken, and whatever the backend raises.
    """
    bench = Bench(subject)
    bench.need(*case.needs)
    try:
        case.check(bench)
    finally:
        bench.close()


def run_case(case: Case, subject: Subject) -> Outcome:
    """Returns the verdict on one case; raises nothing."""
    try:
        check_case(case, subject)
    except Skipped as reason:
        return Outcome(case.id, Verdict.SKIPPED, str(reason))
    except Exception as error:  # any error of a backend is a failure of that case
        return Outcome(case.id, Verdict.FAILED, f"{type(error).__name__}: {error}")
    return Outcome(case.id, Verdict.PASSED)


def run_cases(cases: Iterable[Case], subject: Subject, pattern: str = "*") -> Iterator[Outcome]:
    """Yields the outcomes of the cases whose id matches the pattern."""
    for case in cases:
        if fnmatchcase(case.id, pattern):
            yield run_case(case, subject)

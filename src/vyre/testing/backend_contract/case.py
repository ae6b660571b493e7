"""Contract cases: how the modules of this package define them, and how they are run on a subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias, TypeVar

from vyre.testing.backend_contract.bench import Bench, Skipped, Subject
from vyre.testing.outcomes import Outcome, Verdict

Row = TypeVar("Row")
Check: TypeAlias = "Callable[[Bench], None]"


class Case(NamedTuple):
    """One rule of the port.

    ``id``: ``group.rule`` or ``group.rule.row``.  ``rule``: the rule in words.  ``needs``: facets, profile flags,
    ``canonical_order`` and ``grid_barriers``, without which the case is skipped (``Bench.need``).  ``check`` raises
    ``Violation`` where the backend breaks the rule.
    """

    id: str
    rule: str
    needs: tuple[str, ...]
    check: Check


class Group:
    """Collects the cases of one module: functions, functions with a table of rows, and programs (``programs.py``)."""

    def __init__(self, name: str, *needs: str) -> None:
        self.name = name
        self.needs = needs
        self.cases: list[Case] = []

    def case(self, *needs: str) -> Callable[[Check], Check]:
        """Decorates a function of a bench; its name becomes the id, the first paragraph of its docstring the rule."""

        def add(check: Check) -> Check:
            self.add(check.__name__, _rule(check), needs, check)
            return check

        return add

    def table(
        self, rows: Mapping[str, Row], *needs: str
    ) -> Callable[[Callable[[Bench, Row], None]], Callable[[Bench, Row], None]]:
        """Decorates a function of a bench and a row: one case for each row, named by its key."""

        def add(check: Callable[[Bench, Row], None]) -> Callable[[Bench, Row], None]:
            for key, row in rows.items():
                self.add(f"{check.__name__}.{key}", _rule(check), needs, _bound(check, row))
            return check

        return add

    def add(self, name: str, rule: str, needs: tuple[str, ...], check: Check) -> None:
        """Adds one case; its id is ``name`` behind that of the group."""
        self.cases.append(Case(f"{self.name}.{name}", rule, (*self.needs, *needs), check))


def _rule(check: Callable[..., None]) -> str:
    words = (check.__doc__ or check.__name__.replace("_", " ")).strip().split("\n\n")[0]
    return " ".join(words.split())


def _bound(check: Callable[[Bench, Row], None], row: Row) -> Check:
    return lambda bench: check(bench, row)


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

"""Contract cases, and how the modules of this package define them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

from vyre.testing.backend_contract.bench import Bench

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

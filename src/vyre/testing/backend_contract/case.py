"""Contract cases, and how the modules of this package define them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from vyre.testing.backend_contract.bench import Bench

Row = TypeVar("Row")
Check: TypeAlias = "Callable[[Bench], None]"


class Skipped(Exception):
    """The backend lacks what the case needs; the text names it."""


class Case(NamedTuple):
    """One rule of the port.

    ``id``: ``group.rule`` or ``group.rule.row``.  ``rule``: the rule in words.  ``needs``: facets, profile flags and
    ``canonical_order``, without which the case is skipped (``Bench.need``).  ``check`` raises ``Violation`` where the
    backend breaks the rule.
    """

    id: str
    rule: str
    needs: tuple[str, ...]
    check: Check


class Group:
    """Collects the cases of one module: functions, and functions with a table of rows."""

    def __init__(self, name: str, *needs: str) -> None:
        self.name = name
        self.needs = needs
        self.cases: list[Case] = []

    def case(self, *needs: str) -> Callable[[Check], Check]:
        """Decorates a function of a bench; its name becomes the id, the first paragraph of its docstring the rule."""

        def add(check: Check) -> Check:
            self._add(check.__name__, check, needs, check)
            return check

        return add

    def table(
        self, rows: Mapping[str, Row], *needs: str
    ) -> Callable[[Callable[[Bench, Row], None]], Callable[[Bench, Row], None]]:
        """Decorates a function of a bench and a row: one case for each row, named by its key."""

        def add(check: Callable[[Bench, Row], None]) -> Callable[[Bench, Row], None]:
            for key, row in rows.items():
                self._add(f"{check.__name__}.{key}", check, needs, _bound(check, row))
            return check

        return add

    def _add(self, name: str, documented: Callable[..., None], needs: tuple[str, ...], check: Check) -> None:
        rule = (documented.__doc__ or documented.__name__.replace("_", " ")).strip().split("\n\n")[0]
        self.cases.append(Case(f"{self.name}.{name}", " ".join(rule.split()), (*self.needs, *needs), check))


def _bound(check: Callable[[Bench, Row], None], row: Row) -> Check:
    return lambda bench: check(bench, row)

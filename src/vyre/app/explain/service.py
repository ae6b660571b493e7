"""Explaining a program as a session offers it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from vyre.app.explain.explanation import Explanation, Question, explain
from vyre.app.verdicts import require_valid
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Measured, Provenance

if TYPE_CHECKING:
    from vyre.app.calibration.service import KnownCosts
    from vyre.app.pipeline import Pipeline
    from vyre.domain.ir.program import Program
    from vyre.policies.journal import DecisionSink
    from vyre.ports.backend import Backend

CostsWanted: TypeAlias = "LaunchCosts | Path | str | None"
"""Costs, the file that holds them, ``"measured"``, ``"assumed"``, or None for the best that is known."""
ASSUMED_COSTS: Final = "assumed"
MEASURED_COSTS: Final = "measured"


class Asked(NamedTuple):
    """As ``Session.explain`` is asked.  ``pipeline``: compiles it, to tell which kernel times are its own."""

    program: Program
    pipeline: Callable[[], Pipeline]
    batch: int
    repeats: int
    kernel_time_ns: int | None


class Known(NamedTuple):
    """Costs, and in a few words what they are."""

    costs: LaunchCosts
    why: str


class CostsOf(Protocol):
    """``Session.launch_costs``."""

    def __call__(self, path: Path | str | None = None, /, *, assume: bool = True) -> KnownCosts: ...


def known_costs(wanted: CostsWanted, costs_of: CostsOf) -> Known:
    """Raises what ``costs_of`` raises, unless nothing in particular is wanted."""
    if isinstance(wanted, LaunchCosts):
        return Known(wanted, "given by the caller")
    if wanted == ASSUMED_COSTS:
        return Known(ASSUMED, "assumed, as asked for")
    path = None if wanted == MEASURED_COSTS else wanted
    found = costs_of() if wanted is None else costs_of(path, assume=False)
    return Known(found.costs, found.why)


def explain_program(backend: Backend, asked: Asked, known: Known, sink: DecisionSink | None) -> Explanation:
    """Raises ``InvalidProgram``, ``InvalidField``, and what a compilation raises, if kernel times have to be found."""
    require_valid(asked.program)
    question = Question(asked.batch, asked.repeats, _kernel(asked, known.costs), known.costs, known.why)
    return explain(asked.program, backend, question, sink)


def _kernel(asked: Asked, costs: LaunchCosts) -> Measured | None:
    if asked.kernel_time_ns is not None:
        return Measured(asked.kernel_time_ns, 0, 0, 0, Provenance.ASSUMED)
    return costs.kernel(asked.pipeline().id) if costs.kernels else None

"""Pipelines that look at some of their dispatches: a gate counts all of them, and is open for most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchTiming
    from vyre.ports.requests import HostBytes, OutputStorage


class Gate:
    """Hands out ``numbers``, one for each dispatch, and is open for those below ``at``; any thread may set ``at``."""

    __slots__ = ("at", "numbers")

    def __init__(self, place: int, numbers: Iterator[int]) -> None:
        self.at: int = place
        self.numbers: Final = numbers


class GatedPipeline:
    """``CompiledPipeline`` whose dispatches run ``usual`` where ``gate`` is open for them, and ``looked`` elsewhere.

    ``Pipeline`` asks the gate itself, and calls one of the two: another call for each dispatch would take more time
    than the gate.
    """

    __slots__ = ("gate", "usual")

    gate: Gate
    usual: Callable[[Sequence[HostBytes], OutputStorage], DispatchTiming]

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        """Implements ``CompiledPipeline.dispatch``."""
        gate = self.gate
        number = next(gate.numbers)
        return self.usual(inputs, outputs) if number < gate.at else self.looked(inputs, outputs, number)

    def looked(self, inputs: Sequence[HostBytes], outputs: OutputStorage, number: int) -> DispatchTiming:
        """Runs a dispatch for whose number the gate was not open."""
        raise NotImplementedError

"""The rounds of loops whose bounds are literals."""

from __future__ import annotations

from vyre.domain.ir.expr import Literal
from vyre.domain.ir.stmt import Loop


def rounds_of(loop: Loop) -> int | None:
    """Returns how many rounds a loop runs if no lane leaves it; None if a bound is no literal."""
    start, stop, step = loop.start, loop.stop, loop.step
    if type(start) is not Literal or type(stop) is not Literal or type(step) is not Literal:
        return None
    first, last, by = int(start.value), int(stop.value), int(step.value)
    if by == 0:
        return 0
    return max(0, -((first - last) // by))

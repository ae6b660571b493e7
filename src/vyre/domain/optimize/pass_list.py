"""The passes of the optimizer by name, and the order in which they run where nothing else is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vyre.domain.optimize.branches import BRANCHES
from vyre.domain.optimize.copies import COPIES
from vyre.domain.optimize.dead_code import DEAD_CODE
from vyre.domain.optimize.folding import FOLDING
from vyre.domain.optimize.forwarding import FORWARDING
from vyre.domain.optimize.hoisting import HOISTING
from vyre.domain.optimize.inlining import INLINING
from vyre.domain.optimize.narrowing import NARROWING
from vyre.domain.optimize.numbering import NUMBERING
from vyre.domain.optimize.passes import Pass
from vyre.domain.optimize.saturation import SATURATION
from vyre.domain.optimize.strength import STRENGTH

PASSES: Final[Mapping[str, Pass]] = {
    step.name: step
    for step in (
        COPIES,
        DEAD_CODE,
        FOLDING,
        INLINING,
        NUMBERING,
        BRANCHES,
        NARROWING,
        SATURATION,
        FORWARDING,
        HOISTING,
        STRENGTH,
    )
}
"""Every pass.  Each is correct alone, and in any order with the others."""
DEFAULT_ORDER: Final[tuple[str, ...]] = (
    *("copies", "folding", "dead_code", "forwarding", "narrowing", "branches", "strength", "hoisting"),
    *("inlining", "saturation", "numbering", "inlining", "folding", "dead_code"),
)
"""Names of passes; one may run several times."""

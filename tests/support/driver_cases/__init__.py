"""The contract of the driver seam, as cases for any driver."""

from __future__ import annotations

from typing import Final

from support.driver_cases import code, contexts, graphs, launches, memory, streams
from support.driver_cases.case import Case, Subject

CASES: Final[tuple[Case, ...]] = tuple(
    case for group in (contexts, streams, memory, code, launches, graphs) for case in group.SUITE.cases
)

__all__ = ["CASES", "Case", "Subject"]

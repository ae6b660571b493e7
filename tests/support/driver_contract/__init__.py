"""The seam's suite: what every ``CudaDriver`` does, with the codes of a real one."""

from __future__ import annotations

from typing import Final

from support.driver_contract import code, contexts, graphs, memory, ordering
from support.driver_contract.case import Case

__all__ = ["CASES", "Case"]

CASES: Final = (*contexts.CASES, *ordering.CASES, *memory.CASES, *code.CASES, *graphs.CASES)

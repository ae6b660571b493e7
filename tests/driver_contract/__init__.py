"""The seam's suite: what every ``CudaDriver`` does, with the codes of a real one."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from typing import Final

from driver_contract import code, contexts, graphs, memory, ordering
from driver_contract.case import Case
from vyre.adapters.cuda.seam import CudaCallError, CudaDriver
from vyre.testing.outcomes import Outcome, Verdict

__all__ = ["CASES", "Case", "run_cases"]

CASES: Final = (*contexts.CASES, *ordering.CASES, *memory.CASES, *code.CASES, *graphs.CASES)


def run_cases(cases: Iterable[Case], driver: CudaDriver) -> Iterator[Outcome]:
    """The cases one after the other on one driver.  A case that fails does not stop the next.

    The cases assert: raises ``RuntimeError`` under ``python -O``, where every one of them would pass.
    """
    if not __debug__:
        raise RuntimeError("assertions are off. Fix: run without -O and PYTHONOPTIMIZE.")
    for case in cases:
        try:
            case.run(driver)
        except (AssertionError, CudaCallError) as failure:
            where = traceback.extract_tb(failure.__traceback__)[-1]
            reason = f"{type(failure).__name__}: {failure} (line {where.lineno}: {where.line})"
            yield Outcome(case.name, Verdict.FAILED, reason)
        else:
            yield Outcome(case.name, Verdict.PASSED)

"""Every ``.vyre`` file beside this one as machine code, for vectors of each width, by each effort of the compiler."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Final

import pytest

from support.cpu.kernels import Variant
from support.cpu.matrix import RACE_CHECKS, Matrix
from support.profiles import SOAK
from vyre.adapters.cpu.llvm.options import LANES
from vyre.adapters.cpu.native.compilation import Effort
from vyre.testing.outcomes import Verdict

FILES: Final = sorted(Path(__file__).parent.rglob("*.vyre"))
IN_ONE_VECTOR: Final = frozenset({"statement_phases.vyre"})
"""Files with data races among four lanes, which may give any bytes: those of the file where one vector has them all."""


def _variants() -> list[tuple[int, Effort]]:
    """Each number of lanes with full effort and with another one; in a soak with every one."""
    others = (Effort.LIGHT, Effort.QUICK)
    pairs = [(lanes, effort) for n, lanes in enumerate(LANES) for effort in (Effort.FULL, others[n % 2])]
    return list(product(LANES, Effort)) if SOAK else pairs


@pytest.mark.parametrize(("lanes", "effort"), _variants())
def test_files(lanes: int, effort: Effort) -> None:
    """Half of the variants join workgroups, use buffers alone, and leave out what wider vectors are made for."""
    other = (lanes in (4, 16)) is (effort is Effort.LIGHT)
    matrix = Matrix(
        Variant(lanes, effort, exclusive=other, joined=other, narrow=other, wide=not other, slow_gathers=other)
    )
    outcomes = list(matrix.run([path for path in FILES if lanes >= 4 or path.name not in IN_ONE_VECTOR]))
    assert [(str(path), o) for path, o in outcomes if o.verdict is Verdict.FAILED] == []
    reasons = {o.reason for _, o in outcomes if o.verdict is Verdict.SKIPPED}
    assert len(reasons) == 1 and RACE_CHECKS in reasons.pop()
    assert matrix.executed > 120

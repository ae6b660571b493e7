"""The group for 16-bit arithmetic passes on the emulated device, and finds a wrong operator."""

from __future__ import annotations

import pytest

from gpu_runs.check.halves import check_operator
from vyre.adapters.cuda.ptx import halves
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import bf16, f16
from vyre.testing import cuda_machine
from vyre.testing.outcomes import Verdict


def test_a_wrong_instruction_is_found_and_a_pair_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with cuda_machine("h200").open() as session:
        assert [check_operator(session, dtype, "+", 3001).verdict for dtype in (f16, bf16)] == [Verdict.PASSED] * 2
        monkeypatch.setitem(halves._OPERATIONS, BinaryOp.MUL, "add.rn")
        found = check_operator(session, bf16, "*", 3001)
    assert found.verdict is Verdict.FAILED
    assert " pairs differ, such as 0x" in found.reason

"""The checksum programs agree with the committed words, and a wrong result is found and named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vyre
from gpu_runs.check import checksums
from gpu_runs.check.checksums import (
    CHUNK,
    CHUNKS,
    REHEARSAL,
    Scope,
    check_function,
    first_wrong,
    recorded_words,
)
from vyre.domain.ir.operators import TRANSCENDENTALS, UnaryOp
from vyre.testing.outcomes import Verdict

TESTS = Path(__file__).parents[2]
WHOLE_CHUNK = 15  # bits 0x3C000000 to 0x3FFFFFFF: numbers from 2^-7 up to 2


@pytest.mark.parametrize("op", [UnaryOp.LOG2, UnaryOp.ATAN], ids=lambda op: op.name.lower())
def test_the_program_sums_what_was_recorded_over_a_whole_chunk(op: UnaryOp) -> None:
    words = recorded_words(TESTS)[op]
    with vyre.open("reference") as session:
        outcomes = list(check_function(session, op, Scope(CHUNK, 1 << 18, [WHOLE_CHUNK]), words))
    assert [o.verdict for o in outcomes] == [Verdict.PASSED]


def test_every_function_has_all_its_words() -> None:
    recorded = recorded_words(TESTS)
    assert recorded.keys() == set(TRANSCENDENTALS)
    assert {len(words) for words in recorded.values()} == {CHUNKS}
    assert CHUNK * CHUNKS == 2**32


def test_the_first_wrong_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    first = 0x3F80_0000
    real = checksums.expected_results

    def off_by_one(op: UnaryOp, x: checksums.Words) -> checksums.Words:
        # The device is right and what is expected wrong: the same to the comparison.
        return np.where(x >= first + 700, real(op, x) ^ np.uint32(1), real(op, x))

    monkeypatch.setattr(checksums, "expected_results", off_by_one)
    with vyre.open("reference") as session:
        text = first_wrong(session, UnaryOp.SIN, first, 1024, block=256)
    assert text.startswith(f"input {first + 700:#010x} gives ")


def test_a_wrong_sum_fails_its_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "checksum", lambda x, results: 1)
    with vyre.open("reference") as session:
        outcomes = list(check_function(session, UnaryOp.EXP, REHEARSAL, None))
    assert {o.verdict for o in outcomes} == {Verdict.FAILED}
    assert "every result read back is right" in outcomes[0].reason

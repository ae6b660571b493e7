"""The recorded exhaustive run covers the programs as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vyre.domain.ir.operators import TRANSCENDENTALS, UnaryOp
from vyre.domain.numerics.evaluate import evaluate_lanes
from vyre.domain.numerics.transcendentals import patched_inputs, transcendental

ROOT = Path(__file__).parents[3]
RECORD: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / "correct-rounding.json").read_text())
CHECKSUMS: dict[str, list[str]] = json.loads((ROOT / "tests" / "data" / "function_checksums.json").read_text())
FUNCTIONS = sorted(op.name.lower() for op in TRANSCENDENTALS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_input_of_the_present_program_was_correctly_rounded(name: str) -> None:
    entry, op = RECORD["functions"][name], UnaryOp[name.upper()]
    rerun = f"the program of {name} changed. Fix: run `python -m benchmarks.correct_rounding {name}`"
    assert entry["digest"] == transcendental(op).digest.hex(), rerun
    assert entry["inputs"] == 2**32
    assert entry["wrong"] == 0
    assert entry["numpy_differences"] == 0
    assert entry["numpy_compared"] > 10_000_000
    assert entry["patched_inputs"] == [f"{x:#010x}" for x in patched_inputs(op)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_checksums_are_those_of_the_recorded_run(name: str) -> None:
    assert CHECKSUMS[name] == RECORD["functions"][name]["checksums"]
    assert len(CHECKSUMS[name]) == 64


def test_a_checksum_by_the_numpy_evaluator() -> None:
    """One chunk of the cheapest function, in full: 2^26 results that NumPy and the C build share."""
    chunk, total = 15, 0
    for start in range(chunk << 26, (chunk + 1) << 26, 1 << 20):
        x = np.arange(start, start + (1 << 20), dtype=np.uint32)
        with np.errstate(all="ignore"):
            y = evaluate_lanes(transcendental(UnaryOp.EXP), x.view(np.float32)).view(np.uint32)
        weight = 2 * x.astype(np.uint64) + np.uint64(1)
        total += int((y.astype(np.uint64) * weight).sum(dtype=np.uint64))
    assert f"{total % 2**64:#018x}" == CHECKSUMS["exp"][chunk]

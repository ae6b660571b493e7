"""The table of costs beside its record of measurements."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from vyre.domain.ir.expr import Binary, Cast, Unary
from vyre.domain.ir.operators import BINARY, UNARY, binary_result
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph.heads import CYCLE, LEAF, Head, cost_of

RECORD = Path(__file__).parents[4] / "benchmarks" / "results" / "operator-costs.json"
_TYPES = {dtype.text: dtype for dtype in ScalarType}
_TELLS = 0.8
"""Prices below this are of operators that LLVM joined with what stands around them."""
_ONE_VALUE = ("acos", "asin", "atan", "cos", "cosh", "exp", "exp2", "log", "log2", "sin", "sinh", "tan", "tanh")
"""Functions that have one cost in the table, since no law makes one of another."""


class Priced(NamedTuple):
    name: str
    cycles: float
    measured: float


def _rows() -> Iterator[Priced]:
    prices = json.loads(RECORD.read_text("utf-8"))["prices"]["cpu"]
    binary = {row.text: op for op, row in BINARY.items()}
    unary = {row.text: op for op, row in UNARY.items()}
    for text, by_name in prices.items():
        dtype = _TYPES[text]
        for name, measured in by_name.items():
            if measured < _TELLS:
                continue
            if name in binary:
                result = binary_result(binary[name], dtype, dtype)
                assert result is not None
                heads = [Head(Binary, binary[name], result, dtype)]
            elif name in unary:
                heads = [Head(Unary, unary[name], dtype, dtype)]
            elif name.startswith("cast<"):
                other = _TYPES[name.split("<")[1].split(">")[0]]
                heads = [Head(Cast, other, other, dtype), Head(Cast, dtype, dtype, other)]
            else:
                continue
            yield Priced(f"{name} of {text}", sum(map(cost_of, heads)) / CYCLE, measured)


def test_the_order_of_the_costs_is_that_of_the_measurements() -> None:
    """Kendall's rank correlation, over pairs that differ in both."""
    pairs = [
        (a.cycles - b.cycles) * (a.measured - b.measured)
        for a, b in combinations(_rows(), 2)
        if a.cycles != b.cycles and max(a.measured, b.measured) > 1.2 * min(a.measured, b.measured)
    ]
    agreeing, other = sum(1 for pair in pairs if pair > 0), sum(1 for pair in pairs if pair < 0)
    assert len(pairs) > 2_000 and (agreeing - other) / len(pairs) > 0.9


def test_no_cost_of_an_operator_is_far_from_its_measurement() -> None:
    far = {
        row.name: (row.cycles, row.measured)
        for row in _rows()
        if not row.name.startswith(("cast<", *_ONE_VALUE)) and not 0.5 <= row.cycles / row.measured <= 2.2
    }
    assert not far


def test_a_cast_that_keeps_the_bits_is_nearly_free() -> None:
    u32, i32, u64, f32 = ScalarType.U32, ScalarType.I32, ScalarType.U64, ScalarType.F32
    free, resized, converted = (cost_of(Head(Cast, to, to, u32)) for to in (i32, u64, f32))
    assert free == LEAF < resized < converted

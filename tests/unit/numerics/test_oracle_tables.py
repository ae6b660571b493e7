"""The scalar and the lane rules against operator tables recorded from the reference system.

Rows on which the reference system stops with a run-time error have no result to compare: our rules are
total there.  A table whose operands it treats as truth values is compared through ``cast`` to bool.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.reference.bit_patterns import lanes_of, observed
from vyre.adapters import lanes
from vyre.domain.ir.operators import TRANSCENDENTALS, AtomicOp, BinaryOp, UnaryOp
from vyre.domain.ir.types import SCALAR_BY_TEXT, ScalarType, bool_
from vyre.domain.numerics import scalar

VECTORS = Path(__file__).parents[2] / "data" / "vectors" / "oracle-scalar-ops.jsonl.xz"
TABLES: list[dict[str, Any]] = [json.loads(line) for line in lzma.decompress(VECTORS.read_bytes()).splitlines()]
SAME_AS = {"WRAPPING_ADD": "ADD", "WRAPPING_SUB": "SUB"}
NOT_OURS = {"LRU_UPDATE"}


def op_name(table: dict[str, Any]) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", table["op"]).upper()
    return SAME_AS.get(name, name)


def of_kind(*kinds: str) -> list[Any]:
    return [
        pytest.param(table, id=f"{table['kind']}-{table['op']}-{table['type']}")
        for table in TABLES
        if table["kind"] in kinds and op_name(table) not in NOT_OURS
    ]


def rows(table: dict[str, Any], operands: int) -> tuple[list[tuple[int, ...]], list[int]]:
    """Operands and results of the rows that have a result."""
    found = [
        [int(word, 16) if isinstance(word, str) else word for word in row]
        for row in table["rows"]
        if row[operands] is not None
    ]
    assert found
    return [tuple(row[:operands]) for row in found], [row[operands] for row in found]


def truth(dtype: ScalarType, bits: int) -> int:
    return scalar.cast(dtype, bool_, bits)


def check(
    table: dict[str, Any],
    operands: int,
    by_scalar: Callable[..., int],
    by_lanes: Callable[..., Any],
    result: ScalarType,
    ulp: int = 0,
) -> None:
    dtype = SCALAR_BY_TEXT[table["type"]]
    cases, expected = rows(table, operands)
    expected = [scalar.canonical(result, bits) for bits in expected]
    ours = [scalar.canonical(result, by_scalar(*case)) for case in cases]
    wrong = [
        (case, e, o)
        for case, e, o in zip(cases, expected, ours, strict=True)
        if ulps(e, o) > ulp and not zeros(table, case)
    ]
    assert not wrong, [[hex(word) for word in (*case, e, o)] for case, e, o in wrong[:5]]
    with np.errstate(all="ignore"):
        columns = [lanes_of(dtype, column) for column in zip(*cases, strict=True)]
        assert observed(result, by_lanes(*columns)) == ours


def ulps(a: int, b: int) -> int:
    """Distance of two f32 patterns among the ordered floats (of other words: 0 if equal)."""
    if a == b:
        return 0

    def ordered(bits: int) -> int:
        return -(bits & 0x7FFF_FFFF) if bits >> 31 else bits

    return max(abs(ordered(a) - ordered(b)), 1)


def zeros(table: dict[str, Any], case: tuple[int, ...]) -> bool:
    """min and max of zeros of opposite sign: the recorded result is an accident of its host."""
    return table["op"] in ("Min", "Max") and table["type"] == "f32" and set(case) == {0, 0x8000_0000}


@pytest.mark.parametrize("table", of_kind("binary"))
def test_binary(table: dict[str, Any]) -> None:
    op, dtype = BinaryOp[op_name(table)], SCALAR_BY_TEXT[table["type"]]
    if op in (BinaryOp.AND, BinaryOp.OR):
        as_bool, rule = lanes.cast(dtype, bool_), lanes.binary(op, bool_)
        check(
            table,
            2,
            lambda a, b: scalar.binary(op, bool_, truth(dtype, a), truth(dtype, b)),
            lambda a, b: rule(as_bool(a), as_bool(b)),
            bool_,
        )
        return
    # The reference calls |a - b| of i32 a u32; the bits are those of our i32.
    result = dtype if op is BinaryOp.ABS_DIFF else SCALAR_BY_TEXT[table["result_type"]]
    check(table, 2, lambda a, b: scalar.binary(op, dtype, a, b), lanes.binary(op, dtype), result)


@pytest.mark.parametrize("table", of_kind("unary"))
def test_unary(table: dict[str, Any]) -> None:
    op, dtype = UnaryOp[op_name(table)], SCALAR_BY_TEXT[table["type"]]
    if op is UnaryOp.LOGICAL_NOT:
        as_bool = lanes.cast(dtype, bool_)
        check(table, 1, lambda a: 1 - truth(dtype, a), lambda a: lanes.unary(op, bool_)(as_bool(a)), bool_)
        return
    result = SCALAR_BY_TEXT[table["result_type"]]
    tolerance = 1 if op in TRANSCENDENTALS else 0
    check(table, 1, lambda a: scalar.unary(op, dtype, a), lanes.unary(op, dtype), result, tolerance)


@pytest.mark.parametrize("table", of_kind("cast", "truthiness"))
def test_cast(table: dict[str, Any]) -> None:
    source = SCALAR_BY_TEXT[table["type"]]
    target = bool_ if table["kind"] == "truthiness" else SCALAR_BY_TEXT[table["op"]]
    check(table, 1, lambda a: scalar.cast(source, target, a), lanes.cast(source, target), target)


@pytest.mark.parametrize("table", of_kind("fma"))
def test_fma(table: dict[str, Any]) -> None:
    dtype = SCALAR_BY_TEXT[table["type"]]
    check(table, 3, lambda a, b, c: scalar.fma(dtype, a, b, c), lanes.fma(dtype), dtype)


@pytest.mark.parametrize("table", of_kind("atomic"))
def test_atomic(table: dict[str, Any]) -> None:
    op, dtype = AtomicOp[op_name(table)], SCALAR_BY_TEXT[table["type"]]
    for row in table["rows"]:
        old, expected, value, returned, new = (int(word or "0", 16) for word in row)
        assert returned == old
        assert scalar.atomic(op, dtype, old, expected, value) == new


def test_all_defined_tables_are_here() -> None:
    assert len(TABLES) == 186
    assert sum(len(table["rows"]) for table in TABLES) == 30_179

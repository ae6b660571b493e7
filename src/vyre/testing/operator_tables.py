"""Operator tables as programs: each table of recorded rows becomes one kernel that applies the operator to buffers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from vyre.domain.ir.expr import Atomic, Binary, Cast, Expr, Fma, Unary
from vyre.domain.ir.operators import (
    ATOMIC_ELEMENTS,
    TRANSCENDENTALS,
    AtomicOp,
    BinaryOp,
    UnaryOp,
    binary_result,
    unary_result,
)
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import SCALAR_BY_TEXT, ScalarType
from vyre.testing.operations import LANE, A, B, C, Operation, Row

BOOL: Final = ScalarType.BOOL
_SAME_AS: Final = {"WRAPPING_ADD": "ADD", "WRAPPING_SUB": "SUB"}


class TableCase(NamedTuple):
    """A program, its inputs by buffer name, the expected bytes of each output, and the tolerance of f32 results in
    ulps.
    """

    program: Program
    inputs: dict[str, bytes]
    expected: dict[str, bytes]
    tolerance_ulp: int


class Untested(Exception):
    """The table has no counterpart here; the text names the rule."""


def table_case(table: Mapping[str, Any]) -> TableCase:
    """Returns the case of one table; raises ``Untested`` with the rule that explains why there is none."""
    source = SCALAR_BY_TEXT.get(table["type"])
    if source is None or not source.is_executable:
        raise Untested(f"design 3.2: {table['type']} is not executable")
    return _KINDS[table["kind"]](table, _enum_name(table["op"]), source)


def _enum_name(op: str) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op).upper()
    return _SAME_AS.get(name, name)


def _bits(row: Sequence[Any], places: Sequence[int]) -> Row:
    return tuple(int(str(row[place] or 0), 16) for place in places)


def _column(rows: Sequence[Sequence[Any]], index: int, dtype: ScalarType) -> bytes:
    return b"".join(bits.to_bytes(dtype.size, "little") for row in rows for bits in _bits(row, [index]))


def _map_case(
    rows: Sequence[Sequence[Any]],
    operands: Sequence[ScalarType],
    result: ScalarType,
    value: Expr,
    tolerance_ulp: int = 0,
) -> TableCase:
    """Returns the case of an expression of ``OPERANDS`` over the rows that have a result; there may be none."""
    used = [row for row in rows if row[len(operands)] is not None]
    operation = Operation("", "", "", tuple(operands), result, value)
    inputs = operation.inputs([_bits(row, range(len(operands))) for row in used])
    return TableCase(operation.program(len(used)), inputs, {"y": _column(used, len(operands), result)}, tolerance_ulp)


def _binary(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    op = BinaryOp[name]
    result = binary_result(op, dtype, dtype)
    if result is not None:
        return _map_case(table["rows"], [dtype, dtype], result, Binary(op, A, B))
    if binary_result(op, BOOL, BOOL) is None:
        raise Untested(f"semantics 2: `{name.lower()}` is not defined for {dtype.text}")
    return _map_case(table["rows"], [dtype, dtype], BOOL, Binary(op, Cast(BOOL, A), Cast(BOOL, B)))


def _unary(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    op = UnaryOp[name]
    result = unary_result(op, dtype)
    if result is not None:
        tolerance = 1 if op in TRANSCENDENTALS else 0
        return _map_case(table["rows"], [dtype], result, Unary(op, A), tolerance)
    if unary_result(op, BOOL) is None:
        raise Untested(f"semantics 2: `{name.lower()}` is not defined for {dtype.text}")
    return _map_case(table["rows"], [dtype], BOOL, Unary(op, Cast(BOOL, A)))


def _cast(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    target = SCALAR_BY_TEXT.get(table["op"])
    if target is None or not target.is_executable:
        raise Untested(f"semantics 2.3: no cast to {table['op']}")
    return _map_case(table["rows"], [dtype], target, Cast(target, A))


def _truthiness(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    return _map_case(table["rows"], [dtype], BOOL, Cast(BOOL, A))


def _fma(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    return _map_case(table["rows"], [dtype] * 3, dtype, Fma(A, B, C))


def _atomic(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    if name == "LRU_UPDATE":
        raise Untested("design 3.6: LruUpdate is not offered")
    if dtype not in ATOMIC_ELEMENTS:
        raise Untested(f"design 3.6: no atomics on {dtype.text}")
    op = AtomicOp[name]
    rows = [row for row in table["rows"] if row[3] is not None]
    compares = op is AtomicOp.COMPARE_EXCHANGE
    update = Atomic(op, "x0", LANE, C if compares else None, B)
    operation = Operation("", "", "", (dtype,) * (3 if compares else 2), dtype, update)
    inputs = operation.inputs([_bits(row, (0, 2, 1) if compares else (0, 2)) for row in rows])
    return TableCase(
        operation.program(len(rows)), inputs, {"y": _column(rows, 3, dtype), "x0": _column(rows, 4, dtype)}, 0
    )


_KINDS: Final[dict[str, Callable[[Mapping[str, Any], str, ScalarType], TableCase]]] = {
    "binary": _binary,
    "unary": _unary,
    "cast": _cast,
    "truthiness": _truthiness,
    "fma": _fma,
    "atomic": _atomic,
}

"""Operator tables as programs: each table of recorded rows becomes one kernel that applies the operator to buffers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from vyre.domain.ir.expr import Atomic, Binary, Cast, Expr, Fma, IdKind, LaunchId, Load, Unary, Var
from vyre.domain.ir.operators import (
    ATOMIC_ELEMENTS,
    TRANSCENDENTALS,
    AtomicOp,
    BinaryOp,
    UnaryOp,
    binary_result,
    unary_result,
)
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Let, Store
from vyre.domain.ir.types import SCALAR_BY_TEXT, ScalarType

BOOL: Final = ScalarType.BOOL
_LANE: Final = LaunchId(IdKind.GLOBAL, 0)
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


def _column(rows: Sequence[Sequence[Any]], index: int, dtype: ScalarType) -> bytes:
    return b"".join(int(str(row[index]), 16).to_bytes(dtype.size, "little") for row in rows)


def _output(name: str, binding: int, dtype: ScalarType, rows: int, *, like: str) -> Buffer:
    """Returns an output of that many elements.

    A count of 0 means a size known only at run time; without rows, the output has the size of the input ``like``.
    """
    same_size = None if rows else like
    return Buffer.make(name, binding, Access.READ_WRITE, dtype, rows, is_output=True, like=same_size)


def _map_case(
    rows: Sequence[Sequence[Any]],
    operands: Sequence[ScalarType],
    result: ScalarType,
    apply: Callable[[list[Expr]], Expr],
    tolerance_ulp: int = 0,
) -> TableCase:
    """Returns ``out[i] = apply(in0[i], in1[i], ...)`` over the rows that have a result; there may be none."""
    used = [row for row in rows if row[len(operands)] is not None]
    names = [f"in{i}" for i in range(len(operands))]
    buffers = [
        Buffer.make(n, i, Access.READ_ONLY, t, len(used)) for i, (n, t) in enumerate(zip(names, operands, strict=True))
    ]
    buffers.append(_output("out", len(names), result, len(used), like=names[0]))
    value = apply([Load(name, _LANE) for name in names])
    program = Program(tuple(buffers), (64, 1, 1), (Store("out", _LANE, value),))
    inputs = {name: _column(used, i, t) for i, (name, t) in enumerate(zip(names, operands, strict=True))}
    return TableCase(program, inputs, {"out": _column(used, len(operands), result)}, tolerance_ulp)


def _binary(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    op = BinaryOp[name]
    result = binary_result(op, dtype, dtype)
    if result is not None:
        return _map_case(table["rows"], [dtype, dtype], result, lambda e: Binary(op, e[0], e[1]))
    if binary_result(op, BOOL, BOOL) is None:
        raise Untested(f"semantics 2: `{name.lower()}` is not defined for {dtype.text}")
    return _map_case(table["rows"], [dtype, dtype], BOOL, lambda e: Binary(op, Cast(BOOL, e[0]), Cast(BOOL, e[1])))


def _unary(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    op = UnaryOp[name]
    result = unary_result(op, dtype)
    if result is not None:
        tolerance = 1 if op in TRANSCENDENTALS else 0
        return _map_case(table["rows"], [dtype], result, lambda e: Unary(op, e[0]), tolerance)
    if unary_result(op, BOOL) is None:
        raise Untested(f"semantics 2: `{name.lower()}` is not defined for {dtype.text}")
    return _map_case(table["rows"], [dtype], BOOL, lambda e: Unary(op, Cast(BOOL, e[0])))


def _cast(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    target = SCALAR_BY_TEXT.get(table["op"])
    if target is None or not target.is_executable:
        raise Untested(f"semantics 2.3: no cast to {table['op']}")
    return _map_case(table["rows"], [dtype], target, lambda e: Cast(target, e[0]))


def _truthiness(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    return _map_case(table["rows"], [dtype], BOOL, lambda e: Cast(BOOL, e[0]))


def _fma(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    return _map_case(table["rows"], [dtype] * 3, dtype, lambda e: Fma(e[0], e[1], e[2]))


def _atomic(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    if name == "LRU_UPDATE":
        raise Untested("design 3.6: LruUpdate is not offered")
    if dtype not in ATOMIC_ELEMENTS:
        raise Untested(f"design 3.6: no atomics on {dtype.text}")
    op = AtomicOp[name]
    rows = [row for row in table["rows"] if row[3] is not None]
    compares = op is AtomicOp.COMPARE_EXCHANGE
    buffers = (
        Buffer.make("cell", 0, Access.READ_WRITE, dtype, len(rows)),
        Buffer.make("expected", 1, Access.READ_ONLY, dtype, len(rows)),
        Buffer.make("value", 2, Access.READ_ONLY, dtype, len(rows)),
        _output("old", 3, dtype, len(rows), like="cell"),
    )
    update = Atomic(op, "cell", _LANE, Load("expected", _LANE) if compares else None, Load("value", _LANE))
    body = (Let("before", update), Store("old", _LANE, Var("before")))
    wanted = [[row[0], row[1] or "0", *row[2:]] for row in rows]
    return TableCase(
        Program(buffers, (64, 1, 1), body),
        {"cell": _column(wanted, 0, dtype), "expected": _column(wanted, 1, dtype), "value": _column(wanted, 2, dtype)},
        {"old": _column(wanted, 3, dtype), "cell": _column(wanted, 4, dtype)},
        0,
    )


_KINDS: Final[dict[str, Callable[[Mapping[str, Any], str, ScalarType], TableCase]]] = {
    "binary": _binary,
    "unary": _unary,
    "cast": _cast,
    "truthiness": _truthiness,
    "fma": _fma,
    "atomic": _atomic,
}

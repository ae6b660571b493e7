"""Every operator on every type as a kernel: on two loaded operands, and with a literal on either side.

Literals matter: compilers replace operations on them, and known miscompiles of the driver's compiler start there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final, NamedTuple

from vyre.domain.ir.expr import Binary, Bitcast, Cast, Expr, Fma, IdKind, LaunchId, Literal, Load, Select, Unary
from vyre.domain.ir.operators import (
    BINARY,
    UNARY,
    BinaryOp,
    RightOperand,
    binary_result,
    bitcast_is_legal,
    unary_result,
)
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType, bf16, bool_, f16, f32, f64, i8, i16, u8, u16, u32
from vyre.domain.validation.validator import check_rules
from vyre.testing.backend_contract.operators import samples

_LANE: Final = LaunchId(IdKind.GLOBAL, 0)
_X: Final = Load("x0", _LANE)
_Y: Final = Load("x1", _LANE)
_STORAGE: Final = {u8: u32, u16: u32, i8: ScalarType.I32, i16: ScalarType.I32, f16: f32, bf16: f32}
"""Storage types and the type that a load of them has."""


class OperatorCase(NamedTuple):
    """A program, and the bytes of its inputs by name."""

    name: str
    program: Program
    inputs: Mapping[str, bytes]


def operator_cases() -> Iterator[OperatorCase]:
    """The matrix; about a kernel for each operator and type, with an output for each form."""
    for dtype in EXECUTABLE_TYPES:
        for op, row in BINARY.items():
            if dtype not in row.operands:
                continue
            yield _binary_case(op, dtype, dtype)
            if row.right is RightOperand.SHIFT and dtype is not u32:
                yield _binary_case(op, dtype, u32)
        for unary, unary_row in UNARY.items():
            if dtype in unary_row.operands:
                result = unary_result(unary, dtype)
                assert result is not None
                yield _case(f"{unary.name.lower()} {dtype.text}", (dtype,), {"y": (result, Unary(unary, _X))})
        casts: dict[str, tuple[ScalarType, Expr]] = {
            f"cast_{target.text}": (target, Cast(target, _X)) for target in EXECUTABLE_TYPES
        }
        bitcasts: dict[str, tuple[ScalarType, Expr]] = {
            f"bitcast_{target.text}": (target, Bitcast(target, _X))
            for target in EXECUTABLE_TYPES
            if bitcast_is_legal(dtype, target)
        }
        yield _case(f"conversions of {dtype.text}", (dtype,), casts | bitcasts)
        if dtype in (f32, f64):
            contracted = Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, _X, _Y), _Y)
            forms: dict[str, tuple[ScalarType, Expr]] = {
                "fused": (dtype, Fma(_X, _Y, _Y)),
                "apart": (dtype, contracted),
            }
            yield _case(f"multiply and add {dtype.text}", (dtype, dtype), forms)
        chosen = Select(Binary(BinaryOp.EQ, _X, _Y), _Y, _X)
        yield _case(f"select {dtype.text}", (dtype, dtype), {"y": (dtype, chosen)})
    for storage, wide in _STORAGE.items():
        yield _case(f"load {storage.text}", (storage,), {"y": (wide, _X)})
        yield _case(f"store {storage.text}", (wide,), {"y": (storage, _X)})


def _binary_case(op: BinaryOp, left: ScalarType, right: ScalarType) -> OperatorCase:
    result = binary_result(op, left, right)
    assert result is not None
    forms: dict[str, tuple[ScalarType, Expr]] = {"loaded": (result, Binary(op, _X, _Y))}
    for number, bits in enumerate(_literals(right)):
        if bits == 0 and op in (BinaryOp.DIV, BinaryOp.MOD) and not right.is_float:
            continue  # the validator refuses it
        forms[f"right{number}"] = (result, Binary(op, _X, Literal(right, bits)))
    for number, bits in enumerate(_literals(left)):
        forms[f"left{number}"] = (result, Binary(op, Literal(left, bits), _Y))
    return _case(f"{op.name.lower()} {left.text} {right.text}", (left, right), forms)


def _literals(dtype: ScalarType) -> tuple[int, ...]:
    """Bits of literals that compilers treat specially, and one that they do not."""
    if dtype is bool_:
        return (0, 1)
    if dtype.is_float:
        one, two = (0x3F80_0000, 0x4000_0000) if dtype is f32 else (0x3FF0 << 48, 0x4000 << 48)
        return (0, 1 << (dtype.bits - 1), one, two)
    top = (1 << dtype.bits) - 1
    return (0, 1, 3, 8, dtype.bits - 1, top, 1 << (dtype.bits - 1), 0x1234_5677)


def _case(name: str, operands: tuple[ScalarType, ...], outputs: Mapping[str, tuple[ScalarType, Expr]]) -> OperatorCase:
    rows = tuple(product(*map(_patterns, operands)))
    inputs = [Buffer.make(f"x{k}", k, Access.READ_ONLY, dtype, len(rows)) for k, dtype in enumerate(operands)]
    results = [
        Buffer.make(output, len(operands) + k, Access.READ_WRITE, dtype, len(rows), is_output=True)
        for k, (output, (dtype, _)) in enumerate(outputs.items())
    ]
    body = tuple(Store(output, _LANE, value) for output, (_, value) in outputs.items())
    program = Program((*inputs, *results), (64, 1, 1), body, name=name)
    check_rules(program).raise_if_invalid()
    data = {
        f"x{k}": b"".join(row[k].to_bytes(dtype.size, "little") for row in rows) for k, dtype in enumerate(operands)
    }
    return OperatorCase(name, program, data)


def _patterns(dtype: ScalarType) -> tuple[int, ...]:
    if dtype not in _STORAGE:
        return samples(dtype)
    return tuple(range(256)) if dtype.size == 1 else tuple(range(0, 1 << 16, 37))

"""Every operator on every type as a kernel: on two loaded operands, and with a literal on either side.

Literals matter: compilers replace operations on them, and known miscompiles of the driver's compiler start there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final, NamedTuple

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.types import (
    EXECUTABLE_TYPES,
    NARROW_TYPES,
    ScalarType,
    bf16,
    bool8,
    bool_,
    f16,
    f32,
    f64,
    i32,
    i64,
    u32,
    u64,
)
from vyre.testing.operations import OPERANDS, Operation, operand_columns, operations, rows_of, with_operands
from vyre.testing.samples import HALF_BITS, samples, wide_samples, words_with

_LANE: Final = ir.LaunchId(ir.IdKind.GLOBAL, 0)
_X: Final = ir.Load("x0", _LANE)
_Y: Final = ir.Load("x1", _LANE)
_STORAGE: Final = (*NARROW_TYPES, bool8)
_WRAPPED: Final = (u32, i32, u64, i64)


class OperatorCase(NamedTuple):
    """A program, and the bytes of its inputs by name."""

    name: str
    program: Program
    inputs: Mapping[str, bytes]


def operator_cases() -> Iterator[OperatorCase]:
    """The matrix; about a kernel for each operator and type, with an output for each form."""
    for operation in operations():
        if operation.kind in ("binary", "counts_may_be_u32"):
            yield _binary_case(operation)
        elif operation.kind == "unary":
            yield _case(operation.name, operation.operands, {"y": (operation.result, _of(operation, _X))})
    for dtype in EXECUTABLE_TYPES:
        conversions: dict[str, tuple[ScalarType, ir.Expr]] = {
            f"{operation.kind}_{operation.result.text}": (operation.result, _of(operation, _X))
            for kind in ("cast", "bitcast")
            for operation in operations()
            if operation.kind == kind and operation.operands == (dtype,)
        }
        yield _case(f"conversions of {dtype.text}", (dtype,), conversions)
        if dtype in (f32, f64):
            contracted = ir.Binary(BinaryOp.ADD, ir.Binary(BinaryOp.MUL, _X, _Y), _Y)
            forms: dict[str, tuple[ScalarType, ir.Expr]] = {
                "fused": (dtype, ir.Fma(_X, _Y, _Y)),
                "apart": (dtype, contracted),
            }
            yield _case(f"multiply and add {dtype.text}", (dtype, dtype), forms)
        chosen = ir.Select(ir.Binary(BinaryOp.EQ, _X, _Y), _Y, _X)
        yield _case(f"select {dtype.text}", (dtype, dtype), {"y": (dtype, chosen)})
    for storage in _STORAGE:
        yield _case(f"load {storage.text}", (storage,), {"y": (storage.widened, _X)})
        yield _case(f"store {storage.text}", (storage.widened,), {"y": (storage, _X)})
    yield from _by_zero()
    yield from _narrow_cases()
    yield from _wrapping_cases()


def _by_zero() -> Iterator[OperatorCase]:
    """Integer quotients and remainders by a zero that is written, or that compilers can work out."""
    for dtype in _WRAPPED:
        zero = ir.Literal(dtype, 0)
        forms: dict[str, tuple[ScalarType, ir.Expr]] = {}
        for op in (BinaryOp.DIV, BinaryOp.MOD):
            name = op.name.lower()
            forms[f"{name}_zero"] = (dtype, ir.Binary(op, _X, zero))
            forms[f"{name}_nothing"] = (dtype, ir.Binary(op, _X, ir.Binary(BinaryOp.SUB, _X, _X)))
            forms[f"{name}_zeros"] = (dtype, ir.Binary(op, zero, zero))
        yield _case(f"quotients of {dtype.text} by zero", (dtype,), forms)


def _narrow_cases() -> Iterator[OperatorCase]:
    """Roundings to narrow types, bits of narrow values, and arithmetic on values that are known to be narrow."""
    for dtype in NARROW_TYPES:
        wide = dtype.widened
        values, words = rows_of(wide_samples(wide)), rows_of(words_with(dtype))
        forms: dict[str, tuple[ScalarType, ir.Expr]] = {
            "narrow": (wide, ir.Narrow(dtype, _X)),
            "pack": (u32, ir.Pack(dtype, _X)),
            "stored": (dtype, ir.Narrow(dtype, _X)),
            "again": (wide, ir.Unpack(dtype, ir.Pack(dtype, _X))),
            "doubled": (wide, ir.Binary(BinaryOp.ADD, ir.Narrow(dtype, _X), ir.Narrow(dtype, _X))),
        }
        yield _case(f"narrow {dtype.text}", (wide,), forms, values)
        unpacked: dict[str, tuple[ScalarType, ir.Expr]] = {
            "unpack": (wide, ir.Unpack(dtype, _X)),
            "repacked": (u32, ir.Pack(dtype, ir.Unpack(dtype, _X))),
            "stored": (dtype, ir.Unpack(dtype, _X)),
        }
        yield _case(f"unpack {dtype.text}", (u32,), unpacked, words)
        literals: dict[str, tuple[ScalarType, ir.Expr]] = {}
        for number, bits in enumerate(wide_samples(wide)[::3]):
            literals[f"narrow{number}"] = (wide, ir.Narrow(dtype, ir.Literal(wide, bits)))
            literals[f"pack{number}"] = (u32, ir.Pack(dtype, ir.Literal(wide, bits)))
        yield _case(f"narrow {dtype.text} literals", (u32,), literals, ((0,),))
    for half in (f16, bf16):
        yield from _half_cases(half)


def _half_cases(half: ScalarType) -> Iterator[OperatorCase]:
    """Operators on loaded, unpacked and narrowed values of a narrow float type, whose results become narrow."""
    pairs = tuple(product(HALF_BITS[half], repeat=2))
    wide_pairs = tuple(product(wide_samples(f32)[::2], repeat=2))
    low, high = ir.Unpack(half, _X), ir.Unpack(half, ir.Binary(BinaryOp.SHR, _X, ir.Literal(u32, 16)))
    for op in (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MIN, BinaryOp.MAX):
        name = f"{op.name.lower()} {half.text}"
        direct = ir.Narrow(half, ir.Binary(op, _X, _Y))
        one = ir.Literal(f32, 0x3F80_2000)  # 1 + 2^-10, a value of f16 and none of bf16
        forms: dict[str, tuple[ScalarType, ir.Expr]] = {
            "narrow": (f32, direct),
            "stored": (half, direct),
            "kept": (f32, ir.Binary(op, _X, _Y)),
            "packed": (u32, ir.Pack(half, ir.Binary(op, _X, _Y))),
            "literal": (f32, ir.Narrow(half, ir.Binary(op, _X, one))),
            "twice": (f32, ir.Narrow(half, ir.Binary(op, direct, _Y))),
            "once": (f32, ir.Narrow(half, ir.Binary(op, ir.Binary(op, _X, _Y), _Y))),
            "apart": (f32, ir.Narrow(half, ir.Binary(BinaryOp.ADD, ir.Binary(op, _X, _Y), _Y))),
        }
        yield _case(f"{name} loaded", (half, half), forms, pairs)
        both = ir.Narrow(half, ir.Binary(op, ir.Narrow(half, _X), ir.Narrow(half, _Y)))
        wide: dict[str, tuple[ScalarType, ir.Expr]] = {
            "both": (f32, both),
            "left": (f32, ir.Narrow(half, ir.Binary(op, ir.Narrow(half, _X), _Y))),
            "neither": (f32, ir.Narrow(half, ir.Binary(op, _X, _Y))),
        }
        yield _case(f"{name} narrowed", (f32, f32), wide, wide_pairs)
        words = tuple((a | b << 16,) for a, b in pairs)
        unpacked: dict[str, tuple[ScalarType, ir.Expr]] = {
            "narrow": (f32, ir.Narrow(half, ir.Binary(op, low, high))),
            "packed": (u32, ir.Pack(half, ir.Binary(op, low, high))),
        }
        yield _case(f"{name} unpacked", (u32,), unpacked, words)
    fused = ir.Narrow(half, ir.Fma(_X, _Y, _X))
    apart = ir.Narrow(half, ir.Binary(BinaryOp.ADD, ir.Binary(BinaryOp.MUL, _X, _Y), _X))
    yield _case(f"multiply and add {half.text}", (half, half), {"fused": (f32, fused), "apart": (f32, apart)}, pairs)
    unary: dict[str, tuple[ScalarType, ir.Expr]] = {
        op.name.lower(): (f32, ir.Narrow(half, ir.Unary(op, _X)))
        for op in (UnaryOp.SQRT, UnaryOp.NEGATE, UnaryOp.ABS, UnaryOp.ROUND_EVEN, UnaryOp.RECIPROCAL, UnaryOp.FLOOR)
    }
    yield _case(f"functions {half.text}", (half,), unary)
    other = bf16 if half is f16 else f16
    conversions: dict[str, tuple[ScalarType, ir.Expr]] = {
        "other": (f32, ir.Narrow(other, _X)),
        "stored": (other, _X),
        "integer": (i32, ir.Cast(i32, _X)),
        "wide": (f64, ir.Cast(f64, _X)),
        "less": (bool_, ir.Binary(BinaryOp.LT, _X, ir.Literal(f32, 0x3F80_0000))),
    }
    yield _case(f"conversions of {half.text}", (half,), conversions)


def _wrapping_cases() -> Iterator[OperatorCase]:
    for source in (f32, f64):
        values = (*wide_samples(source), *(bits ^ 1 << (source.bits - 1) for bits in wide_samples(source)))
        forms: dict[str, tuple[ScalarType, ir.Expr]] = {
            f"wrap_{target.text}": (target, ir.WrapCast(target, _X)) for target in _WRAPPED
        }
        for number, bits in enumerate(values[::5]):
            forms[f"literal{number}"] = (u64, ir.WrapCast(u64, ir.Literal(source, bits)))
        yield _case(f"wrapping casts of {source.text}", (source,), forms, rows_of(values))


def _of(operation: Operation, *operands: ir.Expr) -> ir.Expr:
    names = (operand.name for operand in OPERANDS)
    return with_operands(operation.value, dict(zip(names, operands, strict=False)))


def _binary_case(operation: Operation) -> OperatorCase:
    (left, right), result = operation.operands, operation.result
    forms: dict[str, tuple[ScalarType, ir.Expr]] = {"loaded": (result, _of(operation, _X, _Y))}
    for number, bits in enumerate(_literals(right)):
        if bits == 0 and operation.key.startswith(("div_", "mod_")) and not right.is_float:
            continue  # in a kernel of its own, by ``_by_zero``
        forms[f"right{number}"] = (result, _of(operation, _X, ir.Literal(right, bits)))
    for number, bits in enumerate(_literals(left)):
        forms[f"left{number}"] = (result, _of(operation, ir.Literal(left, bits), _Y))
    return _case(operation.name, (left, right), forms)


def _literals(dtype: ScalarType) -> tuple[int, ...]:
    """Bits of literals that compilers treat specially, and one that they do not."""
    if dtype is bool_:
        return (0, 1)
    if dtype.is_float:
        one, two = (0x3F80_0000, 0x4000_0000) if dtype is f32 else (0x3FF0 << 48, 0x4000 << 48)
        return (0, 1 << (dtype.bits - 1), one, two)
    top = (1 << dtype.bits) - 1
    return (0, 1, 3, 8, dtype.bits - 1, top, 1 << (dtype.bits - 1), 0x1234_5677)


def _case(
    name: str,
    operands: tuple[ScalarType, ...],
    outputs: Mapping[str, tuple[ScalarType, ir.Expr]],
    rows: tuple[tuple[int, ...], ...] | None = None,
) -> OperatorCase:
    if rows is None:
        rows = tuple(product(*map(_patterns, operands)))
    inputs = [Buffer.make(f"x{k}", k, Access.READ_ONLY, dtype, len(rows)) for k, dtype in enumerate(operands)]
    results = [
        Buffer.make(output, len(operands) + k, Access.READ_WRITE, dtype, len(rows), is_output=True)
        for k, (output, (dtype, _)) in enumerate(outputs.items())
    ]
    body = tuple(ir.Store(output, _LANE, value) for output, (_, value) in outputs.items())
    return OperatorCase(
        name, Program((*inputs, *results), (64, 1, 1), body, name=name), operand_columns(rows, operands)
    )


def _patterns(dtype: ScalarType) -> tuple[int, ...]:
    if dtype not in _STORAGE:
        return samples(dtype)
    return tuple(range(256)) if dtype.size == 1 else tuple(range(0, 1 << 16, 37))

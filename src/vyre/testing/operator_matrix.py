"""The operator matrix: every operator, conversion, memory and subgroup operation on every type.

Each case is a small program with its inputs, comparable byte for byte on any backend: where the order of lanes could
show, every lane has an element of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import (
    ATOMIC_ELEMENTS,
    BINARY,
    COUNTED,
    INTEGERS,
    MERGEABLE,
    SUBGROUP,
    UNARY,
    AtomicOp,
    BinaryOp,
    Ordering,
    SubgroupOp,
    UnaryOp,
    binary_result,
    cast_is_legal,
    unary_result,
)
from vyre.domain.ir.program import Access, Buffer, MemoryKind, Program
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType, bool_, u32
from vyre.testing.operator_programs import OperatorCase, operator_cases
from vyre.testing.samples import samples

_LANE: Final = ir.LaunchId(ir.IdKind.GLOBAL, 0)
_X: Final = ir.Load("x", _LANE)
_SYNC: Final = ir.Barrier(Ordering.ACQ_REL)
_CELLS: Final = 4
_GROUPS: Final = 2
_FRACTIONS: Final[dict[ScalarType, int]] = {ScalarType.F32: 23, ScalarType.F64: 52}
_TAIL: Final = 40
"""Lanes of a workgroup whose last subgroup is not full."""


@cache
def operator_matrix() -> tuple[OperatorCase, ...]:
    """All cases; the names are all different."""
    return (*operator_cases(), *_literal_cases(), *_folded_cases(), *_atomic_cases(), *_subgroup_cases())


def _literal_cases() -> Iterator[OperatorCase]:
    """Every shift count and many divisors as literals, for the sake of what is written for each."""
    for dtype in sorted(INTEGERS, key=lambda t: t.text):
        for op in sorted(COUNTED, key=lambda op: op.value):
            counts = [ir.Literal(u32, count) for count in (*range(dtype.bits), dtype.bits, 2 * dtype.bits - 1)]
            yield _by_literals(f"{op.name.lower()} {dtype.text} by each count", dtype, op, counts)
        for op in (BinaryOp.DIV, BinaryOp.MOD, BinaryOp.MUL):
            factors = [ir.Literal(dtype, bits) for bits in _factors(dtype)]
            yield _by_literals(f"{op.name.lower()} {dtype.text} by many literals", dtype, op, factors)


def _factors(dtype: ScalarType) -> tuple[int, ...]:
    top, sign = (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)
    small = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 25, 60, 100, 125, 255, 256, 625, 641, 1000, 65_535, 65_537, 1_000_000)
    near = (sign - 1, sign, sign + 1, top // 3, top - 6, top - 1, top)
    return tuple(dict.fromkeys((*small, *near, *(1 << k for k in range(3, dtype.bits, 5)))))


def _by_literals(name: str, dtype: ScalarType, op: BinaryOp, literals: Sequence[ir.Literal]) -> OperatorCase:
    values, width = samples(dtype), len(literals)
    first = ir.Binary(BinaryOp.MUL, _LANE, ir.Literal(u32, width))
    body = tuple(
        ir.Store("y", ir.Binary(BinaryOp.ADD, first, ir.Literal(u32, k)), ir.Binary(op, _X, literal))
        for k, literal in enumerate(literals)
    )
    buffers = (_input("x", 0, dtype, len(values)), _output("y", 1, dtype, len(values) * width))
    return _case(name, buffers, body, {"x": _bytes(dtype, values)})


def _folded_cases() -> Iterator[OperatorCase]:
    """Operations on literals alone: a compiler works out the results, and what follows from them."""
    for dtype in EXECUTABLE_TYPES:
        literals = [ir.Literal(dtype, bits) for bits in samples(dtype)]
        for unary in UNARY:
            result = unary_result(unary, dtype)
            if result is not None:
                values = [ir.Unary(unary, literal) for literal in literals]
                yield _of_literals(f"{unary.name.lower()} {dtype.text}", result, values)
        for target in EXECUTABLE_TYPES:
            if cast_is_legal(dtype, target):
                casts = [ir.Cast(target, literal) for literal in literals]
                yield _of_literals(f"cast {dtype.text} to {target.text}", target, casts, bound=1)
        for binary in BINARY:
            result = binary_result(binary, dtype, dtype)
            if result is not None:
                # Among them are -0, infinity and NaN, and no divisor that is refused.
                few = literals if dtype is bool_ else literals[1::2]
                pairs = [ir.Binary(binary, left, right) for left in few for right in few]
                yield _of_literals(f"{binary.name.lower()} {dtype.text}", result, pairs)


def _of_literals(name: str, dtype: ScalarType, values: Sequence[ir.Expr], bound: int = 5) -> OperatorCase:
    """Stores each value, and what follows from it: a store may hide that the compiler takes it for another value."""
    width = len(values)
    first = ir.Binary(BinaryOp.MUL, _LANE, ir.Literal(u32, width))
    body: list[ir.Stmt] = []
    for k, value in enumerate(values):
        place = ir.Binary(BinaryOp.ADD, first, ir.Literal(u32, k))
        body += (
            ir.Let(f"v{k}", value),
            ir.Store("y", place, ir.Var(f"v{k}")),
            ir.Store("z", place, _conclusion(dtype, ir.Var(f"v{k}"), bound)),
        )
    buffers = (_input("x", 0, u32, 2), _output("y", 1, dtype, 2 * width), _output("z", 2, u32, 2 * width))
    return _case(f"{name} of literals", buffers, tuple(body), {"x": bytes(8)})


def _conclusion(dtype: ScalarType, value: ir.Expr, bound: int) -> ir.Expr:
    two, one, none = (ir.Literal(u32, number) for number in (2, 1, 0))
    if dtype is bool_:
        return ir.Select(value, one, none)
    if dtype.is_float:
        below = ir.Binary(BinaryOp.LT, value, ir.Literal.of(dtype, 1.0))
        return ir.Select(ir.Unary(UnaryOp.IS_NAN, value), two, ir.Select(below, one, none))
    return ir.Select(ir.Binary(BinaryOp.LT, value, ir.Literal(dtype, bound)), one, none)


def _atomic_cases() -> Iterator[OperatorCase]:
    for dtype in sorted(ATOMIC_ELEMENTS, key=lambda t: t.text):
        for op in AtomicOp:
            for workgroup in (False, True):
                yield _own_cell(op, dtype, workgroup=workgroup)
                if op in MERGEABLE:
                    yield _common_cells(op, dtype, workgroup=workgroup)


def _own_cell(op: AtomicOp, dtype: ScalarType, *, workgroup: bool) -> OperatorCase:
    """Each lane on an element of its own, so that the old values are as determined as the new ones."""
    values = tuple((old, new) for old in samples(dtype) for new in samples(dtype))
    lanes = len(values)
    expected = None if op is not AtomicOp.COMPARE_EXCHANGE else ir.Load("expected", _LANE)
    expectations = [old if k % 3 else new for k, (old, new) in enumerate(values)]
    lane: ir.Expr = ir.LaunchId(ir.IdKind.LOCAL, 0) if workgroup else _LANE
    where = "scratch" if workgroup else "cell"
    update = (
        ir.Let("old", ir.Atomic(op, where, lane, expected, ir.Load("value", _LANE))),
        ir.Store("old", _LANE, ir.Var("old")),
    )
    body: ir.Body = update
    if workgroup:
        fill, drain = (
            ir.Store("scratch", lane, ir.Load("cell", _LANE)),
            ir.Store("cell", _LANE, ir.Load("scratch", lane)),
        )
        body = (fill, _SYNC, *update, _SYNC, drain)
    buffers = (
        Buffer.make("cell", 0, Access.READ_WRITE, dtype, lanes),
        _input("expected", 1, dtype, lanes),
        _input("value", 2, dtype, lanes),
        _output("old", 3, dtype, lanes),
    )
    inputs = {
        "cell": _bytes(dtype, [old for old, _ in values]),
        "expected": _bytes(dtype, expectations),
        "value": _bytes(dtype, [new for _, new in values]),
    }
    name = f"{op.name.lower()} {dtype.text} {'workgroup' if workgroup else 'storage'} own"
    return _case(name, buffers, body, inputs, scratch=(dtype, 64) if workgroup else None)


def _common_cells(op: AtomicOp, dtype: ScalarType, *, workgroup: bool) -> OperatorCase:
    """All lanes on few elements; the order does not show, because nobody reads an old value.

    The value of every lane shows in the result: none of the values, and no first content of an element, absorbs the
    others.
    """
    local, group = ir.LaunchId(ir.IdKind.LOCAL, 0), ir.LaunchId(ir.IdKind.GROUP, 0)
    first = ir.Binary(BinaryOp.MUL, group, ir.Literal(u32, _CELLS))
    index = ir.Binary(BinaryOp.MOD, local, ir.Literal(u32, _CELLS))
    where, element = ("scratch", index) if workgroup else ("cell", ir.Binary(BinaryOp.ADD, first, index))
    body: ir.Body = (ir.Let("ignored", ir.Atomic(op, where, element, None, ir.Load("value", _LANE))),)
    if workgroup:
        one_each, own = ir.Binary(BinaryOp.LT, local, ir.Literal(u32, _CELLS)), ir.Binary(BinaryOp.ADD, first, local)
        fill = ir.If(one_each, (ir.Store("scratch", local, ir.Load("cell", own)),))
        drain = ir.If(one_each, (ir.Store("cell", own, ir.Load("scratch", local)),))
        body = (fill, _SYNC, *body, _SYNC, drain)
    lanes, cells = _GROUPS * 64, _GROUPS * _CELLS
    buffers = (Buffer.make("cell", 0, Access.READ_WRITE, dtype, cells), _input("value", 1, dtype, lanes))
    values, contents = _absorbing_nothing(op, dtype, lanes, cells)
    inputs = {"cell": _bytes(dtype, contents), "value": _bytes(dtype, values)}
    name = f"{op.name.lower()} {dtype.text} {'workgroup' if workgroup else 'storage'} common"
    return _case(name, buffers, body, inputs, scratch=(dtype, _CELLS) if workgroup else None)


def _absorbing_nothing(op: AtomicOp, dtype: ScalarType, lanes: int, cells: int) -> tuple[list[int], list[int]]:
    """Returns the values of the lanes and the first contents of the cells.

    The lanes of an element set, or clear, a bit each, and leave the highest one; other operations get any bits.
    """
    if op not in (AtomicOp.OR, AtomicOp.AND):
        return [_scattered(dtype, k) for k in range(lanes)], [_scattered(dtype, lanes + k) for k in range(cells)]
    flip = (1 << dtype.bits) - 1 if op is AtomicOp.AND else 0
    return _single_bits(dtype, lanes, flipped=op is AtomicOp.AND), [flip ^ 1 << (dtype.bits - 1)] * cells


def _single_bits(dtype: ScalarType, lanes: int, *, flipped: bool) -> list[int]:
    """Returns values of which each sets a bit other than the highest one, or clears it."""
    flip = (1 << dtype.bits) - 1 if flipped else 0
    return [flip ^ 1 << (5 * (k // _CELLS) + k % _CELLS) % (dtype.bits - 1) for k in range(lanes)]


def _conditions(lanes: int, *, flipped: bool) -> list[int]:
    """Returns a bool of each lane, of which only the last one holds, or only the last one does not."""
    return [flipped ^ (k == lanes - 1) for k in range(lanes)]


def _scattered(dtype: ScalarType, number: int) -> int:
    """Returns any bits of the type: the highest ones of a multiple of 2^64 divided by the golden ratio."""
    return (number + 1) * 0x9E37_79B9_7F4A_7C15 % (1 << 64) >> (64 - dtype.bits)


def _subgroup_cases() -> Iterator[OperatorCase]:
    for size in (64, _TAIL):
        for dtype in EXECUTABLE_TYPES:
            values = _subgroup_values(dtype, _GROUPS * size)
            yield _subgroup_case("shuffle", dtype, dtype, ir.SubgroupShuffle(_X, ir.Load("lane", _LANE)), values, size)
            if dtype is bool_:
                yield _subgroup_case("ballot", dtype, u32, ir.SubgroupBallot(_X), values, size)
            for op, row in SUBGROUP.items():
                if dtype not in row.operands:
                    continue
                form, value = op.name.lower().replace("_", " "), ir.SubgroupReduce(op, _X)
                if dtype is bool_:
                    values = _conditions(_GROUPS * size, flipped=op is SubgroupOp.ALL)
                elif row.operator in (BinaryOp.BIT_AND, BinaryOp.BIT_OR):
                    values = _single_bits(dtype, _GROUPS * size, flipped=row.operator is BinaryOp.BIT_AND)
                else:
                    values = _subgroup_values(dtype, _GROUPS * size)
                yield _subgroup_case(form, dtype, dtype, value, values, size)
                if dtype.is_float:
                    ends = _ends_of_folds(dtype, size)
                    yield _subgroup_case(form, dtype, dtype, value, ends, size, note=" with NaN")


def _subgroup_case(
    form: str, dtype: ScalarType, result: ScalarType, value: ir.Expr, values: Sequence[int], size: int, note: str = ""
) -> OperatorCase:
    buffers = (_input("x", 0, dtype, len(values)), _input("lane", 1, u32, len(values)))
    lanes = [(5 * k + k // 7) % 34 for k in range(len(values))]
    inputs = {"x": _bytes(dtype, values), "lane": _bytes(u32, lanes)}
    outputs = (*buffers, _output("y", 2, result, len(values)))
    body = (ir.Let("v", value), ir.Store("y", _LANE, ir.Var("v")))
    return _case(f"subgroup {form} {dtype.text}{note} of {size}", outputs, body, inputs, size=size)


def _subgroup_values(dtype: ScalarType, lanes: int) -> list[int]:
    """Returns a value of each lane.

    Floats have finite sums, and every order of additions rounds to another one: two of eight lanes hold a large value
    and its opposite, and what is added between them loses low bits.
    """
    if dtype is bool_:
        return [_scattered(u32, k) >> 16 & 1 for k in range(lanes)]
    scattered = [_scattered(dtype, k) for k in range(lanes)]
    if not dtype.is_float:
        return scattered
    sign, fraction = 1 << (dtype.bits - 1), _FRACTIONS[dtype]
    one = (sign >> 1) - (1 << fraction)
    values = [one + (7 * k % 5 << fraction) | bits & (sign | (1 << fraction) - 1) for k, bits in enumerate(scattered)]
    for k in range(0, lanes, 8):
        values[k + 1] += fraction - 3 << fraction
        values[k + 6] = values[k + 1] ^ sign
    return values


def _ends_of_folds(dtype: ScalarType, size: int) -> list[int]:
    """Returns a value of each lane whose subgroups have sums of a kind each.

    The kinds: a NaN; infinity; infinities of both signs; an overflow that a later lane would undo; zeros below zero,
    whose sum begins at +0; subnormals.
    """
    sign, fraction = 1 << (dtype.bits - 1), _FRACTIONS[dtype]
    infinity = sign - (1 << fraction)
    one, largest, nan = (sign >> 1) - (1 << fraction), infinity - 1, infinity + 1
    kinds = (
        (one, nan),
        (one, infinity, one, sign | one),
        (infinity, one, sign | infinity),
        (largest, largest, sign | largest),
        (sign,),
        (5, sign | 2, 1 << (fraction - 1)),
    )
    subgroups = -(-size // 32)
    lanes = [(k % size, k // size * subgroups + k % size // 32) for k in range(len(kinds) // subgroups * size)]
    return [kinds[subgroup][lane % 32 % len(kinds[subgroup])] for lane, subgroup in lanes]


def _input(name: str, binding: int, dtype: ScalarType, count: int) -> Buffer:
    return Buffer.make(name, binding, Access.READ_ONLY, dtype, count)


def _output(name: str, binding: int, dtype: ScalarType, count: int) -> Buffer:
    return Buffer.make(name, binding, Access.READ_WRITE, dtype, count, is_output=True)


def _bytes(dtype: ScalarType, values: Sequence[int]) -> bytes:
    return b"".join(value.to_bytes(dtype.size, "little") for value in values)


def _case(
    name: str,
    buffers: Sequence[Buffer],
    body: ir.Body,
    inputs: dict[str, bytes],
    *,
    size: int = 64,
    scratch: tuple[ScalarType, int] | None = None,
) -> OperatorCase:
    shared: tuple[Buffer, ...] = ()
    if scratch is not None:
        shared = (Buffer.make("scratch", 0, Access.WORKGROUP, scratch[0], scratch[1], kind=MemoryKind.SHARED),)
    return OperatorCase(name, Program((*buffers, *shared), (size, 1, 1), body, name=name), inputs)

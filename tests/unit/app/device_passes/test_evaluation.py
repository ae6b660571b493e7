"""The kernel that computes operators on literals gives what the rules of one lane give, for every operator and type."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

import vyre
from vyre.app.device_passes.evaluation import evaluation, key_of
from vyre.app.device_passes.node_lines import LINES, Line
from vyre.domain.ir.expr import Binary, Bitcast, Cast, Fma, Narrow, Pack, Unary, Unpack, WrapCast
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BINARY, FLOATS, UNARY, RightOperand, bitcast_is_legal, wrap_cast_is_legal
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType
from vyre.domain.numerics import scalar
from vyre.domain.optimize.flat_program import NODE_KINDS

F32 = (0, 1 << 31, 0x3F80_0000, 0xC0A0_0000, 0x7F80_0000, 0x7FC0_1234, 0xFF80_0001, 0x4F80_0000, 1, 0x3F00_0001)
F64 = (
    0,
    1 << 63,
    0x3FF0 << 48,
    0xC014 << 48,
    0x7FF0 << 48,
    0x7FF8_0000_0000_1234,
    0xFFF0_0000_0000_0001,
    1,
    0x43F0 << 48,
)
WORDS = {
    ScalarType.BOOL: (0, 1),
    ScalarType.F32: F32,
    ScalarType.F64: F64,
    **dict.fromkeys((ScalarType.U32, ScalarType.I32), (0, 1, 2, 31, 33, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0xFFC1)),
    **dict.fromkeys(
        (ScalarType.U64, ScalarType.I64), (0, 1, 3, 63, 65, 0xFFFF_FFFF, 1 << 63, (1 << 63) - 1, (1 << 64) - 1)
    ),
}


class Case(NamedTuple):
    kind: type[Node]
    tag: int
    dtype: ScalarType
    operands: tuple[int, ...]
    expected: int


def cases() -> Iterator[Case]:
    for op, row in BINARY.items():
        for dtype in row.operands:
            counts = WORDS[ScalarType.U32] if row.right is RightOperand.SHIFT else ()
            for a, b in product(WORDS[dtype], (*WORDS[dtype], *counts)):
                yield Case(Binary, op.value, dtype, (a, b), scalar.binary(op, dtype, a, b))
    for unary, of_one in UNARY.items():
        for dtype in of_one.operands:
            for a in WORDS[dtype]:
                yield Case(Unary, unary.value, dtype, (a,), scalar.unary(unary, dtype, a))
    for target, source in product(EXECUTABLE_TYPES, EXECUTABLE_TYPES):
        for a in WORDS[source]:
            yield Case(Cast, target.value, source, (a,), scalar.cast(source, target, a))
            if bitcast_is_legal(source, target):
                yield Case(Bitcast, target.value, source, (a,), scalar.bitcast(source, target, a))
            if wrap_cast_is_legal(source, target):
                yield Case(WrapCast, target.value, source, (a,), scalar.wrap_cast(source, target, a))
    for narrow in NARROW_TYPES:
        for a in WORDS[narrow.widened]:
            yield Case(Narrow, narrow.value, narrow.widened, (a,), scalar.narrow(narrow, a))
            yield Case(Pack, narrow.value, narrow.widened, (a,), scalar.pack(narrow, a))
        for a in WORDS[ScalarType.U32]:
            yield Case(Unpack, narrow.value, ScalarType.U32, (a,), scalar.unpack(narrow, a))
    for dtype in FLOATS:
        for words in product(WORDS[dtype], repeat=3):
            yield Case(Fma, 0, dtype, words, scalar.fma(dtype, *words))


@pytest.mark.parametrize("backend", ["cpu", "reference", "cuda-machine"])
def test_every_operator_is_computed_by_its_rule(backend: str) -> None:
    found = list(cases())[:: 17 if backend == "cuda-machine" else 1]
    count = len(found)
    nodes = np.zeros((LINES, 4 * count), np.uint32)
    bits = np.zeros(4 * count, np.uint64)
    for node, case in enumerate(found):
        nodes[Line.TODO, node] = key_of(NODE_KINDS[case.kind], case.tag, case.dtype.value)
        for place, (line, word) in enumerate(zip((Line.A, Line.B, Line.C), case.operands, strict=False), 1):
            nodes[line, node] = at = place * count + node
            bits[at] = word
    order = np.arange(count, dtype=np.uint32)
    inputs: dict[str, Any] = {"order": order, "nodes": nodes, "bits": bits, "first": 0, "count": count}
    with vyre.open(backend, optimize=False) as session:
        made = session.dispatch(evaluation(), {**inputs, "width": 4 * count})["bits"][:count].tolist()
    wrong = [(case, hex(bits)) for case, bits in zip(found, made, strict=True) if case.expected != bits]
    assert wrong == []

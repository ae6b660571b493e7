"""Operators that engines make of others: the carry-less product, against an independent product of polynomials."""

from __future__ import annotations

import random
from collections import Counter
from typing import Annotated, Any, Final

import numpy as np
import pytest

import vyre
from vyre import In, InOut, Out, like, u32, u64
from vyre.adapters import lanes
from vyre.adapters.lanes.types import LANE_DTYPE
from vyre.adapters.proving.terms import TermAlgebra, Unprovable
from vyre.domain.dialects.laws.checker import check_all
from vyre.domain.dialects.laws.evaluation import SCALARS
from vyre.domain.dialects.laws.lowered import lowered, lowering, lowering_law
from vyre.domain.ir.expr import Binary, Literal
from vyre.domain.ir.operators import BINARY, BinaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.domain.optimize.egraph.heads import CYCLE, Head, cost_of

LOWERED: Final = [op for op, row in BINARY.items() if row.lowers_to is not None]
BACKENDS: Final = ("reference", "cpu", "cuda-machine")


def product(a: int, b: int, width: int) -> int:
    """The low half of the product of two polynomials, whose exponents are the places of one bits."""
    places = [[place for place in range(width) if number >> place & 1] for number in (a, b)]
    terms = Counter(first + second for first in places[0] for second in places[1])
    return sum(1 << place for place, count in terms.items() if count % 2) % (1 << width)


def pairs(width: int, count: int) -> list[tuple[int, int]]:
    """Pairs of words: the edges with each other, sparse and full ones, and random ones."""
    source = random.Random(width)
    edges = [0, 1, 2, 3, (1 << width) - 1, 1 << (width - 1), (1 << width) // 3, (1 << width) // 15]
    words = [(source.getrandbits(width), source.getrandbits(width)) for _ in range(count)]
    sparse = [(a & b, a | b) for a, b in words]
    return [*((a, b) for a in edges for b in edges), *words, *sparse]


def test_known_products() -> None:
    """Products that a person can check: (x + 1)^2 = x^2 + 1, and (x^3 + x + 1)(x^2 + x) = x^5 + x^4 + x^3 + x."""
    assert product(0b11, 0b11, 32) == 0b101
    assert product(0b1011, 0b110, 32) == 0b111010
    assert product(0xFFFF_FFFF, 0xFFFF_FFFF, 32) == 0x5555_5555
    assert product(1 << 31, 2, 32) == 0


@pytest.mark.parametrize("dtype", [ScalarType.U32, ScalarType.U64])
def test_scalars_and_lanes_give_the_product_of_polynomials(dtype: ScalarType) -> None:
    cases = pairs(dtype.bits, 200)
    expected = [product(a, b, dtype.bits) for a, b in cases]
    assert [scalar.binary(BinaryOp.CLMUL, dtype, a, b) for a, b in cases] == expected
    assert [lowered(BinaryOp.CLMUL, dtype, a, b, SCALARS) for a, b in cases] == expected
    left, right = (np.array(words, LANE_DTYPE[dtype]) for words in zip(*cases, strict=True))
    assert lanes.binary(BinaryOp.CLMUL, dtype)(left, right).tolist() == expected


@vyre.kernel
def products_32(x: In[u32], y: In[u32], z: Annotated[Out[u32], like("x")]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        z[i] = vyre.clmul(x[i], y[i])


@vyre.kernel
def products_64(x: In[u64], y: In[u64], z: Annotated[Out[u64], like("x")]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        z[i] = vyre.clmul(x[i], y[i])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kernel", "dtype"), [(products_32, np.uint32), (products_64, np.uint64)])
def test_every_engine_gives_the_product_of_polynomials(kernel: Any, dtype: Any, backend: str) -> None:
    width = np.dtype(dtype).itemsize * 8
    cases = pairs(width, 20)
    left, right = (np.array(words, dtype) for words in zip(*cases, strict=True))
    with vyre.open(backend):
        assert kernel(left, right).tolist() == [product(a, b, width) for a, b in cases]


@vyre.kernel
def counted_products(counter: InOut[u32], z: InOut[u32]) -> None:
    """The operands change the counter: each lane counts once for the product, whatever it is made of."""
    i = vyre.global_id(0)
    if i < len(z):
        z[i] = vyre.clmul(counter.atomic_add(0, 1), 3) ^ vyre.clmul(5, counter.atomic_add(0, 1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_operands_are_evaluated_once(backend: str) -> None:
    counter, z = np.zeros(1, np.uint32), np.zeros(40, np.uint32)
    with vyre.open(backend):
        counted_products(counter, z)
    assert counter.tolist() == [80]


@pytest.mark.parametrize("op", LOWERED)
def test_what_an_operator_lowers_to_is_the_operator(op: BinaryOp) -> None:
    for verdict in check_all(lowering_law(op)):
        assert verdict.is_trusted, str(verdict)


@pytest.mark.parametrize("op", LOWERED)
def test_an_operator_is_not_proved_by_what_it_lowers_to(op: BinaryOp) -> None:
    algebra = TermAlgebra()
    for dtype in BINARY[op].operands:
        x, y = algebra.variable("x", dtype), algebra.variable("y", dtype)
        with pytest.raises(Unprovable, match=op.name.lower()):
            algebra.binary(op, dtype, dtype, x, y)


def test_equal_parts_are_computed_once_and_cost_once() -> None:
    """Sixteen products of eight masked words: their masks, exclusive sums, masks again, and what joins four of them."""
    head = Head(Binary, BinaryOp.CLMUL, ScalarType.U32, ScalarType.U32)
    assert cost_of(head) == (16 + 8 + 12 + 4 + 3) * CYCLE
    assert lowering(BinaryOp.CLMUL, ScalarType.U64) is lowering(BinaryOp.CLMUL, ScalarType.U64)


def test_what_has_no_lowering_and_no_such_type_is_refused() -> None:
    with pytest.raises(KeyError):
        lowered(BinaryOp.ADD, ScalarType.U32, 1, 1, SCALARS)
    with pytest.raises(vyre.VyreError):
        lowered(BinaryOp.CLMUL, ScalarType.I32, 1, 1, SCALARS)


def test_a_constant_product_is_folded() -> None:
    program = vyre.Program.from_text(
        "program p\nworkgroup_size 1, 1, 1\nbuffer y @0 read_write u32[4]\n"
        "body {\n  y[0u] = clmul(11u, 6u)\n  y[1u] = clmul(y[0u], 1u)\n  y[2u] = clmul(y[0u], 0u)\n}\n"
    )
    from vyre.domain.optimize.folding import FOLDING

    folded = FOLDING.run(program, Counter())
    assert [getattr(stmt, "value", None) for stmt in folded.body][::2] == [
        Literal(ScalarType.U32, 0b111010),
        Literal(ScalarType.U32, 0),
    ]
    assert "y[1u] = y[0u]" in folded.to_text()

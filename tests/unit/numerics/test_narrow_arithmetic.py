"""An operator of f32 on narrow operands, followed by ``narrow``, is that operator of the narrow type."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from benchmarks import narrow_rounding

from support.reference.bit_patterns import f32_value
from support.reference.exact_floats import HALF, NARROW_FLOATS, NarrowFormat, near_midpoints
from vyre.adapters import lanes
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import f16, f32
from vyre.domain.numerics import scalar

RECORD: dict[str, Any] = json.loads(narrow_rounding.RECORD.read_text())
OPERATORS: dict[BinaryOp, Callable[[Fraction, Fraction], Fraction]] = {
    BinaryOp.ADD: lambda a, b: a + b,
    BinaryOp.SUB: lambda a, b: a - b,
    BinaryOp.MUL: lambda a, b: a * b,
    BinaryOp.DIV: lambda a, b: a / b,
}
FORMATS = {form.dtype.text: form for form in NARROW_FLOATS.values()}
PAIRS = 3000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def random_pairs(form: NarrowFormat, count: int, seed: int) -> Iterator[tuple[int, int]]:
    rng = random.Random(f"{form.dtype.text} {seed}")
    for _ in range(count):
        a, b = rng.randrange(form.infinity), rng.randrange(form.infinity)
        if rng.random() < 0.5:  # of similar size, so that sums are rounded and cancel
            b = max(1, min(form.infinity - 1, a + rng.randrange(-12, 13) * (1 << form.fraction_bits) + b % 64))
        yield a | rng.choice((0, 0x8000)), b | rng.choice((0, 0x8000))


def exact(op: BinaryOp, form: NarrowFormat, a: int, b: int) -> int:
    """The pattern that the narrow type's own operator gives, for finite operands and no quotient by zero."""
    value: Fraction = OPERATORS[op](form.value(a), form.value(b))
    pattern = form.nearest(value)
    if value != 0:
        return pattern
    if op in (BinaryOp.MUL, BinaryOp.DIV):
        return (a ^ b) & 0x8000
    return a & (b ^ 0x8000 if op is BinaryOp.SUB else b) & 0x8000


def check(op: BinaryOp, form: NarrowFormat, pairs: list[tuple[int, int]]) -> None:
    """Both the rules of one lane and those of lanes."""
    dtype = form.dtype
    wanted = [exact(op, form, a, b) for a, b in pairs]
    for (a, b), pattern in zip(pairs, wanted, strict=True):
        value = scalar.binary(op, f32, scalar.unpack(dtype, a), scalar.unpack(dtype, b))
        assert scalar.pack(dtype, value) == pattern, f"{a:#06x} {op.name} {b:#06x}"
        assert scalar.narrow(dtype, value) == scalar.unpack(dtype, pattern), f"{a:#06x} {op.name} {b:#06x}"
    left, right = (lanes.unpack(dtype)(np.array(column, np.uint32)) for column in zip(*pairs, strict=True))
    values = lanes.binary(op, f32)(left, right)
    assert lanes.pack(dtype)(values).tolist() == wanted
    narrowed, loaded = lanes.narrow(dtype)(values), lanes.unpack(dtype)(np.array(wanted, np.uint32))
    assert narrowed.view(np.uint32).tolist() == loaded.view(np.uint32).tolist()


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name.lower())
def test_random_pairs_are_rounded_once(op: BinaryOp, form: NarrowFormat) -> None:
    pairs = list(random_pairs(form, PAIRS, seed=1))
    check(op, form, [(a, b) for a, b in pairs if op is not BinaryOp.DIV or b & 0x7FFF])


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name.lower())
def test_pairs_with_results_next_to_a_midpoint_are_rounded_once(op: BinaryOp, form: NarrowFormat) -> None:
    """There a first rounding to f32 that hit the midpoint would lead the second one astray."""
    pairs = list(near_midpoints(op, form, PAIRS, seed=2))
    check(op, form, pairs)
    distances = [relative_distance(op, form, a, b) for a, b in pairs]
    ties = sum(distance == 0 for distance in distances)
    close = sum(0 < distance < Fraction(1, 1 << 2 * form.precision - 1) for distance in distances)
    assert ties > PAIRS // 100, "too few results are midpoints"
    assert close > PAIRS // 100, "too few results are as close to a midpoint as two of so many bits can be"


def relative_distance(op: BinaryOp, form: NarrowFormat, a: int, b: int) -> Fraction:
    """The distance of the exact result from the nearest midpoint, divided by that midpoint."""
    magnitude = abs(OPERATORS[op](form.value(a), form.value(b)))
    near = form.nearest(magnitude)
    around = [p for p in (near - 1, near, near + 1) if 0 <= p <= form.infinity]
    middles = [(form.values[p] + form.values[q]) / 2 for p, q in pairwise(around)]
    return min(abs(magnitude - middle) / middle for middle in middles)


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_every_square_root_is_rounded_once(form: NarrowFormat) -> None:
    patterns = range(1, form.infinity)
    wanted = [form.nearest_root(form.value(p)) for p in patterns]
    loaded = lanes.unpack(form.dtype)(np.arange(1, form.infinity, dtype=np.uint32))
    roots = lanes.unary(UnaryOp.SQRT, f32)(loaded)
    assert lanes.pack(form.dtype)(roots).tolist() == wanted
    for p in (1, 2, 3, *patterns[::31]):
        root = scalar.unary(UnaryOp.SQRT, f32, scalar.unpack(form.dtype, p))
        assert scalar.pack(form.dtype, root) == wanted[p - 1]


def test_a_fused_sum_is_not_always_rounded_once() -> None:
    """1 + 2^-11 + 2^-24 is above a midpoint of f16, but a tie in f32, which goes down to the midpoint."""
    a, b, c = HALF.nearest(Fraction(3)), HALF.nearest(Fraction(683, 2048)), HALF.nearest(Fraction(1, 1 << 24))
    exactly = HALF.value(a) * HALF.value(b) + HALF.value(c)
    fused = scalar.fma(f32, *(scalar.unpack(f16, p) for p in (a, b, c)))
    assert HALF.value(HALF.nearest(exactly)) == 1 + Fraction(1, 1024)
    assert f32_value(scalar.narrow(f16, fused)) == 1.0


# ------------------------------------------------------------------------------ the exhaustive proofs

HARD = (
    *(0x0000, 0x0001, 0x0002, 0x0003, 0x007E, 0x007F, 0x0080, 0x0081, 0x00FF, 0x0100, 0x03FE, 0x03FF, 0x0400, 0x0401),
    *(0x07FF, 0x0801, 0x0BFF, 0x1000, 0x1401, 0x1FC1, 0x2000, 0x2555, 0x33FF, 0x3555, 0x37FF, 0x3801, 0x3AAB, 0x3BFF),
    *(0x3C00, 0x3C01, 0x3EFF, 0x3F01, 0x3F7F, 0x3F80, 0x3F81, 0x3FAB, 0x3FFF, 0x4048, 0x4248, 0x47FF, 0x5555, 0x57FF),
    *(0x5BFF, 0x5F7F, 0x6801, 0x77FF, 0x7801, 0x7BFE, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7F7E, 0x7F7F, 0x7F80, 0x7F81),
    *(0x7FC0, 0x7FFF, 0x8000, 0x8001, 0x8080, 0x83FF, 0x8400, 0xB555, 0xBEEF, 0xBF80, 0xFBFF, 0xFC00, 0xFF7F, 0xFF80),
)
"""Zeros, subnormal numbers, neighbours of powers of two, the greatest numbers, infinities and NaN of both formats."""
SLICES = {
    "add": (*range(0x0000, 0x8000, 0x0A5), 0x7BFF, 0x8000, 0x8001, 0x83FF, 0x8400, 0xFBFF, 0xFC00, 0x7C01),
    "sub": (0x0001, 0x03FF, 0x0400, 0x1234, 0x3BFF, 0x7BFF, 0x7C00, 0x7E00, 0x8000, 0x8400, 0xFBFF),
    "mul": (0x0001, 0x03FF, 0x0400, 0x1401, 0x3BFF, 0x57FF, 0x7BFF, 0x7C00, 0x7E00, 0x8000, 0xBEEF),
    "div": (0x0001, 0x03FF, 0x0400, 0x1401, 0x3BFF, 0x57FF, 0x7BFF, 0x7C00, 0x7E00, 0x8000, 0xBEEF),
    "f16": (0x0000, 0x3300, 0x3380, 0x37FF, 0x3880, 0x3F80, 0x4048, 0x477F, 0x7F7F, 0x7F80, 0xC77F, 0xFFC0),
    "bf16": (0x0000, 0x0001, 0x007F, 0x0080, 0x3F80, 0x4048, 0x477F, 0x7F7F, 0x7F80, 0x8000, 0xC77F, 0xFFC0),
    **dict.fromkeys(narrow_rounding.MORE, HARD),
    **{name: HARD for name in narrow_rounding.PROOFS if ".rn." in name},
}
"""Left operands whose pairs with all right operands are judged here, or upper halves of f32."""


@pytest.mark.parametrize("proof", [*narrow_rounding.PROOFS, *narrow_rounding.MORE])
def test_a_slice_of_each_exhaustive_proof(proof: str) -> None:
    block = (narrow_rounding.PROOFS | narrow_rounding.MORE)[proof]
    blocks = narrow_rounding.PATTERNS // narrow_rounding.BLOCK
    for left in SLICES[proof]:
        for k in range(left * blocks, (left + 1) * blocks):
            cases, _ = narrow_rounding.wrong_cases(block(k))
            assert cases.size == 0, f"{proof} of block {k}, case {cases[0]}"


@pytest.mark.parametrize("proof", narrow_rounding.PROOFS)
def test_the_exhaustive_proof_was_run(proof: str) -> None:
    entry = RECORD[proof]
    assert entry["cases"] == 2**32
    assert entry["wrong"] == 0
    assert entry["wrong_cases"] == []
    assert len(entry["checksums"]) == narrow_rounding.CHUNKS


@pytest.mark.slow
@pytest.mark.parametrize("proof", narrow_rounding.PROOFS)
def test_the_rules_are_those_of_the_recorded_run(proof: str) -> None:
    chunk = 0x3B
    result = narrow_rounding.run_chunk(proof, chunk)
    rerun = f"the rules changed. Fix: run `python -m benchmarks.narrow_rounding --again {proof}`"
    assert (result.wrong, f"{result.checksum:#018x}") == (0, RECORD[proof]["checksums"][chunk]), rerun


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_the_judge_of_the_proofs_rounds_as_the_definition_says(form: NarrowFormat) -> None:
    """Integers of all lengths times powers of two from far below the least number to infinity, and ties."""
    rng = random.Random(3)
    judge = narrow_rounding.HALF if form is HALF else narrow_rounding.BFLOAT
    cases = [
        (0, form.least + form.precision),
        (0, form.least - 90),
        (1, form.least - 1),
        (3, form.least - 1),
        (1, form.least - 80),
    ]
    for _ in range(3000):
        n = rng.getrandbits(rng.randrange(1, 60)) | 1
        if rng.random() < 0.4:  # a midpoint, or one unit beside it
            n = (2 * rng.getrandbits(form.precision) + 1) * (1 << rng.randrange(1, 40)) + rng.choice((0, 0, 1, -1))
        cases.append((n, rng.randrange(form.least - 60, form.greatest + 4) - rng.randrange(n.bit_length() + 1)))
    wanted = [form.nearest(n * Fraction(2) ** e) for n, e in cases]
    integers, exponents = (np.array(column, dtype=np.int64) for column in zip(*cases, strict=True))
    assert narrow_rounding.nearest(judge, integers, exponents).tolist() == wanted


def test_the_judge_finds_a_wrong_rounding() -> None:
    """The proofs refuse a result that was rounded twice, at first to a format with two bits more."""
    left = 0x3555
    blocks = narrow_rounding.PATTERNS // narrow_rounding.BLOCK
    wrong = 0
    for k in range(left * blocks, (left + 1) * blocks):
        block = narrow_rounding.PROOFS["div"](k)
        word = block.lanes.view(np.uint32)
        twice = (word + np.uint32(0x3FF) + (word >> np.uint32(11) & np.uint32(1))) & np.uint32(0xFFFF_F800)
        wrong += narrow_rounding.wrong_cases(block._replace(lanes=twice.view(np.float32)))[0].size
    assert wrong > 100


@pytest.mark.parametrize(
    ("source", "same"),
    [
        ('"""A."""\nA = 1\n"""A."""\n\n# A.\ndef f():\n    """A."""\n    return "b"\n', True),
        ('A = 1\ndef f():\n    return "c"\n', False),
        ('A = 1\ndef f():\n    return 1\n"b"\n', False),
        ('A = "1"\ndef f():\n    return "b"\n', False),
        ('A = 1\ndef f():\n    "x" + "y"\n    return "b"\n', False),
        ('A = 1\ndef f(): pass\nreturn_ = "b"\n', False),
    ],
)
def test_words_about_the_rules_leave_their_digest_as_it_is(source: str, same: bool) -> None:
    kept = list(narrow_rounding.code_tokens('A = 1\ndef f():\n    return "b"\n'))
    assert (list(narrow_rounding.code_tokens(source)) == kept) is same

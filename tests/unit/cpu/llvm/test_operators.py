"""The operators as machine code, bit by bit against the exact arithmetic of the domain.

Each number of lanes is compiled with LLVM's full effort, and each effort at one number of lanes; a soak (``make soak``)
has every pair, further numbers of lanes, and older processors with each of them.
"""

from __future__ import annotations

import itertools
import random
import re
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

import pytest

from support.cpu.operators import (
    LANES,
    UNIFORM,
    Application,
    Case,
    Form,
    Kind,
    all_cases,
    binary_cases,
    conversion_cases,
    kernel,
    module_text,
    narrow_cases,
    ternary_cases,
    unary_case,
    unary_cases,
    wrong_results,
)
from support.profiles import SOAK
from support.reference.bit_patterns import patterns
from vyre.adapters.cpu.llvm import conversion, operators
from vyre.adapters.cpu.llvm.values import Shape, Value, literal
from vyre.adapters.cpu.native.compilation import Effort, assembly
from vyre.adapters.cpu.native.features import AARCH64, CpuFeatures, host, parse_features
from vyre.domain.ir.operators import INTEGERS, TRANSCENDENTALS, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType, bool_, f32, i32, i64, u32, u64
from vyre.domain.numerics import scalar
from vyre.domain.numerics.transcendentals import patched_inputs

BASELINE: Final = CpuFeatures(host().arch, (), 128)
"""The oldest processors of this architecture."""
WIDTHS: Final = (None, 4, 8, 16, 32)
_ROWS: Final = 1536
_DIVISORS: Final = (0, 1, 2, 3, 5, 6, 7, 10, 16, 25, 60, 125, 641, 1000, 65_537)


@cache
def _rows(case: Case) -> tuple[tuple[int, ...], ...]:
    """Every combination of edge operands, or a sample where there are too many, and random ones."""
    several = len(case.operands) > 1
    columns = [patterns(dtype, 6 if several else 400, i) for i, dtype in enumerate(case.operands)]
    rows = list(itertools.product(*columns))
    return tuple(rows if len(rows) <= _ROWS else random.Random(case.name).sample(rows, _ROWS))


def _by_lanes(cases: Sequence[Case]) -> list[Application]:
    return [Application(case.name, case, (LANES,) * len(case.operands), _rows(case)) for case in cases]


def _compiled() -> list[Any]:
    """Numbers of lanes with efforts."""
    pairs = [(None, Effort.FULL), (4, Effort.FULL), (16, Effort.FULL), (4, Effort.QUICK), (16, Effort.LIGHT)]
    return [
        pytest.param(lanes, effort, id=f"W{lanes or 1}-{effort.name}")
        for lanes, effort in (itertools.product(WIDTHS, Effort) if SOAK else pairs)
    ]


@pytest.mark.parametrize(("lanes", "effort"), _compiled())
def test_operators_have_the_exact_bits(lanes: int | None, effort: Effort) -> None:
    assert wrong_results(_by_lanes(all_cases()), lanes, effort) == []


@pytest.mark.parametrize(
    ("bits", "lanes"), [(0, 4), (256, 8), *(((0, None), (0, 16), (128, 4), (256, 16)) if SOAK else ())]
)
@pytest.mark.parametrize("effort", Effort if SOAK else [Effort.FULL])
def test_operators_have_the_exact_bits_on_older_processors(bits: int, lanes: int | None, effort: Effort) -> None:
    features = host().at_most(bits) if bits else BASELINE
    assert wrong_results(_by_lanes(all_cases()), lanes, effort, features) == []


@pytest.mark.parametrize("lanes", [None, 4, 16], ids=str)
def test_every_narrow_element_has_its_value(lanes: int | None) -> None:
    rows = [(word,) for word in range(1 << 16)]
    applications = [
        Application(case.name, case, (LANES,), rows) for case in narrow_cases() if case.name.startswith("unpack")
    ]
    assert wrong_results(applications, lanes, Effort.LIGHT) == []


def _by_constants() -> Iterator[Application]:
    """Integer operators with a literal on one side, which has forms of its own."""
    for case in binary_cases():
        dtype, right = case.operands
        if dtype not in INTEGERS:
            continue
        top = (1 << dtype.bits) - 1
        numbers = [*_DIVISORS, *(top - n for n in (0, 1, 2, 6, 9)), *(top // n for n in (2, 3)), top // 2 + 1]
        by_plan = case.name.startswith(("div", "mod", "mul_"))
        chosen = numbers if by_plan else [0, 1, 5, dtype.bits - 1, dtype.bits, top]
        rows = [(bits, bits & ((1 << right.bits) - 1)) for bits in patterns(dtype, 20, 5)]
        for n, number in enumerate(chosen):
            value = number & ((1 << right.bits) - 1)
            yield Application(f"{case.name}_by_{n}", case, (LANES, Form(Kind.CONSTANT, value)), rows)
        for n, number in enumerate(chosen[:6]):
            yield Application(f"{case.name}_of_{n}", case, (Form(Kind.CONSTANT, number & top), LANES), rows)


@pytest.mark.parametrize(
    ("lanes", "effort"),
    itertools.product([None, 8], [Effort.LIGHT, Effort.FULL]) if SOAK else [(None, Effort.LIGHT), (8, Effort.FULL)],
)
def test_literals_on_one_side_change_no_bit(lanes: int | None, effort: Effort) -> None:
    assert wrong_results(list(_by_constants()), lanes, effort) == []


def _mixed() -> Iterator[Application]:
    """One uniform operand among vectors."""
    for case in (*binary_cases(), *ternary_cases()):
        for position in range(len(case.operands)):
            forms = tuple(UNIFORM if i == position else LANES for i in range(len(case.operands)))
            rows = _rows(case)
            for first in (0, len(rows) // 2, len(rows) - 1):
                # The first row decides the value that all lanes share.
                yield Application(f"{case.name}_{position}_{first}", case, forms, (rows[first], *rows[:160]))


@pytest.mark.parametrize("effort", Effort if SOAK else [Effort.FULL])
def test_uniform_operands_mix_with_vectors(effort: Effort) -> None:
    assert wrong_results(list(_mixed()), 8, effort) == []


def _affine() -> Iterator[Application]:
    strides = (3, 0x8000_0000, 0x1_0000_0001)
    for case in (*binary_cases(), *unary_cases(), *conversion_cases(), *ternary_cases()):
        affine = [i for i, dtype in enumerate(case.operands) if dtype in INTEGERS]
        for stride in strides:
            for others in (LANES, UNIFORM) if len(case.operands) > 1 else (LANES,):
                for position in affine if len(affine) == 1 else (*affine, None):
                    forms = tuple(
                        Form(Kind.AFFINE, stride & ((1 << dtype.bits) - 1))
                        if i in affine and position in (i, None)
                        else others
                        for i, dtype in enumerate(case.operands)
                    )
                    yield Application(
                        f"{case.name}_{stride}_{others.kind.name}_{position}", case, forms, _rows(case)[::7][:96]
                    )


def test_affine_operands_have_the_exact_bits_in_every_lane() -> None:
    assert wrong_results(list(_affine()), 8, Effort.LIGHT) == []


def _affine_results() -> Iterator[tuple[str, Value, int]]:
    k = kernel(16)
    x, n = k.affine(u32, "%x", 3), k.uniform(u32, "%n")
    two, four = literal(u32, 2), literal(u32, 4)
    yield "x + n", operators.binary(k, BinaryOp.ADD, x, n), 3
    yield "n + x", operators.binary(k, BinaryOp.ADD, n, x), 3
    yield "x - n", operators.binary(k, BinaryOp.SUB, x, n), 3
    yield "n - x", operators.binary(k, BinaryOp.SUB, n, x), -3
    yield "x + x", operators.binary(k, BinaryOp.ADD, x, x), 6
    yield "x - x", operators.binary(k, BinaryOp.SUB, x, x), 0
    yield "x * 4", operators.binary(k, BinaryOp.MUL, x, four), 12
    yield "4 * x", operators.binary(k, BinaryOp.MUL, four, x), 12
    yield "x << 2", operators.binary(k, BinaryOp.SHL, x, two), 12
    yield "x + 2", operators.binary(k, BinaryOp.ADD, x, two), 3
    yield "-x", operators.unary(k, UnaryOp.NEGATE, x), -3
    yield "~x", operators.unary(k, UnaryOp.BIT_NOT, x), -3
    yield "i32(x)", conversion.cast(k, i32, x), 3
    yield "u32(i32(x))", conversion.cast(k, u32, conversion.cast(k, i32, x)), 3
    yield "u32 of u64", conversion.cast(k, u32, k.affine(u64, "%y", (5 << 32) + 2)), 2
    yield "select", operators.select(k, k.uniform(bool_, "%c"), x, operators.binary(k, BinaryOp.ADD, x, n)), 3


@pytest.mark.parametrize(
    ("value", "stride"), [pytest.param(value, stride, id=name) for name, value, stride in _affine_results()]
)
def test_integers_stay_affine(value: Value, stride: int) -> None:
    assert value.shape is (Shape.AFFINE if stride else Shape.UNIFORM)
    assert value.stride == stride & 0xFFFF_FFFF


def test_what_may_wrap_at_some_lane_is_not_affine_in_a_wider_type() -> None:
    k = kernel(16)
    assert conversion.cast(k, u64, k.affine(u32, "%x", 1)).shape is Shape.VARYING
    assert conversion.cast(k, i64, k.affine(i32, "%x", 1)).shape is Shape.VARYING
    assert operators.binary(k, BinaryOp.MUL, k.affine(u32, "%x", 1), k.uniform(u32, "%n")).shape is Shape.VARYING


def test_constants_stay_constants() -> None:
    for case in all_cases():
        rows = _rows(case)[:12]
        for row in rows:
            k = kernel(8)
            value = case.apply(k, *(literal(dtype, bits) for dtype, bits in zip(case.operands, row, strict=True)))
            assert value.number == case.exact(*row), f"{case.name}{row}"
            assert value.is_uniform
            assert k.w.text() == "", f"{case.name}: an instruction computes a constant"


def test_uniform_operands_give_uniform_results() -> None:
    for case in (*all_cases(), *(unary_case(op, f32) for op in TRANSCENDENTALS)):
        k = kernel(8)
        value = case.apply(k, *(k.uniform(dtype, f"%x{i}") for i, dtype in enumerate(case.operands)))
        assert value.is_uniform, case.name
        assert "<8 x" not in k.w.text(), case.name


# ------------------------------------------------------------------------------ functions

_FUNCTIONS: Final = tuple(sorted(TRANSCENDENTALS, key=lambda op: op.name))


@cache
def _function_applications() -> tuple[Application, ...]:
    applications = []
    for op in _FUNCTIONS:
        inputs = [*patterns(f32, 700, 3), *patched_inputs(op), *_boundaries()]
        applications.append(Application(op.name.lower(), unary_case(op, f32), (LANES,), [(bits,) for bits in inputs]))
    return tuple(applications)


def _boundaries() -> Iterator[int]:
    """The inputs next to those at which some function changes its method."""
    for value in (0.4375, 0.5, 0.625, 0.6875, 1.0, 1.1875, 2.4375, 9.5, 88.73, 90.0, 104.0, 128.0, 150.0, 2.0**20):
        bits = scalar.cast(ScalarType.F64, f32, _f64_bits(value))
        for near in (bits - 1, bits, bits + 1):
            yield near
            yield near | 0x8000_0000


def _f64_bits(value: float) -> int:
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits


@pytest.mark.parametrize(
    "features",
    [
        pytest.param(host(), id="host"),
        *([pytest.param(host().at_most(256), id="256"), pytest.param(BASELINE, id="baseline")] if SOAK else []),
    ],
)
@pytest.mark.parametrize(("lanes", "effort"), _compiled())
def test_functions_have_the_bits_of_their_programs(lanes: int | None, effort: Effort, features: CpuFeatures) -> None:
    assert wrong_results(_function_applications(), lanes, effort, features) == []


# ------------------------------------------------------------------------------ code

_AARCH64: Final = CpuFeatures(AARCH64, ("neon",), 128)
_X86_64: Final = parse_features("x86_64+avx+avx2+avx512bw+avx512dq+avx512f+avx512vl+fma+sse4.2")
_FUSED: Final = re.compile(r"^\s+(v?fn?m(add|sub)|fml[as])|\bfmaf?\b", re.MULTILINE)
"""Instructions that round a product and a sum once, and the functions of the C library that do."""


@pytest.mark.parametrize(("features", "lanes"), [(_X86_64, 16), (_X86_64, None), (_AARCH64, 4)], ids=["v", "s", "arm"])
@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.FULL])
def test_no_fma_is_formed_where_none_is_asked_for(features: CpuFeatures, lanes: int | None, effort: Effort) -> None:
    cases = [case for case in all_cases() if not case.name.startswith("fma")]
    products = [Application("product_sum", _product_and_sum(), (LANES,) * 3, [(0, 0, 0)])]
    text = module_text([*_by_lanes(cases), *_function_applications(), *products], lanes)
    assert _FUSED.search(assembly(text, features, effort, system="linux")) is None


def _product_and_sum() -> Case:
    return Case(
        "product_sum",
        (f32, f32, f32),
        f32,
        lambda k, a, b, c: operators.binary(k, BinaryOp.ADD, operators.binary(k, BinaryOp.MUL, a, b), c),
        lambda a, b, c: scalar.binary(BinaryOp.ADD, f32, scalar.binary(BinaryOp.MUL, f32, a, b), c),
    )


def test_the_search_for_fmas_finds_one_that_is_asked_for() -> None:
    fmas = _by_lanes([case for case in ternary_cases() if case.name.startswith("fma")])
    for features in (_X86_64, _AARCH64, _X86_64.at_most(128)):
        assert _FUSED.search(assembly(module_text(fmas, 4), features, Effort.FULL, system="linux"))

"""Random expressions as machine code: LLVM folds operators that stand next to each other, and must change no bit.

Each expression is a tree of operators, conversions, literals and selects of all types, over three operands that hold
edge values: numbers next to limits, both zeros, infinities, NaN of many payloads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Final

import pytest

pytest.importorskip("llvmlite", reason="machine code is made by the optional package llvmlite")

from support.cpu.operators import LANES, UNIFORM, Application, Apply, Case, Form, Kind, all_cases, wrong_results
from support.profiles import SOAK
from support.reference.bit_patterns import EDGES, patterns
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.values import Value, literal
from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.native.features import CpuFeatures, host
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType, bool_, f32, f64, i32, i64, u32, u64

_BY_RESULT: Final[dict[ScalarType, list[Case]]] = {
    dtype: [case for case in all_cases() if case.result is dtype] for dtype in EXECUTABLE_TYPES
}
_SELECTS: Final = {case.result: case for case in all_cases() if case.name.startswith("select")}
_DEPTH: Final = 4


class _Tree:
    """An expression: how it is written, and its exact value for the bits of the operands."""

    def __init__(self, apply: Apply, exact: Callable[..., int], text: str) -> None:
        self.apply = apply
        self.exact = exact
        self.text = text


def _tree(rng: random.Random, dtype: ScalarType, inputs: tuple[ScalarType, ...], depth: int) -> _Tree:
    """A random expression of a type over operands of the types ``inputs``."""
    positions = [i for i, t in enumerate(inputs) if t is dtype]
    if positions and (depth == 0 or rng.random() < 0.15):
        position = rng.choice(positions)
        return _Tree(lambda k, *x: x[position], lambda *x: x[position], f"x{position}")
    if depth <= 0 or rng.random() < 0.1:
        bits = rng.choice(EDGES[dtype.size]) if dtype is not bool_ else rng.getrandbits(1)
        return _Tree(lambda k, *x: literal(dtype, bits), lambda *x: bits, f"{dtype.text}:{bits:#x}")
    # Selects, and what yields the type from itself, are where folds go wrong.
    case = _SELECTS[dtype] if rng.random() < 0.25 else rng.choice(_BY_RESULT[dtype])
    arguments = [_tree(rng, operand, inputs, depth - 1) for operand in case.operands]
    if rng.random() < 0.2 and len(arguments) > 1 and case.operands[-1] is case.operands[-2]:
        arguments[-1] = arguments[-2]

    def apply(k: Kernel, *x: Value) -> Value:
        return case.apply(k, *(argument.apply(k, *x) for argument in arguments))

    def exact(*x: int) -> int:
        return case.exact(*(argument.exact(*x) for argument in arguments))

    return _Tree(apply, exact, f"{case.name}({', '.join(argument.text for argument in arguments)})")


def _expressions(seed: int, count: int) -> Iterator[Application]:
    rng = random.Random(seed)
    for number in range(count):
        # Floats more often than the rest: it is with NaN and zeros that folds are delicate.
        dtype = rng.choice((f32, f32, f64, *EXECUTABLE_TYPES))
        inputs = (dtype, rng.choice((dtype, *EXECUTABLE_TYPES)), rng.choice(EXECUTABLE_TYPES))
        tree = _tree(rng, dtype, inputs, _DEPTH)
        columns = [patterns(t, 8, seed) for t in inputs]
        rows = [tuple(rng.choice(column) for column in columns) for _ in range(96)]
        case = Case(f"{tree.text} over {', '.join(t.text for t in inputs)}", inputs, dtype, tree.apply, tree.exact)
        yield Application(f"tree{number}", case, tuple(_form(rng, t) for t in inputs), rows)


def _form(rng: random.Random, dtype: ScalarType) -> Form:
    """Where an operand comes from: mostly an element for each lane."""
    if rng.random() < 0.7:
        return LANES
    if dtype.is_integer and rng.random() < 0.5:
        return Form(Kind.AFFINE, rng.choice((1, 4, (1 << dtype.bits) - 1)))
    return UNIFORM


def _wrong(seed: int, count: int, lanes: int | None, effort: Effort, features: CpuFeatures | None = None) -> list[str]:
    applications = list(_expressions(seed, count))
    texts = {application.name: application.case.name for application in applications}
    return [f"{line}: {texts[line.split('(')[0]]}" for line in wrong_results(applications, lanes, effort, features)]


@pytest.mark.parametrize(
    ("lanes", "effort"),
    product([None, 16], Effort) if SOAK else [(None, Effort.QUICK), (None, Effort.FULL), (16, Effort.LIGHT)],
)
def test_chains_of_operators_have_the_exact_bits(lanes: int | None, effort: Effort) -> None:
    assert _wrong(1, 250, lanes, effort) == []


def _of_converted(
    label: str, types: tuple[ScalarType, ScalarType], rule: Case, convert: Case, *, swapped: bool
) -> Case:
    """The rule over the first operand and the converted second one, or over both in the other order."""

    def apply(k: Kernel, x: Value, y: Value) -> Value:
        converted = convert.apply(k, y)
        return rule.apply(k, converted, x) if swapped else rule.apply(k, x, converted)

    def exact(x: int, y: int) -> int:
        converted = convert.exact(y)
        return rule.exact(converted, x) if swapped else rule.exact(x, converted)

    return Case(label, types, types[0], apply, exact)


def _extremes_of_converted_integers() -> Iterator[Application]:
    """A number that is known to be no NaN beside one that may be."""
    by_name = {case.name: case for case in all_cases()}
    for dtype in (f32, f64):
        for source in (bool_, i32, u32, i64, u64):
            rows = [(x, y) for x in EDGES[dtype.size] for y in patterns(source, 4, 9)]
            convert = by_name[f"cast_{source.text}_{dtype.text}"]
            for name in ("min", "max"):
                rule = by_name[f"{name}_{dtype.text}_{dtype.text}"]
                for swap in (False, True):
                    label = f"{name}_{dtype.text}_{source.text}_{swap}"
                    case = _of_converted(label, (dtype, source), rule, convert, swapped=swap)
                    yield Application(label, case, (LANES,) * 2, rows)


@pytest.mark.parametrize("effort", Effort)
@pytest.mark.parametrize("lanes", [None, 8], ids=str)
def test_a_nan_loses_to_a_number_that_is_known_to_be_one(lanes: int | None, effort: Effort) -> None:
    assert wrong_results(list(_extremes_of_converted_integers()), lanes, effort) == []


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 8) if SOAK else [2])
def test_many_chains_of_operators_have_the_exact_bits(seed: int) -> None:
    """One seed, and all of them in a soak."""
    baseline = CpuFeatures(host().arch, (), 128)
    for lanes, features in ((None, host()), (8, host().at_most(256)), (32, host()), (None, baseline), (4, baseline)):
        assert _wrong(seed, 250, lanes, Effort.FULL, features) == []

"""The checker of laws: it looks for operands on which the two sides differ, and says what it tried.

A law is tried on combinations of boundary values and on random ones by the rules of the language, and on all operands
in a model of few bits (``model``).  Equal means the same bits or both NaN.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Final, NamedTuple

from vyre.domain.dialects.laws.evaluation import SCALARS, Types, evaluated
from vyre.domain.dialects.laws.law import Law, OperandUse
from vyre.domain.dialects.laws.model import (
    TableAlgebra,
    all_values,
    constant_types,
    constant_values,
    is_nan_table,
    is_transcendental,
    model_types,
    type_text,
    value_count,
)
from vyre.domain.ir.bits import bits_value, value_bits
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.domain.numerics.scalar import MINIFLOAT, SMALL_MINIFLOAT, WIDE_HALF, WIDE_MINIFLOAT, ValueType
from vyre.domain.validation.typing import static_type

_S: Final = ScalarType
MOST_BOUNDARIES: Final = 2000
"""The greatest number of combinations of boundary values; of more, a random part is tried."""
RANDOM_TRIALS: Final = 500
MOST_MODEL_VALUES: Final = 1 << 24
"""The greatest number of combinations that the model tries; of more, ``MODEL_SAMPLES`` random ones."""
MODEL_SAMPLES: Final = 1 << 16
_CHUNK: Final = 1 << 20
_SIXTEEN: Final[dict[ValueType, ValueType]] = {
    _S.U8: _S.U16,
    _S.I8: _S.I16,
    MINIFLOAT: _S.F16,
    WIDE_MINIFLOAT: WIDE_HALF,
    SMALL_MINIFLOAT: _S.F16,
}
"""The type of 16 bits that stands for a type of the model of few bits."""


class Counterexample(NamedTuple):
    """Operands on which the sides of a law differ.

    ``types`` are those of the holes and of the result, which come last under the name ``""``; a model's have few bits.
    Values and results are bit patterns.
    """

    law: str
    types: Mapping[str, ValueType]
    values: Mapping[str, int]
    before: int
    after: int

    def __str__(self) -> str:
        operands = ", ".join(f"{name} = {_shown(self.types[name], bits)}" for name, bits in self.values.items())
        result = self.types[""]
        where = f" with {operands}" if operands else ""
        return f"{_shown(result, self.before)} is not {_shown(result, self.after)}{where}"


class Trial(NamedTuple):
    """One way in which a law was tried: ``cases`` combinations of values that satisfy its condition.

    ``is_exhaustive`` tells whether these are all there are for that way, ``is_model`` whether it is the model of few
    bits.
    """

    what: str
    cases: int
    is_exhaustive: bool
    is_model: bool = False


@dataclass(frozen=True)
class Verdict:
    """The verdict of the checker on one law at one type."""

    law: Law
    dtype: ScalarType
    counterexample: Counterexample | None
    trials: tuple[Trial, ...]

    @property
    def is_refuted(self) -> bool:
        """Whether the law was shown false."""
        return self.counterexample is not None

    @property
    def is_accepted(self) -> bool:
        """Whether operands that satisfy the condition were found, and none on which the sides differ."""
        return self.counterexample is None and any(trial.cases for trial in self.trials)

    @property
    def is_trusted(self) -> bool:
        """Whether the optimizer may rewrite by a law that others state: it is accepted at the real width, and all
        values of its model were tried.
        """
        return self.is_accepted and any(trial.is_model and trial.is_exhaustive for trial in self.trials)

    @property
    def use(self) -> OperandUse:
        """Returns what the law does with its operands, of which some may have to be pure."""
        return self.law.use

    def __str__(self) -> str:
        name = f"{self.law.name} at {self.dtype.text}"
        if self.counterexample is not None:
            return f"{name}: refuted: {self.counterexample}"
        if not self.is_accepted:
            return f"{name}: refused: no operands satisfy {self.law.where}"
        return f"{name}: holds for {'; '.join(trial.what for trial in self.trials)}"


def check(law: Law, dtype: ScalarType, *, seed: int = 0, with_model: bool = True) -> Verdict:
    """Returns the verdict on a law at one type: real widths first, then the model, up to the first counterexample.

    ``seed`` is that of the random values; ``with_model=False`` leaves the model out.  Raises ``MalformedText`` for a
    law whose texts do not parse.
    """
    law.at(dtype)
    trials: list[Trial] = []
    ways: list[Any] = [lambda: _try_boundaries(law, dtype, seed), lambda: _try_random(law, dtype, seed)]
    if len(law.hole_types(dtype)) == 1:
        ways.append(lambda: _try_sixteen_bits(law, dtype))
    if with_model:
        ways.append(lambda: _try_model(law, dtype, seed))
    for way in ways:
        trial, counterexample = way()
        if trial is not None:
            trials.append(trial)
        if counterexample is not None:
            return Verdict(law, dtype, counterexample, tuple(trials))
    return Verdict(law, dtype, None, tuple(trials))


def check_all(law: Law, *, seed: int = 0) -> tuple[Verdict, ...]:
    """Returns the verdicts on a law at each of its types, in the order of their tags.

    Types of one model, such as u32 and u64, are tried in it once.
    """
    verdicts: list[Verdict] = []
    seen: dict[Any, tuple[Trial, ...]] = {}
    for dtype in sorted(law.types, key=lambda t: t.tag):
        types = model_types(law, dtype)
        key = None if types is None else (types.get(dtype, dtype), tuple(types.items()))
        known = seen.get(key)
        verdict = check(law, dtype, seed=seed, with_model=known is None)
        if known is not None:
            verdict = Verdict(law, dtype, verdict.counterexample, (*verdict.trials, *known))
        elif key is not None and not verdict.is_refuted:
            seen[key] = verdict.trials[-1:]
        verdicts.append(verdict)
    return tuple(verdicts)


# ------------------------------------------------------------------------------ real widths


def _try_boundaries(law: Law, dtype: ScalarType, seed: int) -> tuple[Trial, Counterexample | None]:
    types = law.hole_types(dtype)
    choices = [boundary_values(types[name], name in law.constant_holes) for name in types]
    size = math.prod(map(len, choices))
    if size <= MOST_BOUNDARIES:
        operands: Iterator[tuple[int, ...]] = product(*choices)
    else:
        source = random.Random(f"{seed} boundaries {law.name} {dtype.text}")
        operands = (tuple([source.choice(values) for values in choices]) for _ in range(MOST_BOUNDARIES))
    cases, counterexample = _try_each(law, dtype, operands)
    what = f"{cases} combinations of boundary values"
    return Trial(what, cases, size <= MOST_BOUNDARIES), counterexample


def _try_random(law: Law, dtype: ScalarType, seed: int) -> tuple[Trial, Counterexample | None]:
    source = random.Random(f"{seed} random {law.name} {dtype.text}")
    types = law.hole_types(dtype)

    def drawn() -> Iterator[tuple[int, ...]]:
        for _ in range(RANDOM_TRIALS if types else 1):
            yield tuple([_random_value(source, types[name], name in law.constant_holes) for name in types])

    cases, counterexample = _try_each(law, dtype, drawn())
    return Trial(f"{cases} random combinations", cases, not types), counterexample


def _try_each(law: Law, dtype: ScalarType, operands: Iterator[tuple[int, ...]]) -> tuple[int, Counterexample | None]:
    """Returns how many operands satisfy the condition, and the first on which the sides differ."""
    types, constants = law.hole_types(dtype), law.constant_holes
    before, after = law.at(dtype)
    result = static_type(before, types, {})
    assert result is not None
    cases = 0
    for chosen in operands:
        values = dict(zip(types, chosen, strict=True))
        if constants and not law.holds_for(dtype, {name: values[name] for name in constants}):
            continue
        cases += 1
        first, second = (evaluated(side, types, values, SCALARS) for side in (before, after))
        if first != second and not (scalar.is_nan(result, first) and scalar.is_nan(result, second)):
            return cases, Counterexample(law.name, {**types, "": result}, values, first, second)
    return cases, None


@cache
def boundary_values(dtype: ScalarType, is_constant: bool = False) -> tuple[int, ...]:
    """Returns the bit patterns of a type at which rules change: zeros, ones, extremes and their neighbours.

    A constant has all powers of two besides, which conditions are often about.
    """
    if dtype is _S.BOOL:
        return 0, 1
    width = dtype.bits
    if not dtype.is_float:
        least = 1 << (width - 1)
        values = [0, 1, -1, 2, -2, 3, least, least - 1, least + 1, width, width - 1, 7, -width]
        values += [1 << place for place in range(width)] if is_constant else []
        return tuple(dict.fromkeys(value & ((1 << width) - 1) for value in values))
    form = scalar.float_format(dtype)
    numbers = [1.0, 2.0, 0.5, 1.5, 2.5, 3.0, 0.1]
    positive = [0, 1, 1 << form.fraction, form.infinity - 1, form.infinity, form.quiet_nan, form.infinity | 1]
    positive += [scalar.cast(_S.F64, dtype, value_bits(_S.F64, number)) for number in numbers]
    if is_constant:
        positive += [exponent << form.fraction for exponent in range(1, (1 << form.exponent) - 1, 3)]
    return tuple(dict.fromkeys([*positive, *(bits | form.sign for bits in positive)]))


def _random_value(source: random.Random, dtype: ScalarType, is_constant: bool) -> int:
    """Returns a boundary value, a value of few bits, or any, in equal parts; a float near 1 instead of few bits."""
    way = source.randrange(3)
    if dtype is _S.BOOL or way == 0:
        return source.choice(boundary_values(dtype, is_constant))
    bits = source.getrandbits(dtype.bits)
    if way == 1:
        return bits
    if dtype.is_float:
        form = scalar.float_format(dtype)
        middle = ((1 << (form.exponent - 1)) - 4 + bits % 8) << form.fraction
        return bits & (form.sign | ((1 << form.fraction) - 1)) | middle
    return bits >> source.randrange(dtype.bits)


def _try_sixteen_bits(law: Law, dtype: ScalarType) -> tuple[Trial | None, Counterexample | None]:
    """Tries a law with one hole on all values of 16 bits: in a model, or else at the real width on all values that
    differ in 16 bits, the low ones of an integer and the high ones of a float (10 bits of slow functions).
    """
    (hole,) = law.hole_types(dtype).values()
    if hole is _S.BOOL:
        return None, None
    types = model_types(law, dtype)
    if types is None or types.get(_S.U64) is _S.U16:
        width = 16 if types is not None or not is_transcendental(law, dtype) else 10
        shift = hole.bits - width if hole.is_float else 0
        cases, counterexample = _try_each(law, dtype, ((bits << shift,) for bits in range(1 << width)))
        return Trial(f"{cases} values that differ in {width} bits", cases, False), counterexample
    return _try_in_model(law, dtype, {t: _SIXTEEN[model] for t, model in types.items()}, 0, "at 16 bits")


# ------------------------------------------------------------------------------ the model


def _try_model(law: Law, dtype: ScalarType, seed: int) -> tuple[Trial | None, Counterexample | None]:
    types = model_types(law, dtype)
    if types is None:
        return None, None
    sizes = "at 8 and 16 bits" if types.get(_S.U64) is _S.U16 else "at 8 bits" if _S.U32 in types else "at 6 bits"
    return _try_in_model(law, dtype, types, seed, sizes)


def _try_in_model(
    law: Law, dtype: ScalarType, types: Types, seed: int, sizes: str
) -> tuple[Trial, Counterexample | None]:
    run = _ModelRun(law, dtype, types)
    size = math.prod(value_count(t) for t in run.models.values())
    is_exhaustive = size <= MOST_MODEL_VALUES
    cases = 0
    for values in run.all_chunks() if is_exhaustive else run.samples(seed):
        tried, counterexample = run.differing(values)
        cases += tried
        if counterexample is not None:
            return Trial(f"{cases} values {sizes}", cases, False, True), counterexample
    what = f"all {cases} values {sizes}" if is_exhaustive else f"{cases} random values {sizes}"
    return Trial(what, cases, is_exhaustive, True), None


class _ModelRun:
    """The sides of one law in one model, over arrays of values of the holes."""

    def __init__(self, law: Law, dtype: ScalarType, types: Types) -> None:
        self._law, self._algebra = law, TableAlgebra(types)
        self._holes = law.hole_types(dtype)
        self._types = self._holes | constant_types(law, dtype)
        self._constants = {
            name: self._algebra.constant(self._types[name], bits)
            for name, bits in constant_values(law, dtype, types).items()
        }
        self._sides, self._condition = law.sides(dtype), law.condition_side(dtype)
        self.models: dict[str, ValueType] = {name: types.get(t, t) for name, t in self._holes.items()}
        result = static_type(self._sides[0], self._types, {})
        assert result is not None
        self._result = types.get(result, result)

    def all_chunks(self) -> Iterator[dict[str, Any]]:
        """Yields all combinations of values: one axis for each hole, the first in pieces."""
        names = list(self.models)
        axes: dict[str, Any] = {}
        for place, name in enumerate(names):
            axes[name] = all_values(self.models[name]).reshape([-1 if place == i else 1 for i in range(len(names))])
        if not names:
            yield {}
            return
        first = axes[names[0]]
        step = max(1, _CHUNK // math.prod(len(all_values(self.models[name])) for name in names[1:]))
        for start in range(0, len(first), step):
            yield {**axes, names[0]: first[start : start + step]}

    def samples(self, seed: int) -> Iterator[dict[str, Any]]:
        """Yields random combinations of values."""
        import numpy as np

        source = np.random.default_rng(seed)
        yield {
            name: source.integers(0, value_count(model), MODEL_SAMPLES, dtype=all_values(model).dtype)
            for name, model in self.models.items()
        }

    def differing(self, values: Mapping[str, Any]) -> tuple[int, Counterexample | None]:
        """Returns how many of the combinations satisfy the condition, and one of these on which the sides differ."""
        import numpy as np

        known = {**self._constants, **values}
        before, after = (evaluated(side, self._types, known, self._algebra) for side in self._sides)
        nan = is_nan_table(self._result)
        wrong = (before != after) & ~(nan.take(before) & nan.take(after))
        shape = np.broadcast_shapes(*(array.shape for array in values.values()))
        cases = math.prod(shape)
        if self._condition is not None:
            met = evaluated(self._condition, self._types, known, self._algebra) != 0
            wrong = wrong & met
            cases = int(np.broadcast_to(met, shape).sum())
        if not wrong.any():
            return cases, None
        place = np.unravel_index(int(np.broadcast_to(wrong, shape).argmax()), shape)
        chosen = {name: int(np.broadcast_to(array, shape)[place]) for name, array in values.items()}
        first, second = (int(np.broadcast_to(array, shape)[place]) for array in (before, after))
        types = {**self.models, "": self._result}
        return cases, Counterexample(self._law.name, types, chosen, first, second)


def _shown(dtype: ValueType, bits: int) -> str:
    if isinstance(dtype, ScalarType) and dtype.is_executable:
        if dtype.is_float:
            return f"{bits_value(dtype, bits)!r} ({bits:#0{dtype.bits // 4 + 2}x})"
        return str(bits_value(dtype, bits))
    return f"{bits:#0{dtype.bits // 4 + 2}x} of {type_text(dtype)}"

"""Arithmetic of f16 and bf16: the exact result, or what binary64 gives, rounded to the type.

A product of two such values is exact in binary64, and so is a sum of two f16.  A sum of two bf16 that is not has one
term far below the last place of the other, which is then the nearest bf16 both before and after the rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from vyre.adapters.cuda.machine.instructions.integer import comparisons
from vyre.adapters.cuda.machine.instructions.operation import Noise, Operation, Rule, Table

_PRECISION: Final = 8
_LEAST: Final = -133
"""The exponent of the last place of the least bf16."""


def _to_bf16(x: Any) -> Any:
    """Returns numbers of binary64 rounded to bf16, ties to even, what leaves the range becoming infinite."""
    place = np.maximum(np.frexp(x)[1] - _PRECISION, _LEAST)
    rounded = np.ldexp(np.rint(np.ldexp(x, -place)), place).astype(np.float32)
    bits = np.where(np.isnan(x), np.uint32(0x7FFF_0000), rounded.view(np.uint32))
    return (bits >> np.uint32(16)).astype(np.uint16)


def _of_bf16(x: Any) -> Any:
    return np.left_shift(x, 16, dtype=np.uint32).view(np.float32).astype(np.float64)


class _Format(NamedTuple):
    """A type: its lanes as binary64, binary64 rounded to it, and the noise of its NaN."""

    wide: Callable[[Any], Any]
    nearest: Callable[[Any], Any]
    noise: Noise


_FORMATS: Final = {
    "f16": _Format(lambda x: x.astype(np.float64), lambda x: x.astype(np.float16), Noise.NAN),
    "bf16": _Format(_of_bf16, _to_bf16, Noise.BFLOAT_NAN),
}


def _rule(form: _Format, ufunc: Rule) -> Rule:
    return lambda a, b: form.nearest(ufunc(form.wide(a), form.wide(b)))


def _relation(form: _Format, compare: Rule) -> Rule:
    return lambda a, b: compare(form.wide(a), form.wide(b))


def table(relations: dict[str, Rule]) -> Table:
    """Returns the instructions; ``relations`` are those of floats."""
    instructions: Table = {}
    for kind, form in _FORMATS.items():
        for name, ufunc in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
            instructions[f"{name}.rn.{kind}"] = Operation(kind, (kind, kind), _rule(form, ufunc), form.noise)
        instructions |= comparisons(kind, {name: _relation(form, compare) for name, compare in relations.items()})
    return instructions

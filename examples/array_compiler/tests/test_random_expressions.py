"""500 random expressions have the bits of NumPy, on every backend."""

from __future__ import annotations

import random
from typing import Final

import numpy as np
import pytest
from random_expressions import TYPES, Array, draw, draw_inputs

import vyre
from array_compiler import Executable

BACKENDS: Final = ("cpu", "reference", "reference-scalar", "cuda-machine")
PROGRAMS: Final = 10
EXPRESSIONS: Final = 50
"""Expressions of a program."""


def bits(array: Array) -> Array:
    """The bits of an array, in which one NaN is as good as another."""
    if array.dtype.kind != "f":
        return array
    same = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return np.ascontiguousarray(same).view(np.dtype(f"u{array.dtype.itemsize}"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_expressions_have_the_bits_of_numpy(backend: str) -> None:
    compared = 0
    with vyre.open(backend) as session, np.errstate(all="ignore"):
        for seed in range(PROGRAMS):
            rng = random.Random(seed)
            inputs = draw_inputs(rng)
            values = [draw(rng, inputs, rng.choice([*TYPES]), 4) for _ in range(EXPRESSIONS)]
            lines = [f"in {each.text}: {each.dtype}{[*each.array.shape] or ''}" for each in inputs]
            lines += [f"out y{number} = {value.text}" for number, value in enumerate(values)]
            with Executable(session, "\n".join(lines), f"random_{seed}.arr") as compiled:
                result = compiled.run({each.text: each.array for each in inputs})
            for number, value in enumerate(values):
                name = f"y{number}"
                assert (result[name].dtype, result[name].shape) == (value.array.dtype, value.array.shape), value.text
                assert np.array_equal(bits(result[name]), bits(value.array)), f"seed {seed}: {value.text}"
                compared += 1
    assert compared == PROGRAMS * EXPRESSIONS == 500

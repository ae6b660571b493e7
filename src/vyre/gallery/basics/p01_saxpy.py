"""y = a * x + y with one rounding per element."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from vyre import Program, ProgramBuilder, f32, fma
from vyre.gallery.example import Case, Example, random_f32


def saxpy() -> Program:
    """Builds the kernel: ``y[i] = fma(a[0], x[i], y[i])`` for 1000 elements."""
    with ProgramBuilder("saxpy", workgroup=256) as p:
        a = p.uniform("a", f32, 1)
        x = p.input("x", f32, 1000)
        y = p.inout("y", f32, 1000)
        i = p.let(p.global_id(), "i")
        with p.if_(i < y.length):
            y[i] = fma(a[0], x[i], y[i])
    return p.build()


def case() -> Case:
    """Returns random inputs, and the answer from exact fractions, rounded once."""
    x, y = random_f32(1, 1000), random_f32(2, 1000)
    # Sums of products of multiples of 2^-24 fit a double exactly, so one conversion rounds once.
    exact = [float(Fraction(3, 2) * Fraction(float(u)) + Fraction(float(v))) for u, v in zip(x, y, strict=True)]
    return Case({"a": np.array([1.5], np.float32), "x": x, "y": y}, {"y": np.array(exact).astype(np.float32)})


EXAMPLE = Example("P01", "saxpy with fused multiply-add", saxpy, case, "exact fractions")

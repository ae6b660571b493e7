"""Every u32 operator on every pair of edge-case operands."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from vyre import Program, ProgramBuilder, abs_diff, max_, min_, mulhi, rotl, rotr, sat_add, sat_mul, sat_sub, u32
from vyre.gallery.example import Case, Example

OPERANDS = (0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x12345678)
PAIRS = tuple(product(OPERANDS, OPERANDS))
MAX = 0xFFFFFFFF
OPERATORS: tuple[Callable[[int, int], int], ...] = (
    lambda x, y: (x + y) & MAX,
    lambda x, y: (x - y) & MAX,
    lambda x, y: (x * y) & MAX,
    lambda x, y: x // y if y else MAX,
    lambda x, y: x % y if y else 0,
    lambda x, y: x & y,
    lambda x, y: x | y,
    lambda x, y: x ^ y,
    lambda x, y: (x << y % 32) & MAX,
    lambda x, y: x >> y % 32,
    lambda x, y: abs(x - y),
    min,
    max,
    lambda x, y: min(x + y, MAX),
    lambda x, y: max(x - y, 0),
    lambda x, y: min(x * y, MAX),
    lambda x, y: ((x << y % 32) | (x >> (32 - y % 32))) & MAX,
    lambda x, y: ((x >> y % 32) | (x << (32 - y % 32))) & MAX,
    lambda x, y: (x * y) >> 32,
    lambda x, y: x == y,
    lambda x, y: x != y,
    lambda x, y: x < y,
    lambda x, y: x > y,
    lambda x, y: x <= y,
    lambda x, y: x >= y,
)


def u32_edges() -> Program:
    """Builds the kernel: applies every binary operator of u32 to each pair of operands."""
    with ProgramBuilder("u32_edges", workgroup=64) as p:
        a = p.input("a", u32, len(PAIRS))
        b = p.input("b", u32, len(PAIRS))
        out = p.output("out", u32, len(PAIRS) * len(OPERATORS))
        i = p.let(p.global_id(), "i")
        with p.if_(i < a.length):
            x = p.let(a[i], "x")
            y = p.let(b[i], "y")
            o = p.let(i * len(OPERATORS), "o")
            numbers = (x + y, x - y, x * y, x / y, x % y, x & y, x | y, x ^ y, x << y, x >> y)
            functions = (abs_diff, min_, max_, sat_add, sat_sub, sat_mul, rotl, rotr, mulhi)
            truths = (x == y, x != y, x < y, x > y, x <= y, x >= y)
            results = (*numbers, *(f(x, y) for f in functions), *(t.cast(u32) for t in truths))
            for k, result in enumerate(results):
                out[o + k] = result
    return p.build()


def case() -> Case:
    """Returns all pairs of operands, and the results from Python integers."""
    left, right = zip(*PAIRS, strict=True)
    expected = [int(operator(x, y)) for x, y in PAIRS for operator in OPERATORS]
    return Case(
        {"a": np.array(left, np.uint32), "b": np.array(right, np.uint32)}, {"out": np.array(expected, np.uint32)}
    )


EXAMPLE = Example("P15", "u32 operators at their edges", u32_edges, case, "Python integers")

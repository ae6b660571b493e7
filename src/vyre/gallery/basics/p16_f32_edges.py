"""Every f32 operator on every pair of edge-case operands: zeros, subnormals, infinities, NaN payloads."""

from __future__ import annotations

from itertools import product

import numpy as np

import vyre
from vyre import In, Out, f32, u32
from vyre.gallery.example import Array, Case, Example

PATTERNS = (
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x3F800000, 0xBF800000,
    0x3F800001, 0x40200000, 0xC0200000, 0x3F000000, 0xBF000000, 0x4B000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
    0xFF800000, 0x7FC00000, 0xFFC12345, 0x7FA00001,
)  # fmt: skip
PAIRS = tuple(product(PATTERNS, PATTERNS))


@vyre.kernel(workgroup=64)
def f32_edges(
    a: In[f32, len(PAIRS)], b: In[f32, len(PAIRS)], out: Out[f32, len(PAIRS) * 12], flags: Out[u32, len(PAIRS) * 9]
) -> None:
    """Applies operators, functions and comparisons of f32 to each pair of operands."""
    i = vyre.global_id()
    if i < len(a):
        x = a[i]
        y = b[i]
        o = i * 12
        rounded = vyre.floor(x), vyre.ceil(x), vyre.round_(x), vyre.trunc(x)
        for k, number in enumerate((x + y, x - y, x * y, x / y, -x, abs(x), vyre.sqrt(x), *rounded, vyre.sign(x))):
            out[o + k] = number
        q = i * 9
        comparisons = x == y, x != y, x < y, x > y, x <= y, x >= y
        for k, truth in enumerate((*comparisons, vyre.is_nan(x), vyre.is_inf(x), vyre.is_finite(x))):
            flags[q + k] = u32(truth)


def half_away_from_zero(x: Array) -> Array:
    """Returns f32 numbers rounded to integers, halves away from zero."""
    magnitude = np.abs(x.astype(np.float64))  # the sum with a half is exact in f64
    return np.copysign(np.floor(magnitude + 0.5), x).astype(np.float32)


def case() -> Case:
    """Returns all pairs of operands, and the results from NumPy with NaN made canonical."""
    a, b = (np.array(column, np.uint32).view(np.float32) for column in zip(*PAIRS, strict=True))
    with np.errstate(all="ignore"):
        sign_of_x = np.where(a == 0, np.float32(0), np.sign(a))
        numbers = (
            a + b, a - b, a * b, a / b, -a, np.abs(a), np.sqrt(a), np.floor(a), np.ceil(a), half_away_from_zero(a),
            np.trunc(a), sign_of_x,
        )  # fmt: skip
        truths = (a == b, a != b, a < b, a > b, a <= b, a >= b, np.isnan(a), np.isinf(a), np.isfinite(a))
    out = np.stack(numbers, axis=1).reshape(-1)
    out[np.isnan(out)] = np.float32(np.nan)
    flags = np.stack(truths, axis=1).reshape(-1)
    return Case({"a": a, "b": b}, {"out": out, "flags": flags.astype(np.uint32)})


EXAMPLE = Example("P16", "f32 operators at their edges", f32_edges, case, "NumPy")

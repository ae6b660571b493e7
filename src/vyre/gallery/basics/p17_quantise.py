"""Quantisation to eight bits: rounding, saturating conversion, clamping."""

from __future__ import annotations

import math

import numpy as np

import vyre
from vyre import In, Out, f32, i32, u32
from vyre.gallery.example import Case, Example, random_f32

AWKWARD = (
    0.5, -0.5, 1.5, 2.5, -2.5, 127.4, 127.5, 1e9, -1e9, math.inf, -math.inf, math.nan, 4e9, -4e9,
)  # fmt: skip
COUNT = 200 + len(AWKWARD)


@vyre.kernel(workgroup=64)
def quantise(x: In[f32, COUNT], q: Out[i32, COUNT], dq: Out[f32, COUNT], raw: Out[u32, COUNT]) -> None:
    """Rounds each element, clamps it to -128..127, scales it back, and also casts it to u32."""
    i = vyre.global_id()
    if i < len(x):
        t = x[i]
        r = i32(vyre.round_(t))
        c = max(min(r, 127), -128)
        q[i] = c
        dq[i] = f32(c) * 0.5
        raw[i] = u32(t)


def saturated(x: float, low: int, high: int) -> int:
    """Returns ``x`` truncated toward zero and clamped to [low, high]; NaN gives 0."""
    return 0 if math.isnan(x) else int(min(max(x, low), high))


def case() -> Case:
    """Returns random and special numbers, and the results from Python numbers."""
    x = np.append(random_f32(17, 200) * np.float32(300.0), np.array(AWKWARD, np.float32))
    rounded = [math.copysign(math.floor(abs(v) + 0.5), v) if math.isfinite(v) else v for v in x.tolist()]
    q = np.array([saturated(v, -128, 127) for v in rounded], np.int32)
    raw = np.array([saturated(v, 0, 2**32 - 1) for v in x.tolist()], np.uint32)
    return Case({"x": x}, {"q": q, "dq": q.astype(np.float32) * np.float32(0.5), "raw": raw})


EXAMPLE = Example("P17", "quantisation with saturating casts", quantise, case, "Python numbers")

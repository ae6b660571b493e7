"""Kernels over arrays with one axis: elements, numbers, lengths, loops, variables and branches.

mypy and pyright, both strict, find nothing in this file (tests/unit/frontend/test_typing.py).
"""

from __future__ import annotations

import math

import numpy as np

import vyre
from vyre import In, InOut, Out, bool8, bool_, f32, f64, i16, i32, u8, u32, u64

SCALE = 3
HALF = np.float32(0.5)


@vyre.kernel(workgroup=256)
def saxpy(a: f32, x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = a * x[i] + y[i]


@vyre.kernel
def arithmetic(a: f32, b: f64, x: In[f32], d: In[f64], y: InOut[f32], e: InOut[f64]) -> None:
    i = vyre.global_id()
    y[i] = 2 * x[i] - 1.5 + x[i] / a - -x[i]
    y[i] += abs(x[i]) * SCALE
    y[i] *= HALF
    e[i] = (d[i] + b) * 0.5 - d[i] / 3
    y[i] = min(x[i], y[i], 1.0) + max(0.0, a, x[i])
    y[i] = x[i] ** 2


@vyre.kernel
def integers(n: u32, m: i32, w: u64, x: In[i32], y: InOut[i32], z: InOut[u32], q: InOut[u64]) -> None:
    i = vyre.global_id()
    z[i] = i // 3 + i % n + (i << 2 | i >> 1) ^ (n & 255)
    y[i] = m * x[i] // 7 - x[i] % 5
    y[i] -= min(x[i], 0)
    q[i] = (w << n) + (q[i] >> i)
    quotient, rest = divmod(x[i], 10)
    y[i] = ~quotient + rest
    z[min(i + 1, len(z) - 1)] = 1


@vyre.kernel
def accumulators(x: In[f32], k: In[u32], total: InOut[f32], count: InOut[u32]) -> None:
    acc = 0.0
    square = f32(0.0)
    n = 0
    for j in range(len(x)):
        acc += x[j]
        square += x[j] * x[j]
        if x[j] > 0.5:
            n += 1
        elif 0.1 < x[j] <= 0.2 or not x[j] < 0.0:
            n += 2
    total[0] = acc / f32(len(x)) if n > 3 else acc
    total[1] = math.sqrt(square)
    last = 0
    for j in range(0, k[0], 2):
        last = j
        n += k[j]
    while n < last and last > 0:
        n *= 2
        last -= 1
    count[0] = n


@vyre.kernel
def variables(x: In[f32], a: f32, y: InOut[f32], z: InOut[i32]) -> None:
    i = vyre.global_id()
    v = x[i]
    if v < 0.0:
        v = 0.0
    w = a * 2
    if i > 7:
        w = 1.5
        i = 7
    v = min(v, w)
    low, high = 0, len(x)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < v:
            low = middle + 1
        else:
            high = middle
    found = False
    if low > 3:
        found = x[low] == v
    y[i] = v if found else w
    step = i32(-1)
    step += z[i]
    z[i] = step


@vyre.kernel
def matched(op: In[u8], x: InOut[i32]) -> None:
    i = vyre.global_id()
    match op[i]:
        case 0:
            x[i] += 1
        case 1 | 2:
            x[i] = 0
        case _:
            return
    for k in range(4):
        if x[i] in (3, 5):
            continue
        if k > 2:
            break
        x[i] -= 1


@vyre.kernel
def narrow_elements(x: In[u8], s: InOut[i16], flags: InOut[bool8], truth: InOut[bool_], only: bool_) -> None:
    i = vyre.global_id()
    s[i] = i32(x[i]) - s[i]
    flags[i] = x[i] > 3 and not flags[i]
    truth[i] = flags[i] | (s[i] != 0) if only else False


@vyre.kernel
def numpy_elements(x: In[np.float32], n: In[np.int32], y: Out[np.float32]) -> None:
    i = vyre.global_id()
    for _ in range(n[i]):
        y[i] += x[i] * 2.0


ARRAY_OF_PAIRS = ((1, 0.5), (2, 0.25))


@vyre.kernel
def unrolled(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    acc = 0.0
    for offset, weight in vyre.static(ARRAY_OF_PAIRS):
        acc += weight * x[i + offset]
    for k in vyre.static(range(3)):
        acc -= x[k]
    a, b = x[0], x[1]
    a, b = b, a
    y[i] = acc + a * vyre.spec("factor", 1.0) - b

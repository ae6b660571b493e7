"""Functions in kernels: helpers, conversions, functions of Python, ``math``, NumPy and vyre.

mypy and pyright, both strict, find nothing in this file (tests/unit/frontend/test_typing.py).
"""

from __future__ import annotations

import math

import numpy as np

import vyre
from vyre import In, InOut, f16, f32, f64, i32, u8, u32, u64


@vyre.function
def clamped(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


@vyre.function
def smooth(x: f32) -> f32:
    t = x * x
    return t * (3 - 2 * x)


@vyre.function
def mixed_bits(h: u32) -> u32:
    h ^= h >> 16
    h *= 0x7FEB352D
    return h ^ h >> 15


@vyre.function
def row_sum(x: In[f32], start: int, count: int) -> float:
    acc = 0.0
    for k in range(count):
        acc += x[start + k]
    return acc


@vyre.function
def divided(a: u32, b: u32) -> tuple[u32, u32]:
    return a // b, a % b


@vyre.function
def bump(y: InOut[f32], i: int) -> None:
    y[i] += 1.0


@vyre.kernel
def helpers(x: In[f32], y: InOut[f32], z: InOut[u32]) -> None:
    i = vyre.global_id()
    y[i] = clamped(x[i], 0.0, 1.0)
    acc = 0.0
    acc += clamped(acc, low=x[0], high=smooth(x[i]))
    y[i] += acc + row_sum(x, i * 4, 4)
    quotient, rest = divided(mixed_bits(i), z[i] + 10)
    z[i] = quotient + rest
    bump(y, i)


@vyre.kernel
def conversions(k: u32, x: In[f32], y: InOut[f32], n: InOut[i32], d: InOut[f64], q: InOut[u64]) -> None:
    i = vyre.global_id()
    y[i] = f32(k) * x[i] + f32(i) + f32(n[i])
    n[i] = i32(x[i]) + x[i].cast(i32) - i.cast(i32)
    y[i] = (x[i].bitcast(u32) & 0x7FFFFFFF).bitcast(f32)
    d[i] = f64(x[i]) + x[i].cast(f64) * 0.5
    acc = 0.0
    acc += x[i]
    n[i] = i32(acc) + i32(k).bitcast(i32)
    q[i] = u64(i) << 32 | u64(k)
    if bool(n[i]):
        y[i] = float(1)


@vyre.kernel
def of_python(x: In[f32], y: InOut[f32], n: InOut[i32]) -> None:
    i = vyre.global_id()
    y[i] = math.sin(x[i]) + math.sqrt(math.fabs(x[i])) * math.pi + math.exp(-x[i])
    y[i] += math.floor(x[i]) + math.ceil(x[i]) + math.trunc(x[i])
    y[i] = np.cos(x[i]) + np.sqrt(y[i]) + np.absolute(x[i]) + np.pi
    y[i] = round(x[i]) + abs(y[i])
    n[i] = abs(n[i]) + min(n[i], 3) + max(2, n[i], 4)
    if math.isnan(x[i]) or np.isinf(x[i]):
        n[i] = 0
    sine = vyre.sin(x[i])
    sine = min(sine, 0.5)
    y[i] = sine


@vyre.kernel
def of_vyre(x: In[f32], d: In[f64], y: InOut[f32], n: InOut[u32], m: InOut[i32], e: InOut[f64]) -> None:
    i = vyre.global_id()
    acc = 0.5
    acc = vyre.min_(acc, x[i])
    y[i] = vyre.fma(x[i], 2.0, acc) + vyre.inverse_sqrt(x[i]) + vyre.select(i < 3, x[i], 0.0)
    y[i] += vyre.max_(0.0, x[i]) + vyre.round_(x[i]) + vyre.log2(acc) + vyre.narrow(f16, x[i])
    e[i] = vyre.fma(d[i], 2.0, 1.0) + vyre.sqrt(d[i]) + vyre.floor(d[i])
    n[i] = vyre.popcount(i) + vyre.clz(n[i]) + vyre.rotl(i, 3) + vyre.mulhi(n[i], 0x9E3779B9)
    n[i] = vyre.pack(f16, x[i]) | vyre.abs_diff(i, n[0]) | vyre.pack(u8, i)
    y[i] += vyre.unpack(f16, n[i])
    m[i] = vyre.sat_add(m[i], 7) + vyre.wrap_cast(i32, x[i]) + vyre.sign(x[i]).cast(i32)
    if vyre.is_nan(x[i]) or not vyre.is_finite(acc):
        m[i] = vyre.select(x[i] > 0.5, 1, m[i])

"""numba: the loops of C in Python, compiled by ``numba.njit``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np
from numba import njit

from benchmarks.cpu.job import Array, Contender, Data, Side, aligned, aligned_zeros

_UNREACHED: Final = np.uint32(0xFFFF_FFFF)


def version() -> str:
    """Returns the version of numba."""
    return f"numba {numba.__version__}"


@njit
def _saxpy(out, a, x, y):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = a * x[i] + y[i]


@njit
def _mandelbrot(counts, left, top, step, width, height, rounds):  # type: ignore[no-untyped-def]
    four, two = np.float32(4.0), np.float32(2.0)
    for y in range(height):
        for x in range(width):
            cx, cy = left + np.float32(x) * step, top + np.float32(y) * step
            zx, zy = np.float32(0.0), np.float32(0.0)
            n = 0
            while n < rounds and zx * zx + zy * zy <= four:
                zx, zy = zx * zx - zy * zy + cx, two * zx * zy + cy
                n += 1
            counts[y * width + x] = n


@njit
def _fnv1a(hashes, messages, length):  # type: ignore[no-untyped-def]
    prime = np.uint32(0x0100_0193)
    for i in range(hashes.size):
        h = np.uint32(0x811C_9DC5)
        for k in range(length):
            h = np.uint32((h ^ messages[i * length + k]) * prime)
        hashes[i] = h


@njit
def _matmul(c, a, b, n):  # type: ignore[no-untyped-def]
    c[:] = 0
    for i in range(n):
        for k in range(n):
            left = a[i * n + k]
            for j in range(n):
                c[i * n + j] += left * b[k * n + j]


@njit
def _sin(y, x):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        y[i] = np.sin(x[i])


@njit
def _exp(y, x):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        y[i] = np.exp(x[i])


@njit
def _histogram(counts, words):  # type: ignore[no-untyped-def]
    counts[:] = 0
    for i in range(words.size):
        counts[words[i]] += 1


@njit
def _sum(total, x):  # type: ignore[no-untyped-def]
    t = np.uint32(0)
    for i in range(x.size):
        t += x[i]
    total[0] = t


@njit
def _dfa(visits, text, table, accepting):  # type: ignore[no-untyped-def]
    visits[:] = 0
    state = np.uint32(0)
    for i in range(text.size):
        state = table[state * np.uint32(256) + text[i]]
        if accepting[state] != 0:
            visits[state] += 1


@njit
def _bfs(levels, queue, row_ptr, col, source):  # type: ignore[no-untyped-def]
    levels[:] = _UNREACHED
    head, tail = 0, 1
    levels[source] = 0
    queue[0] = source
    while head < tail:
        node = queue[head]
        head += 1
        level = levels[node] + np.uint32(1)
        for e in range(row_ptr[node], row_ptr[node + np.uint32(1)]):
            target = col[e]
            if levels[target] == _UNREACHED:
                levels[target] = level
                queue[tail] = target
                tail += 1


@njit
def _bitonic_sort(keys, unsorted):  # type: ignore[no-untyped-def]
    n = keys.size
    keys[:] = unsorted
    block = 2
    while block <= n:
        stride = block // 2
        while stride > 0:
            for first in range(0, n, 2 * stride):
                ascending = (first & block) == 0
                low, high = keys[first : first + stride], keys[first + stride : first + 2 * stride]
                if ascending:
                    for k in range(stride):
                        x, y = low[k], high[k]
                        low[k], high[k] = min(x, y), max(x, y)
                else:
                    for k in range(stride):
                        x, y = low[k], high[k]
                        low[k], high[k] = max(x, y), min(x, y)
            stride //= 2
        block *= 2


@njit
def _spmv(y, row_ptr, col, values, x):  # type: ignore[no-untyped-def]
    for row in range(y.size):
        total = np.float32(0.0)
        for k in range(row_ptr[row], row_ptr[row + 1]):
            total += values[k] * x[col[k]]
        y[row] = total


@njit
def _softmax(out, x, rows, width):  # type: ignore[no-untyped-def]
    for row in range(rows):
        first = row * width
        most = np.float32(-np.inf)
        for k in range(first, first + width):
            most = max(most, x[k])
        total = np.float32(0.0)
        for k in range(first, first + width):
            e = np.exp(x[k] - most)
            out[k] = e
            total += e
        for k in range(first, first + width):
            out[k] /= total


def _side(function: Callable[..., object], output: Array, *arguments: Any) -> Side:
    return Side(lambda: function(output, *arguments), output.copy)


def _mandelbrot_side(data: Data) -> Side:
    width, height = data["width"], data["height"]
    view = [np.float32(data[name]) for name in ("left", "top", "step")]
    return _side(_mandelbrot, aligned_zeros(width * height, np.uint32), *view, width, height, data["rounds"])


def _matmul_side(data: Data) -> Side:
    n = data["n"]
    return _side(_matmul, aligned_zeros(n * n, np.float32), aligned(data["a"]), aligned(data["b"]), n)


def _bfs_side(data: Data) -> Side:
    levels, queue = (aligned_zeros(data["nodes"], np.uint32) for _ in range(2))
    return _side(_bfs, levels, queue, aligned(data["row_ptr"]), aligned(data["col"]), np.uint32(data["source"]))


def _arrays(function: Callable[..., object], count: Callable[[Data], int], dtype: type, *names: str) -> Contender:
    """Returns a function of the arrays of these names whose output has ``count`` elements."""
    return lambda data: _side(function, aligned_zeros(count(data), dtype), *(aligned(data[name]) for name in names))


def _saxpy_side(data: Data) -> Side:
    x, y = aligned(data["x"]), aligned(data["y"])
    return _side(_saxpy, aligned_zeros(x.size, np.float32), np.float32(data["a"]), x, y)


def _fnv1a_side(data: Data) -> Side:
    return _side(_fnv1a, aligned_zeros(data["lanes"], np.uint32), aligned(data["messages"]), data["length"])


def _softmax_side(data: Data) -> Side:
    x = aligned(data["x"])
    return _side(_softmax, aligned_zeros(x.size, np.float32), x, data["rows"], data["width"])


SIDES: Final[dict[str, Contender]] = {
    "saxpy-1e6": _saxpy_side,
    "saxpy-1e7": _saxpy_side,
    "mandelbrot": _mandelbrot_side,
    "fnv1a": _fnv1a_side,
    "matmul-512": _matmul_side,
    "sin-1e6": _arrays(_sin, lambda data: data["x"].size, np.float32, "x"),
    "exp-1e6": _arrays(_exp, lambda data: data["x"].size, np.float32, "x"),
    "histogram-1e6": _arrays(_histogram, lambda data: 256, np.uint32, "words"),
    "tree-reduction-2^22": _arrays(_sum, lambda data: 1, np.uint32, "x"),
    "dfa-scan-4MB": _arrays(_dfa, lambda data: data["accepting"].size, np.uint32, "text", "table", "accepting"),
    "bfs-1e6": _bfs_side,
    "bitonic-sort-2^20": _arrays(_bitonic_sort, lambda data: data["keys"].size, np.uint32, "keys"),
    "spmv-1e6": _arrays(_spmv, lambda data: data["x"].size, np.float32, "row_ptr", "col", "values", "x"),
    "softmax-1024x1000": _softmax_side,
}

"""NumPy, where a whole-array operation does the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from benchmarks.cpu.job import Array, Contender, Data, Side, aligned, aligned_zeros


def version() -> str:
    """Returns the version of NumPy."""
    return f"numpy {np.__version__}"


def _into(function: Callable[..., object], output: Array, *arguments: Any) -> Side:
    return Side(lambda: function(*arguments, out=output), lambda: output.copy().ravel())


def _returned(function: Callable[[], Any], dtype: type) -> Side:
    found: list[Any] = [None]

    def run() -> None:
        found[0] = function()

    return Side(run, lambda: np.array(found[0], dtype).ravel())


def _saxpy(data: Data) -> Side:
    a, x, y = np.float32(data["a"]), aligned(data["x"]), aligned(data["y"])
    out = aligned_zeros(x.size, np.float32)

    def run() -> None:
        np.multiply(x, a, out=out)
        np.add(out, y, out=out)

    return Side(run, out.copy)


def _matmul(data: Data) -> Side:
    n = data["n"]
    a, b = (aligned(data[name]).reshape(n, n) for name in ("a", "b"))
    return _into(np.matmul, aligned_zeros(n * n, np.float32).reshape(n, n), a, b)


def _function(function: np.ufunc) -> Contender:
    return lambda data: _into(function, aligned_zeros(data["x"].size, np.float32), aligned(data["x"]))


def _histogram(data: Data) -> Side:
    words = aligned(data["words"])
    return _returned(lambda: np.bincount(words, minlength=256), np.uint32)


def _sum(data: Data) -> Side:
    x = aligned(data["x"])
    return _returned(lambda: x.sum(dtype=np.uint32), np.uint32)


def _sort(data: Data) -> Side:
    unsorted, keys = aligned(data["keys"]), aligned(data["keys"])

    def run() -> None:
        keys[:] = unsorted
        keys.sort()

    return Side(run, keys.copy)


def _softmax(data: Data) -> Side:
    x = aligned(data["x"]).reshape(data["rows"], data["width"])
    out = aligned_zeros(x.size, np.float32).reshape(x.shape)

    def run() -> None:
        np.subtract(x, x.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        np.divide(out, out.sum(axis=1, keepdims=True), out=out)

    return Side(run, lambda: out.copy().ravel())


SIDES: Final[dict[str, Contender]] = {
    "saxpy-1e6": _saxpy,
    "saxpy-1e7": _saxpy,
    "matmul-512": _matmul,
    "sin-1e6": _function(np.sin),
    "exp-1e6": _function(np.exp),
    "histogram-1e6": _histogram,
    "tree-reduction-2^22": _sum,
    "bitonic-sort-2^20": _sort,
    "softmax-1024x1000": _softmax,
}

"""C, compiled by gcc with everything that keeps the bytes: ``-O3``, this machine, no contraction."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.cpu.job import Array, Contender, Data, Side, aligned, aligned_zeros
from benchmarks.cpu.peers.c_source import SOURCE

FLAGS: Final = ("-O3", "-march=native", "-ffp-contract=off")
_LIMIT_S: Final = 120


def version() -> str:
    """Returns the first line of ``gcc --version`` and the flags."""
    said = subprocess.run(["gcc", "--version"], check=True, capture_output=True, text=True, timeout=_LIMIT_S).stdout
    return f"{said.splitlines()[0]}, {' '.join(FLAGS)}"


@cache
def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "jobs.c"), Path(folder, "jobs.so")
        source.write_text(SOURCE)
        command = ["gcc", *FLAGS, "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
        subprocess.run(command, check=True, timeout=_LIMIT_S)
        return ctypes.CDLL(str(library))


def _side(function: str, output: Array, *arguments: Any, kept: tuple[Array, ...] = ()) -> Side:
    """A call of a C function: arrays are passed as addresses, Python floats as float, others as they are."""
    call = getattr(_library(), function)
    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    passed = [_passed(argument) for argument in (output, *arguments)]
    call.restype = None

    def run() -> None:
        call(*passed)

    return Side(run, lambda held=(arrays, kept): output.copy())  # type: ignore[misc]


def _passed(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    return ctypes.c_float(argument) if isinstance(argument, float) else ctypes.c_int64(argument)


def _saxpy(data: Data) -> Side:
    x, y = aligned(data["x"]), aligned(data["y"])
    return _side("saxpy", aligned_zeros(x.size, np.float32), x, y, data["a"], x.size)


def _mandelbrot(data: Data) -> Side:
    width, height = data["width"], data["height"]
    counts = aligned_zeros(width * height, np.uint32)
    return _side("mandelbrot", counts, data["left"], data["top"], data["step"], width, height, data["rounds"])


def _fnv1a(data: Data) -> Side:
    hashes = aligned_zeros(data["lanes"], np.uint32)
    return _side("fnv1a", hashes, aligned(data["messages"]), data["lanes"], data["length"])


def _matmul(data: Data) -> Side:
    n = data["n"]
    return _side("matmul", aligned_zeros(n * n, np.float32), aligned(data["a"]), aligned(data["b"]), n)


def _function(name: str) -> Contender:
    return lambda data: _side(name, aligned_zeros(data["x"].size, np.float32), aligned(data["x"]), data["x"].size)


def _histogram(data: Data) -> Side:
    return _side("histogram", aligned_zeros(256, np.uint32), aligned(data["words"]), data["words"].size)


def _sum(data: Data) -> Side:
    return _side("sum", aligned_zeros(1, np.uint32), aligned(data["x"]), data["x"].size)


def _dfa(data: Data) -> Side:
    visits = aligned_zeros(data["accepting"].size, np.uint32)
    arrays = [aligned(data[name]) for name in ("text", "table", "accepting")]
    return _side("dfa_scan", visits, *arrays, data["text"].size, visits.size)


def _bfs(data: Data) -> Side:
    nodes = data["nodes"]
    levels, queue = aligned_zeros(nodes, np.uint32), aligned_zeros(nodes, np.uint32)
    return _side("bfs", levels, queue, aligned(data["row_ptr"]), aligned(data["col"]), nodes, data["source"])


def _sort(data: Data) -> Side:
    n = data["keys"].size
    return _side("bitonic_sort", aligned_zeros(n, np.uint32), aligned(data["keys"]), n)


def _spmv(data: Data) -> Side:
    rows = data["x"].size
    arrays = [aligned(data[name]) for name in ("row_ptr", "col", "values", "x")]
    return _side("spmv", aligned_zeros(rows, np.float32), *arrays, rows)


def _softmax(data: Data) -> Side:
    out = aligned_zeros(data["x"].size, np.float32)
    return _side("softmax", out, aligned(data["x"]), data["rows"], data["width"])


SIDES: Final[dict[str, Contender]] = {
    "saxpy-1e6": _saxpy,
    "saxpy-1e7": _saxpy,
    "mandelbrot": _mandelbrot,
    "fnv1a": _fnv1a,
    "matmul-512": _matmul,
    "sin-1e6": _function("sines"),
    "exp-1e6": _function("exponentials"),
    "histogram-1e6": _histogram,
    "tree-reduction-2^22": _sum,
    "dfa-scan-4MB": _dfa,
    "bfs-1e6": _bfs,
    "bitonic-sort-2^20": _sort,
    "spmv-1e6": _spmv,
    "softmax-1024x1000": _softmax,
}

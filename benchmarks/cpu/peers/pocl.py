"""PoCL, the portable OpenCL for CPUs, through ``pyopencl``, with one thread; kernels with their arguments set."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Final

import numpy as np

from benchmarks.cpu.job import Array, Contender, Data, Side
from benchmarks.cpu.peers.opencl_source import BLAKE3_SOURCE, SOURCE

os.environ["POCL_DEVICES"] = "basic"  # before the library is loaded: the device that has no threads of its own

import pyopencl as cl

_WORKGROUP: Final = 256
_ROWS: Final = 8
_CHUNK: Final = 1024


@cache
def _context() -> cl.Context:
    for platform in cl.get_platforms():
        if "Portable Computing Language" in platform.name:
            return cl.Context(platform.get_devices())
    raise OSError("no OpenCL platform is PoCL. Fix: install the package pocl-opencl-icd.")


@cache
def _queue() -> cl.CommandQueue:
    return cl.CommandQueue(_context())


@cache
def _program() -> cl.Program:
    return cl.Program(_context(), SOURCE + BLAKE3_SOURCE).build()


def version() -> str:
    """Returns the versions of PoCL and pyopencl."""
    return f"{_context().devices[0].platform.version}, pyopencl {cl.VERSION_TEXT}"


def _buffer(array: Array) -> cl.Buffer:
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(_context(), flags, hostbuf=np.ascontiguousarray(array))


class _Launch:
    """A kernel with its arguments and its range, rounded up to whole workgroups."""

    def __init__(self, name: str, extent: tuple[int, ...], workgroup: tuple[int, ...], *arguments: Any) -> None:
        self._kernel = cl.Kernel(_program(), name)
        self._held = arguments  # a kernel does not keep its buffers
        self._kernel.set_args(
            *(np.uint32(argument) if isinstance(argument, int) else argument for argument in arguments)
        )
        self._range = tuple(-(-lanes // size) * size for lanes, size in zip(extent, workgroup, strict=True))
        self._workgroup = workgroup

    def enqueue(self) -> None:
        cl.enqueue_nd_range_kernel(_queue(), self._kernel, self._range, self._workgroup)


def _side(output: cl.Buffer, like: Array, *launches: _Launch) -> Side:
    """Launches in order, with one wait at the end; the answer has the type and the size of ``like``."""
    queue = _queue()

    def run() -> None:
        for launch in launches:
            launch.enqueue()
        queue.finish()

    def answer() -> Array:
        found = np.empty_like(like)
        cl.enqueue_copy(queue, found, output)
        return found

    return Side(run, answer)


def _map(kernel: str, output: Array, *arguments: Any) -> Side:
    """Returns one launch over the elements of the output; array arguments get buffers, the size comes last."""
    out = _buffer(output)
    given = [_buffer(argument) if isinstance(argument, np.ndarray) else argument for argument in arguments]
    launch = _Launch(kernel, (output.size,), (_WORKGROUP,), out, *given, output.size)
    return _side(out, output, launch)


def _saxpy(data: Data) -> Side:
    return _map("saxpy", np.zeros_like(data["x"]), data["x"], data["y"], np.float32(data["a"]))


def _mandelbrot(data: Data) -> Side:
    width, height = data["width"], data["height"]
    counts = np.zeros(width * height, np.uint32)
    out = _buffer(counts)
    view = [np.float32(data[name]) for name in ("left", "top", "step")]
    return _side(out, counts, _Launch("mandelbrot", (width, height), (16, 16), out, *view, width, data["rounds"]))


def _fnv1a(data: Data) -> Side:
    hashes = np.zeros(data["lanes"], np.uint32)
    out = _buffer(hashes)
    messages = _buffer(data["messages"])
    return _side(out, hashes, _Launch("fnv1a", (hashes.size,), (64,), out, messages, hashes.size, data["length"]))


def _matmul(data: Data) -> Side:
    n = data["n"]
    c = np.zeros(n * n, np.float32)
    out, a, b = _buffer(c), _buffer(data["a"]), _buffer(data["b"])
    return _side(out, c, _Launch("matmul_rows", (n, n // _ROWS), (32, 1), out, a, b, n))


def _tiles(data: Data) -> Side:
    n = data["n"]
    c = np.zeros(n * n, np.float32)
    out, a, b = _buffer(c), _buffer(data["a"]), _buffer(data["b"])
    return _side(out, c, _Launch("matmul", (n, n), (16, 16), out, a, b, n))


def _function(kernel: str) -> Contender:
    return lambda data: _map(kernel, np.zeros_like(data["x"]), data["x"])


def _histogram(data: Data) -> Side:
    counts = np.zeros(256, np.uint32)
    out, words = _buffer(counts), data["words"]
    clear = _Launch("cleared", (256,), (_WORKGROUP,), out, 256)
    return _side(out, counts, clear, _Launch("histogram", words.shape, (_WORKGROUP,), out, _buffer(words), words.size))


def _reduction(data: Data) -> Side:
    x = data["x"]
    sums = np.zeros(x.size // 256, np.uint32)
    out = _buffer(sums)
    side = _side(out, sums, _Launch("reduction", x.shape, (256,), out, _buffer(x)))
    return Side(side.run, lambda: side.answer().sum(dtype=np.uint32, keepdims=True))


def _dfa(data: Data) -> Side:
    visits, size = np.zeros_like(data["accepting"]), data["text"].size
    out = _buffer(visits)
    arrays = [_buffer(data[name]) for name in ("text", "table", "accepting")]
    clear = _Launch("cleared", visits.shape, (_WORKGROUP,), out, visits.size)
    scan = _Launch("dfa_scan", (-(-size // _CHUNK),), (64,), out, *arrays, size, data["warm_up"], _CHUNK)
    return _side(out, visits, clear, scan)


def _bfs(data: Data) -> Side:
    nodes, queue = data["nodes"], _queue()
    levels, flag = np.zeros(nodes, np.uint32), np.zeros(1, np.uint32)
    out, changed = _buffer(levels), _buffer(flag)
    rows = [_buffer(data[name]) for name in ("row_ptr", "col")]
    start = _Launch("bfs_start", (nodes,), (_WORKGROUP,), out, changed, nodes, data["source"])
    steps = [_Launch("bfs_level", (nodes,), (64,), out, changed, *rows, nodes, depth) for depth in range(64)]

    def run() -> None:
        start.enqueue()
        for depth, step in enumerate(steps):
            step.enqueue()
            cl.enqueue_copy(queue, flag, changed)
            if flag[0] != depth + 1:
                return

    return Side(run, _side(out, levels).answer)


def _sort(data: Data) -> Side:
    n = data["keys"].size
    unsorted, keys = _buffer(data["keys"]), _buffer(data["keys"])
    launches = [_Launch("copied", (n,), (_WORKGROUP,), keys, unsorted, n)]
    block = 2
    while block <= n:
        stride = block // 2
        while stride:
            launches.append(_Launch("compare_exchange", (n // 2,), (_WORKGROUP,), keys, block, stride))
            stride //= 2
        block *= 2
    return _side(keys, data["keys"], *launches)


def _spmv(data: Data) -> Side:
    return _map("spmv", np.zeros_like(data["x"]), *(data[name] for name in ("row_ptr", "col", "values", "x")))


def _softmax(data: Data) -> Side:
    out, x = _buffer(data["x"]), _buffer(data["x"])
    return _side(out, data["x"], _Launch("softmax", (data["rows"] * 64,), (64,), out, x, data["width"]))


def _blake3(data: Data) -> Side:
    chunks = data["text"].size // 1024
    nodes = [_buffer(np.zeros(chunks * 8, np.uint32)) for _ in range(2)]
    launches = [_Launch("blake3_chunks", (chunks,), (32,), nodes[0], _buffer(data["text"]), chunks)]
    count, source = chunks, 0
    while count > 1:
        above = (count + 1) // 2
        launches.append(_Launch("blake3_parents", (above,), (32,), nodes[1 - source], nodes[source], count))
        source, count = 1 - source, above
    return _side(nodes[source], np.zeros(8, np.uint32), *launches)


SIDES: Final[dict[str, Contender]] = {
    "saxpy-1e6": _saxpy,
    "saxpy-1e7": _saxpy,
    "mandelbrot": _mandelbrot,
    "fnv1a": _fnv1a,
    "matmul-512": _matmul,
    "matmul-512-tiles": _tiles,
    "sin-1e6": _function("sines"),
    "exp-1e6": _function("exponentials"),
    "histogram-1e6": _histogram,
    "tree-reduction-2^22": _reduction,
    "blake3-1MiB": _blake3,
    "dfa-scan-4MB": _dfa,
    "bfs-1e6": _bfs,
    "bitonic-sort-2^20": _sort,
    "spmv-1e6": _spmv,
    "softmax-1024x1000": _softmax,
}

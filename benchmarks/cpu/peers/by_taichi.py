"""Taichi on its architecture ``cpu`` with one thread, over its own arrays.

Taichi reads the annotations of its kernels as objects, so they are not postponed here.
"""

from typing import Any, Final

import numpy as np
import taichi as ti

from benchmarks.cpu.job import Array, Contender, Data, Side

_CHUNK: Final = 1024


def version() -> str:
    """Returns the version of Taichi, and initialises it."""
    ti.init(arch=ti.cpu, cpu_max_num_threads=1, offline_cache=False, log_level=ti.WARN, fast_math=False)
    return "taichi " + ".".join(str(part) for part in ti.__version__)


_F32: Final = ti.types.ndarray(dtype=ti.f32, ndim=1)
_U32: Final = ti.types.ndarray(dtype=ti.u32, ndim=1)
_U8: Final = ti.types.ndarray(dtype=ti.u8, ndim=1)


@ti.kernel
def _saxpy(out: _F32, x: _F32, y: _F32, a: ti.f32):  # type: ignore[no-untyped-def, valid-type]
    for i in range(out.shape[0]):
        out[i] = a * x[i] + y[i]


@ti.kernel
def _mandelbrot(counts: _U32, left: ti.f32, top: ti.f32, step: ti.f32, width: ti.i32, rounds: ti.u32):  # type: ignore[no-untyped-def, valid-type]
    for i in range(counts.shape[0]):
        cx = left + ti.cast(i % width, ti.f32) * step
        cy = top + ti.cast(i // width, ti.f32) * step
        zx, zy = 0.0, 0.0
        n = ti.u32(0)
        while n < rounds and zx * zx + zy * zy <= 4.0:
            next_x = zx * zx - zy * zy + cx
            zy = 2.0 * zx * zy + cy
            zx = next_x
            n += ti.u32(1)
        counts[i] = n


@ti.kernel
def _fnv1a(hashes: _U32, messages: _U8, length: ti.i32):  # type: ignore[no-untyped-def, valid-type]
    for i in range(hashes.shape[0]):
        h = ti.u32(0x811C9DC5)
        for k in range(length):
            h = (h ^ ti.cast(messages[i * length + k], ti.u32)) * ti.u32(0x01000193)
        hashes[i] = h


@ti.kernel
def _matmul(c: _F32, a: _F32, b: _F32, n: ti.i32):  # type: ignore[no-untyped-def, valid-type]
    for i, j in ti.ndrange(n, n):
        total = 0.0
        for k in range(n):
            total += a[i * n + k] * b[k * n + j]
        c[i * n + j] = total


@ti.kernel
def _sin(y: _F32, x: _F32):  # type: ignore[no-untyped-def, valid-type]
    for i in range(y.shape[0]):
        y[i] = ti.sin(x[i])


@ti.kernel
def _exp(y: _F32, x: _F32):  # type: ignore[no-untyped-def, valid-type]
    for i in range(y.shape[0]):
        y[i] = ti.exp(x[i])


@ti.kernel
def _histogram(counts: _U32, words: _U32):  # type: ignore[no-untyped-def, valid-type]
    for i in range(counts.shape[0]):
        counts[i] = 0
    for i in range(words.shape[0]):
        counts[ti.cast(words[i], ti.i32)] += 1


@ti.kernel
def _sum(total: _U32, x: _U32):  # type: ignore[no-untyped-def, valid-type]
    total[0] = 0
    for i in range(x.shape[0]):
        total[0] += x[i]


@ti.kernel
def _dfa(visits: _U32, text: _U8, table: _U32, accepting: _U32, warm_up: ti.i32, chunk: ti.i32, chunks: ti.i32):  # type: ignore[no-untyped-def, valid-type]
    for i in range(visits.shape[0]):
        visits[i] = 0
    for c in range(chunks):
        start = c * chunk
        stop = ti.min(start + chunk, text.shape[0])
        state = 0
        for at in range(ti.max(start - warm_up, 0), stop):
            state = ti.cast(table[state * 256 + ti.cast(text[at], ti.i32)], ti.i32)
            if at >= start and accepting[state] != 0:
                visits[state] += 1


@ti.kernel
def _bfs_start(levels: _U32, changed: _U32, source: ti.i32):  # type: ignore[no-untyped-def, valid-type]
    for node in range(levels.shape[0]):
        levels[node] = ti.u32(0xFFFFFFFF)
        if node == source:
            levels[node] = 0
        if node == 0:
            changed[0] = 0


@ti.kernel
def _bfs_level(levels: _U32, changed: _U32, row_ptr: _U32, col: _U32, depth: ti.u32):  # type: ignore[no-untyped-def, valid-type]
    for node in range(levels.shape[0]):
        if levels[node] == depth:
            for e in range(ti.cast(row_ptr[node], ti.i32), ti.cast(row_ptr[node + 1], ti.i32)):
                target = ti.cast(col[e], ti.i32)
                if levels[target] == ti.u32(0xFFFFFFFF):
                    levels[target] = depth + ti.u32(1)
                    changed[0] = depth + ti.u32(1)


@ti.kernel
def _copied(to: _U32, source: _U32):  # type: ignore[no-untyped-def, valid-type]
    for i in range(to.shape[0]):
        to[i] = source[i]


@ti.kernel
def _compare_exchange(keys: _U32, block: ti.i32, stride: ti.i32):  # type: ignore[no-untyped-def, valid-type]
    for pair in range(keys.shape[0] // 2):
        low = 2 * pair - (pair & (stride - 1))
        x, y = keys[low], keys[low + stride]
        if (low & block) == 0:
            keys[low], keys[low + stride] = ti.min(x, y), ti.max(x, y)
        else:
            keys[low], keys[low + stride] = ti.max(x, y), ti.min(x, y)


@ti.kernel
def _spmv(y: _F32, row_ptr: _U32, col: _U32, values: _F32, x: _F32):  # type: ignore[no-untyped-def, valid-type]
    for row in range(y.shape[0]):
        total = 0.0
        for k in range(ti.cast(row_ptr[row], ti.i32), ti.cast(row_ptr[row + 1], ti.i32)):
            total += values[k] * x[ti.cast(col[k], ti.i32)]
        y[row] = total


@ti.kernel
def _softmax(out: _F32, x: _F32, rows: ti.i32, width: ti.i32):  # type: ignore[no-untyped-def, valid-type]
    for row in range(rows):
        first = row * width
        most = -ti.math.inf
        for k in range(first, first + width):
            most = ti.max(most, x[k])
        total = 0.0
        for k in range(first, first + width):
            e = ti.exp(x[k] - most)
            out[k] = e
            total += e
        for k in range(first, first + width):
            out[k] = out[k] / total


_TYPES: Final = {"float32": ti.f32, "uint32": ti.u32, "uint8": ti.u8}


def _resident(array: Array) -> Any:
    held = ti.ndarray(dtype=_TYPES[array.dtype.name], shape=array.shape)
    held.from_numpy(array)
    return held


def _zeros(count: int, dtype: type) -> Any:
    return _resident(np.zeros(count, dtype))


def _side(output: Any, kernel: Any, *arguments: Any) -> Side:
    return Side(lambda: kernel(output, *arguments), output.to_numpy)


def _saxpy_side(data: Data) -> Side:
    return _side(_zeros(data["x"].size, np.float32), _saxpy, _resident(data["x"]), _resident(data["y"]), data["a"])


def _mandelbrot_side(data: Data) -> Side:
    counts = _zeros(data["width"] * data["height"], np.uint32)
    return _side(counts, _mandelbrot, *(data[name] for name in ("left", "top", "step", "width", "rounds")))


def _fnv1a_side(data: Data) -> Side:
    return _side(_zeros(data["lanes"], np.uint32), _fnv1a, _resident(data["messages"]), data["length"])


def _matmul_side(data: Data) -> Side:
    n = data["n"]
    return _side(_zeros(n * n, np.float32), _matmul, _resident(data["a"]), _resident(data["b"]), n)


def _function(kernel: Any) -> Contender:
    return lambda data: _side(_zeros(data["x"].size, np.float32), kernel, _resident(data["x"]))


def _histogram_side(data: Data) -> Side:
    return _side(_zeros(256, np.uint32), _histogram, _resident(data["words"]))


def _sum_side(data: Data) -> Side:
    return _side(_zeros(1, np.uint32), _sum, _resident(data["x"]))


def _dfa_side(data: Data) -> Side:
    arrays = [_resident(data[name]) for name in ("text", "table", "accepting")]
    chunks = -(-data["text"].size // _CHUNK)
    return _side(_zeros(data["accepting"].size, np.uint32), _dfa, *arrays, data["warm_up"], _CHUNK, chunks)


def _bfs_side(data: Data) -> Side:
    levels, changed = _zeros(data["nodes"], np.uint32), _zeros(1, np.uint32)
    rows = _resident(data["row_ptr"]), _resident(data["col"])

    def run() -> None:
        _bfs_start(levels, changed, data["source"])
        for depth in range(64):
            _bfs_level(levels, changed, *rows, depth)
            if changed[0] != depth + 1:
                return

    return Side(run, levels.to_numpy)


def _sort_side(data: Data) -> Side:
    n = data["keys"].size
    unsorted, keys = _resident(data["keys"]), _zeros(n, np.uint32)

    def run() -> None:
        _copied(keys, unsorted)
        block = 2
        while block <= n:
            stride = block // 2
            while stride:
                _compare_exchange(keys, block, stride)
                stride //= 2
            block *= 2

    return Side(run, keys.to_numpy)


def _spmv_side(data: Data) -> Side:
    arrays = [_resident(data[name]) for name in ("row_ptr", "col", "values", "x")]
    return _side(_zeros(data["x"].size, np.float32), _spmv, *arrays)


def _softmax_side(data: Data) -> Side:
    x = data["x"]
    return _side(_zeros(x.size, np.float32), _softmax, _resident(x), data["rows"], data["width"])


SIDES: Final[dict[str, Contender]] = {
    "saxpy-1e6": _saxpy_side,
    "saxpy-1e7": _saxpy_side,
    "mandelbrot": _mandelbrot_side,
    "fnv1a": _fnv1a_side,
    "matmul-512": _matmul_side,
    "sin-1e6": _function(_sin),
    "exp-1e6": _function(_exp),
    "histogram-1e6": _histogram_side,
    "tree-reduction-2^22": _sum_side,
    "dfa-scan-4MB": _dfa_side,
    "bfs-1e6": _bfs_side,
    "bitonic-sort-2^20": _sort_side,
    "spmv-1e6": _spmv_side,
    "softmax-1024x1000": _softmax_side,
}

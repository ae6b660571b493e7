"""Warp on its device ``cpu``, which has one thread, with recorded launches."""

# ruff: noqa: UP018, SIM102 (Warp reads the source: a variable that changes begins as float(0.0), and `and` of tests of
# memory would read all of it)
from __future__ import annotations

from typing import Any, Final

import warp as wp

from benchmarks.cpu.job import Array, Contender, Data, Side

wp.config.quiet = True
wp.config.enable_backward = False
_CHUNK: Final = 1024


def version() -> str:
    """Returns the version of Warp."""
    return f"warp-lang {wp.__version__}"


@wp.kernel
def _saxpy(out: wp.array(dtype=wp.float32), x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32), a: float):  # type: ignore[no-untyped-def, valid-type]
    i = wp.tid()
    out[i] = a * x[i] + y[i]


@wp.kernel
def _mandelbrot(counts: wp.array(dtype=wp.uint32), left: float, top: float, step: float, width: int, rounds: wp.uint32):  # type: ignore[no-untyped-def, valid-type]
    y, x = wp.tid()
    cx = left + float(x) * step
    cy = top + float(y) * step
    zx = float(0.0)
    zy = float(0.0)
    n = wp.uint32(0)
    while n < rounds and zx * zx + zy * zy <= 4.0:
        next_x = zx * zx - zy * zy + cx
        zy = 2.0 * zx * zy + cy
        zx = next_x
        n += wp.uint32(1)
    counts[y * width + x] = n


@wp.kernel
def _fnv1a(hashes: wp.array(dtype=wp.uint32), messages: wp.array(dtype=wp.uint8), length: int):  # type: ignore[no-untyped-def, valid-type]
    i = wp.tid()
    h = wp.uint32(-0x7EE3623B)
    for k in range(length):
        h = (h ^ wp.uint32(messages[i * length + k])) * wp.uint32(0x01000193)
    hashes[i] = h


@wp.kernel
def _matmul(c: wp.array(dtype=wp.float32), a: wp.array(dtype=wp.float32), b: wp.array(dtype=wp.float32), n: int):  # type: ignore[no-untyped-def, valid-type]
    row, col = wp.tid()
    total = float(0.0)
    for k in range(n):
        total += a[row * n + k] * b[k * n + col]
    c[row * n + col] = total


@wp.kernel
def _sin(y: wp.array(dtype=wp.float32), x: wp.array(dtype=wp.float32)):  # type: ignore[no-untyped-def, valid-type]
    i = wp.tid()
    y[i] = wp.sin(x[i])


@wp.kernel
def _exp(y: wp.array(dtype=wp.float32), x: wp.array(dtype=wp.float32)):  # type: ignore[no-untyped-def, valid-type]
    i = wp.tid()
    y[i] = wp.exp(x[i])


@wp.kernel
def _histogram(counts: wp.array(dtype=wp.uint32), words: wp.array(dtype=wp.uint32)):  # type: ignore[no-untyped-def, valid-type]
    wp.atomic_add(counts, int(words[wp.tid()]), wp.uint32(1))


@wp.kernel
def _dfa(  # type: ignore[no-untyped-def]
    visits: wp.array(dtype=wp.uint32),  # type: ignore[valid-type]
    text: wp.array(dtype=wp.uint8),  # type: ignore[valid-type]
    table: wp.array(dtype=wp.uint32),  # type: ignore[valid-type]
    accepting: wp.array(dtype=wp.uint32),  # type: ignore[valid-type]
    size: int,
    warm_up: int,
    chunk: int,
):
    start = wp.tid() * chunk
    stop = wp.min(start + chunk, size)
    state = wp.uint32(0)
    at = wp.max(start - warm_up, 0)
    while at < stop:
        state = table[int(state * wp.uint32(256) + wp.uint32(text[at]))]
        if at >= start:
            if accepting[int(state)] != wp.uint32(0):
                wp.atomic_add(visits, int(state), wp.uint32(1))
        at += 1


@wp.kernel
def _bfs_start(levels: wp.array(dtype=wp.uint32), changed: wp.array(dtype=wp.uint32), source: int):  # type: ignore[no-untyped-def, valid-type]
    node = wp.tid()
    levels[node] = wp.uint32(-1)
    if node == source:
        levels[node] = wp.uint32(0)
    if node == 0:
        changed[0] = wp.uint32(0)


@wp.kernel
def _bfs_level(  # type: ignore[no-untyped-def]
    levels: wp.array(dtype=wp.uint32),  # type: ignore[valid-type]
    changed: wp.array(dtype=wp.uint32),  # type: ignore[valid-type]
    row_ptr: wp.array(dtype=wp.uint32),  # type: ignore[valid-type]
    col: wp.array(dtype=wp.uint32),  # type: ignore[valid-type]
    depth: wp.uint32,
):
    node = wp.tid()
    if levels[node] == depth:
        for e in range(int(row_ptr[node]), int(row_ptr[node + 1])):
            target = int(col[e])
            if levels[target] == wp.uint32(-1):
                levels[target] = depth + wp.uint32(1)
                changed[0] = depth + wp.uint32(1)


@wp.kernel
def _copied(to: wp.array(dtype=wp.uint32), source: wp.array(dtype=wp.uint32)):  # type: ignore[no-untyped-def, valid-type]
    i = wp.tid()
    to[i] = source[i]


@wp.kernel
def _compare_exchange(keys: wp.array(dtype=wp.uint32), block: int, stride: int):  # type: ignore[no-untyped-def, valid-type]
    pair = wp.tid()
    low = 2 * pair - (pair & (stride - 1))
    x = keys[low]
    y = keys[low + stride]
    least = wp.min(x, y)
    most = wp.max(x, y)
    if (low & block) == 0:
        keys[low] = least
        keys[low + stride] = most
    else:
        keys[low] = most
        keys[low + stride] = least


@wp.kernel
def _spmv(  # type: ignore[no-untyped-def]
    y: wp.array(dtype=wp.float32),  # type: ignore[valid-type]
    row_ptr: wp.array(dtype=wp.uint32),  # type: ignore[valid-type]
    col: wp.array(dtype=wp.uint32),  # type: ignore[valid-type]
    values: wp.array(dtype=wp.float32),  # type: ignore[valid-type]
    x: wp.array(dtype=wp.float32),  # type: ignore[valid-type]
):
    row = wp.tid()
    total = float(0.0)
    for k in range(int(row_ptr[row]), int(row_ptr[row + 1])):
        total += values[k] * x[int(col[k])]
    y[row] = total


@wp.kernel
def _softmax(out: wp.array(dtype=wp.float32), x: wp.array(dtype=wp.float32), width: int):  # type: ignore[no-untyped-def, valid-type]
    first = wp.tid() * width
    most = float(-wp.inf)
    for k in range(first, first + width):
        most = wp.max(most, x[k])
    total = float(0.0)
    for k in range(first, first + width):
        e = wp.exp(x[k] - most)
        out[k] = e
        total += e
    for k in range(first, first + width):
        out[k] = out[k] / total


def _resident(array: Array) -> Any:
    return wp.array(array, device="cpu", copy=True)


def _zeros(count: int, dtype: type) -> Any:
    return wp.zeros(count, dtype=dtype, device="cpu")


def _recorded(kernel: Any, dim: int | tuple[int, ...], *arguments: Any) -> Any:
    return wp.launch(kernel, dim=dim, inputs=list(arguments), device="cpu", record_cmd=True)


def _side(output: Any, kernel: Any, dim: int | tuple[int, ...], *arguments: Any) -> Side:
    return Side(_recorded(kernel, dim, output, *arguments).launch, lambda: output.numpy().copy())


def _saxpy_side(data: Data) -> Side:
    x = data["x"]
    return _side(_zeros(x.size, wp.float32), _saxpy, x.size, _resident(x), _resident(data["y"]), data["a"])


def _mandelbrot_side(data: Data) -> Side:
    width, height = data["width"], data["height"]
    counts = _zeros(width * height, wp.uint32)
    view = [data[name] for name in ("left", "top", "step")]
    return _side(counts, _mandelbrot, (height, width), *view, width, data["rounds"])


def _fnv1a_side(data: Data) -> Side:
    lanes = data["lanes"]
    return _side(_zeros(lanes, wp.uint32), _fnv1a, lanes, _resident(data["messages"]), data["length"])


def _matmul_side(data: Data) -> Side:
    n = data["n"]
    return _side(_zeros(n * n, wp.float32), _matmul, (n, n), _resident(data["a"]), _resident(data["b"]), n)


def _function(kernel: Any) -> Contender:
    return lambda data: _side(_zeros(data["x"].size, wp.float32), kernel, data["x"].size, _resident(data["x"]))


def _histogram_side(data: Data) -> Side:
    counts, words = _zeros(256, wp.uint32), _resident(data["words"])
    count = _recorded(_histogram, words.size, counts, words)

    def run() -> None:
        counts.zero_()
        count.launch()

    return Side(run, lambda: counts.numpy().copy())


def _dfa_side(data: Data) -> Side:
    size = data["text"].size
    visits = _zeros(data["accepting"].size, wp.uint32)
    arrays = [_resident(data[name]) for name in ("text", "table", "accepting")]
    scan = _recorded(_dfa, -(-size // _CHUNK), visits, *arrays, size, data["warm_up"], _CHUNK)

    def run() -> None:
        visits.zero_()
        scan.launch()

    return Side(run, lambda: visits.numpy().copy())


def _bfs_side(data: Data) -> Side:
    nodes = data["nodes"]
    levels, changed = _zeros(nodes, wp.uint32), _zeros(1, wp.uint32)
    flag = changed.numpy()  # a view
    rows = _resident(data["row_ptr"]), _resident(data["col"])
    start = _recorded(_bfs_start, nodes, levels, changed, data["source"])
    steps = [_recorded(_bfs_level, nodes, levels, changed, *rows, depth) for depth in range(64)]

    def run() -> None:
        start.launch()
        for depth, step in enumerate(steps):
            step.launch()
            if flag[0] != depth + 1:
                return

    return Side(run, lambda: levels.numpy().copy())


def _sort_side(data: Data) -> Side:
    n = data["keys"].size
    unsorted, keys = _resident(data["keys"]), _zeros(n, wp.uint32)
    steps = [_recorded(_copied, n, keys, unsorted)]
    block = 2
    while block <= n:
        stride = block // 2
        while stride:
            steps.append(_recorded(_compare_exchange, n // 2, keys, block, stride))
            stride //= 2
        block *= 2

    def run() -> None:
        for step in steps:
            step.launch()

    return Side(run, lambda: keys.numpy().copy())


def _spmv_side(data: Data) -> Side:
    rows = data["x"].size
    arrays = [_resident(data[name]) for name in ("row_ptr", "col", "values", "x")]
    return _side(_zeros(rows, wp.float32), _spmv, rows, *arrays)


def _softmax_side(data: Data) -> Side:
    x = _resident(data["x"])
    return _side(_zeros(x.size, wp.float32), _softmax, data["rows"], x, data["width"])


SIDES: Final[dict[str, Contender]] = {
    "saxpy-1e6": _saxpy_side,
    "saxpy-1e7": _saxpy_side,
    "mandelbrot": _mandelbrot_side,
    "fnv1a": _fnv1a_side,
    "matmul-512": _matmul_side,
    "sin-1e6": _function(_sin),
    "exp-1e6": _function(_exp),
    "histogram-1e6": _histogram_side,
    "dfa-scan-4MB": _dfa_side,
    "bfs-1e6": _bfs_side,
    "bitonic-sort-2^20": _sort_side,
    "spmv-1e6": _spmv_side,
    "softmax-1024x1000": _softmax_side,
}

"""Jobs whose lanes do about the same: maps, hashes, pictures, matrix products, sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import blake3
import numpy as np

import vyre
from benchmarks import kernels
from benchmarks.cpu import programs
from benchmarks.cpu.job import Array, Data, Job, Side
from benchmarks.cpu.launches import Memory, in_order, one_launch
from vyre import Session, Step, Value
from vyre.gallery.applications import blake3_chunks, mandelbrot


# ---------------------------------------------------------------- saxpy
def _saxpy_data(n: int) -> dict[str, Any]:
    source = np.random.default_rng(1)
    return {"a": 2.5, "x": source.random(n, np.float32), "y": source.random(n, np.float32)}


def _saxpy(session: Session, data: Data) -> Side:
    return one_launch(session, programs.saxpy(), data, "y2", np.zeros_like(data["y"]))


def _saxpy_expected(data: Data) -> Array:
    return np.asarray(np.float32(data["a"]) * data["x"] + data["y"])


def _saxpy_job(name: str, n: int) -> Job:
    return Job(
        f"saxpy-{name}", f"y2 = a x + y over {n:,} f32", _saxpy_data, _saxpy_expected, _saxpy, {"n": n}, {"n": 1000}
    )


# ---------------------------------------------------------------- Mandelbrot
def _mandelbrot_data(width: int, height: int, rounds: int) -> dict[str, Any]:
    return {"left": -2.2, "top": -1.2, "step": 3.2 / width, "width": width, "height": height, "rounds": rounds}


def _mandelbrot(session: Session, data: Data) -> Side:
    width, height = data["width"], data["height"]
    numbers = {name: data[name] for name in ("width", "rounds", "left", "top", "step")}
    return one_launch(
        session,
        mandelbrot.mandelbrot.program,
        numbers,
        "counts",
        np.zeros(width * height, np.uint32),
        extent=(width, height),
        output_counts={"counts": width * height},
    )


def _mandelbrot_expected(data: Data) -> Array:
    shape = data["height"], data["width"]
    view = {name: data[name] for name in ("rounds", "left", "top", "step")}
    return mandelbrot.counts_by_numpy(shape, **view).ravel()


# ---------------------------------------------------------------- FNV-1a
def _fnv1a_data(lanes: int, length: int) -> dict[str, Any]:
    messages = np.random.default_rng(2).integers(0, 256, lanes * length, np.uint8)
    return {"messages": messages, "lanes": lanes, "length": length}


def _fnv1a(session: Session, data: Data) -> Side:
    lanes = data["lanes"]
    program = programs.fnv1a(lanes, data["length"])
    words = data["messages"].view(np.uint32)
    return one_launch(session, program, {"messages": words}, "hashes", np.zeros(lanes, np.uint32))


def _fnv1a_expected(data: Data) -> Array:
    messages = data["messages"].reshape(data["lanes"], data["length"])
    h = np.full(data["lanes"], kernels.FNV_OFFSET, np.uint32)
    for p in range(data["length"]):
        h = (h ^ messages[:, p]) * np.uint32(kernels.FNV_PRIME)
    return h


# ---------------------------------------------------------------- matrix product
def _matmul_data(n: int) -> dict[str, Any]:
    source = np.random.default_rng(3)
    return {"n": n, "a": source.random(n * n, np.float32) - 0.5, "b": source.random(n * n, np.float32) - 0.5}


def _matmul(session: Session, data: Data) -> Side:
    n = data["n"]
    arrays = {"a": data["a"], "b": data["b"]}
    lanes = min(n // programs.BLOCK_COLUMNS, 16)
    program = programs.matmul(n, lanes)
    grid = (n // programs.BLOCK_ROWS, n // (lanes * programs.BLOCK_COLUMNS), 1)
    return one_launch(session, program, arrays, "c", np.zeros(n * n, np.float32), grid=grid)


def _tiled_matmul(session: Session, data: Data) -> Side:
    n = data["n"]
    arrays = {"a": data["a"], "b": data["b"]}
    return one_launch(
        session, programs.tiled_matmul(n, 16), arrays, "c", np.zeros(n * n, np.float32), grid=(n // 16, n // 16, 1)
    )


def _matmul_expected(data: Data) -> Array:
    n = data["n"]
    a, b = data["a"].reshape(n, n), data["b"].reshape(n, n)
    total = np.zeros((n, n), np.float32)
    for k in range(n):
        total += a[:, k, None] * b[k]
    return total.ravel()


# ---------------------------------------------------------------- transcendental functions
def _function_data(low: float, high: float) -> Callable[..., dict[str, Any]]:
    def data(n: int) -> dict[str, Any]:
        return {"x": np.random.default_rng(4).uniform(low, high, n).astype(np.float32)}

    return data


def _function(function: Callable[[Value], Value]) -> Callable[[Session, Data], Side]:
    def ours(session: Session, data: Data) -> Side:
        return one_launch(session, programs.mapped(function), data, "y", np.zeros_like(data["x"]))

    return ours


def _function_expected(function: np.ufunc) -> Callable[[Data], Array]:
    """Rounds the result in binary64, whose error is far below that of the second rounding, to f32."""

    def expected(data: Data) -> Array:
        return np.asarray(function(data["x"].astype(np.float64))).astype(np.float32)

    return expected


def _function_job(name: str, ours: Callable[[Value], Value], theirs: np.ufunc, low: float, high: float) -> Job:
    others = dict.fromkeys(("C", "numba", "NumPy", "PoCL", "Warp", "Taichi"), 3e-7)
    return Job(
        f"{name}-1e6",
        f"{name}, correctly rounded, of 10^6 f32 in [{low:g}, {high:g}]",
        _function_data(low, high),
        _function_expected(theirs),
        _function(ours),
        {"n": 1_000_000},
        {"n": 1000},
        others,
    )


# ---------------------------------------------------------------- histogram
def _histogram_data(n: int) -> dict[str, Any]:
    return {"words": np.random.default_rng(5).integers(0, 256, n, np.uint32)}


def _histogram(session: Session, data: Data) -> Side:
    return one_launch(session, kernels.histogram(256), data, "counts", np.zeros(256, np.uint32))


def _histogram_expected(data: Data) -> Array:
    return np.bincount(data["words"], minlength=256).astype(np.uint32)


# ---------------------------------------------------------------- tree reduction
_REDUCED_BY: Final = 256


def _reduction_data(n: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(6).integers(0, 1 << 32, n, np.uint32)}


def _reduction(per_lane: int) -> Callable[[Session, Data], Side]:
    def ours(session: Session, data: Data) -> Side:
        groups = data["x"].size // (_REDUCED_BY * per_lane)
        program = programs.summed_tiles(groups, _REDUCED_BY, per_lane)
        side = one_launch(session, program, data, "sums", np.zeros(groups, np.uint32), grid=groups)
        return Side(side.run, lambda: side.answer().sum(dtype=np.uint32, keepdims=True), side.close)

    return ours


def _reduction_expected(data: Data) -> Array:
    return np.asarray(data["x"].sum(dtype=np.uint64, keepdims=True)).astype(np.uint32)


# ---------------------------------------------------------------- BLAKE3
def _blake3_data(n: int) -> dict[str, Any]:
    return {"text": np.random.default_rng(7).integers(0, 256, n, np.uint8)}


def _blake3(session: Session, data: Data) -> Side:
    text = data["text"]
    chunks = -(-text.size // blake3_chunks.CHUNK_BYTES)
    words = blake3_chunks.DIGEST_WORDS
    nodes = {"even": np.zeros(chunks * words, np.uint32), "odd": np.zeros(chunks * words, np.uint32)}
    memory = Memory(session, {"text": text.view(np.uint32), **nodes})
    steps = [
        Step(
            blake3_chunks.hash_chunks.program,
            {"length": text.size, **memory.named(text="text", values="even")},
            extent=chunks,
            output_counts={"values": chunks * words},
        )
    ]
    parents, source, to, count = blake3_chunks.hash_parents.program, "even", "odd", chunks
    while count > 1:
        above = (count + 1) // 2
        named = memory.named(nodes=source, parents=to)
        counts = {"parents": above * words}
        steps.append(Step(parents, {"count": count, **named}, extent=above, output_counts=counts))
        source, to, count = to, source, above
    last = memory.arrays[source]
    return in_order(session, memory, steps, lambda: last.download()[:words].copy())


def _blake3_expected(data: Data) -> Array:
    return np.frombuffer(blake3.blake3(data["text"].tobytes()).digest(), np.uint32)


_SUMS: Final = {"n": 1 << 22}
JOBS: Final = (
    _saxpy_job("1e6", 1_000_000),
    _saxpy_job("1e7", 10_000_000),
    Job(
        "mandelbrot",
        "escape counts of 1024 x 768 pixels, at most 256 rounds",
        _mandelbrot_data,
        _mandelbrot_expected,
        _mandelbrot,
        {"width": 1024, "height": 768, "rounds": 256},
        {"width": 64, "height": 48, "rounds": 40},
    ),
    Job(
        "fnv1a",
        "FNV-1a of 4096 messages of 256 bytes",
        _fnv1a_data,
        _fnv1a_expected,
        _fnv1a,
        {"lanes": 4096, "length": 256},
        {"lanes": 100, "length": 32},
    ),
    Job(
        "matmul-512",
        "product of 512 x 512 f32 matrices, every sum in ascending order, no fused multiply-add",
        _matmul_data,
        _matmul_expected,
        _matmul,
        {"n": 512},
        {"n": 32},
        {"NumPy": 1e-4},
    ),
    Job(
        "matmul-512-tiles",
        "the same through 16 x 16 tiles in workgroup memory",
        _matmul_data,
        _matmul_expected,
        _tiled_matmul,
        {"n": 512},
        {"n": 32},
        {"NumPy": 1e-4},
        same_task="matmul-512",
    ),
    _function_job("sin", vyre.sin, np.sin, -30.0, 30.0),
    _function_job("exp", vyre.exp, np.exp, -80.0, 0.0),
    Job(
        "histogram-1e6",
        "256 bins of 10^6 words",
        _histogram_data,
        _histogram_expected,
        _histogram,
        {"n": 1_000_000},
        {"n": 1000},
    ),
    Job(
        "tree-reduction-2^22",
        "sum of 2^22 u32 by trees of 256 in workgroup memory",
        _reduction_data,
        _reduction_expected,
        _reduction(1),
        _SUMS,
        {"n": 1 << 10},
    ),
    Job(
        "tree-reduction-2^22-by-16",
        "the same, each lane adding 16 elements before the tree",
        _reduction_data,
        _reduction_expected,
        _reduction(16),
        _SUMS,
        {"n": 1 << 14},
        same_task="tree-reduction-2^22",
    ),
    Job(
        "blake3-1MiB",
        "BLAKE3 of 1 MiB with its tree",
        _blake3_data,
        _blake3_expected,
        _blake3,
        {"n": 1 << 20},
        {"n": 9 * 1024},
    ),
)

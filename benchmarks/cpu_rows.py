"""Kernels of the ``cpu`` backend against C, numba, NumPy, PoCL, Warp and Taichi: processor time on one thread.

Every contender has its memory in place and its caches warm.  What is required depends on the vectors of this machine.
Where it has vectors of 512 bits, rows with the suffix ``avx2`` tell what vyre reaches without them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Final

from benchmarks import cpu_wall_rows
from benchmarks.cpu.contenders import JOBS, OURS, OURS_NARROW
from benchmarks.cpu.contest import Times, contest, has_wide_vectors, versions
from benchmarks.harness import Metric, NotMeasured, Row, Samples

_STATE: Final = "compiled, memory resident and warm, one thread, processor time"
_ROUNDS: Final = 15
_NARROW_STATE: Final = f"{_STATE}; vyre without vectors of 512 bits, the peer with them"

# job: (peer, required and aim with AVX-512, required with AVX2); None is a record.
_MAIN: Final[dict[str, tuple[str, float, float | None, float | None]]] = {
    "saxpy-1e6": ("numba", 1.4, 1.1, 1.4),
    "saxpy-1e7": ("numba", 1.4, 1.1, 1.4),
    "mandelbrot": ("C", 0.2, 0.1, 0.3),
    "fnv1a": ("C", 0.6, 0.35, 0.9),
    "dfa-scan-4MB": ("C", 0.8, 0.5, 1.4),
    "matmul-512": ("C", 0.8, 0.4, 1.0),
    "sin-1e6": ("C", 0.6, 0.35, 1.0),
    "exp-1e6": ("C", 0.6, 0.35, 1.0),
    "histogram-1e6": ("C", 1.5, 1.1, 1.6),
    "tree-reduction-2^22": ("C", 3.0, 1.5, 4.0),
    "blake3-1MiB": ("blake3", 2.5, 1.5, 4.0),
    "bfs-1e6": ("numba", 2.5, 1.5, None),
    "bitonic-sort-2^20": ("numba", 1.5, 1.0, None),
    "spmv-1e6": ("numba", 1.5, 1.0, None),
    "softmax-1024x1000": ("numba", 1.5, 1.0, None),
}
_OTHERS: Final = ("PoCL", "Warp", "Taichi")
_NO_KERNEL: Final = frozenset((("tree-reduction-2^22", "Warp"), ("blake3-1MiB", "Warp"), ("blake3-1MiB", "Taichi")))
"""Pairs for which the peer has no natural kernel: no sum of words, no 500 unrolled statements."""
_RECORDS: Final = (
    ("matmul-512", "NumPy"),
    ("matmul-512-tiles", "C"),
    ("sin-1e6", "NumPy"),
    ("exp-1e6", "NumPy"),
    ("tree-reduction-2^22-by-16", "C"),
    ("bitonic-sort-2^20-by-steps", "numba"),
    ("bitonic-sort-2^20", "NumPy"),
    ("softmax-1024x1000", "NumPy"),
)


def _measured(job: str, solution: str, peer: str, rounds: int) -> Samples:
    found = contest(job, max(rounds, _ROUNDS))
    ours, theirs = found[solution], found[peer]
    for side in (ours, theirs):
        if isinstance(side, str):
            raise NotMeasured(side)
    assert isinstance(ours, Times) and isinstance(theirs, Times)
    return Samples(ours.processor, theirs.processor)


def _row(job: str, peer: str, required: float | None, aim: float | None) -> Row:
    measure: Callable[[int], Samples] = partial(_measured, job, OURS, peer)
    return Row(f"{job}/{peer}", Metric.RATIO, f"x {peer}", required, aim, measure, _STATE)


def _narrow_row(job: str, peer: str, required: float | None) -> Row:
    """Returns the row of code without vectors of 512 bits on a machine that has them; the peer uses them."""
    measure: Callable[[int], Samples] = partial(_measured, job, OURS_NARROW, peer)
    return Row(f"{job}/{peer}/avx2", Metric.RATIO, f"x {peer}", required, None, measure, _NARROW_STATE)


def _rows() -> tuple[Row, ...]:
    wide = has_wide_vectors()
    rows = []
    for job, (peer, required, aim, narrow) in _MAIN.items():
        rows.append(_row(job, peer, required, aim) if wide else _row(job, peer, narrow, None))
        rows += [_narrow_row(job, peer, narrow)] if wide else []
        others = (other for other in _OTHERS if (job, other) not in _NO_KERNEL)
        rows += [_row(job, other, 1.0, 0.6 if wide else None) for other in others]
        rows += [_row(name, other, None, None) for name, other in _RECORDS if name == job]
    rows += [_row(name, other, None, None) for name, other in _RECORDS if name not in _MAIN]
    return tuple(rows)


def details() -> dict[str, object]:
    """Versions of the contenders, and the milliseconds of each in every job that was measured."""
    times: dict[str, dict[str, object]] = {}
    for name, job in JOBS.items():
        found = contest(name, _ROUNDS)
        times[name] = {"title": job.title} | {
            contender: f"not measured: {side}" if isinstance(side, str) else _milliseconds(side)
            for contender, side in found.items()
        }
    return {
        "wide_vectors": has_wide_vectors(),
        "contenders": versions(),
        "milliseconds": times,
        "gallery_milliseconds": cpu_wall_rows.gallery(),
    }


def _milliseconds(times: Times) -> float:
    return round(statistics.median(times.processor) * 1e3, 4)


ROWS: Final = _rows()

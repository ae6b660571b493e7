"""The contenders by name, and the jobs."""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from typing import Final

import vyre
from benchmarks.cpu import dense_jobs, sparse_jobs
from benchmarks.cpu.job import Contender, Job
from benchmarks.cpu.launches import opened

JOBS: Final[dict[str, Job]] = {job.name: job for job in (*dense_jobs.JOBS, *sparse_jobs.JOBS)}
OURS: Final = "vyre"
OURS_NARROW: Final = "vyre AVX2"
"""Vyre without vectors of more than 256 bits, on a processor that has them."""
SOLUTIONS: Final = (OURS, OURS_NARROW)
BACKEND_VARIABLE: Final = "VYRE_BENCH_BACKEND"
"""The variable that names another backend than ``cpu``, for work on the suite itself."""
THREADS_VARIABLE: Final = "VYRE_BENCH_THREADS"
"""The variable with the number of threads of vyre's solutions, usually 1."""
_MODULES: Final = {
    "C": "c",
    "numba": "by_numba",
    "NumPy": "by_numpy",
    "blake3": "by_blake3",
    "PoCL": "pocl",
    "Warp": "by_warp",
    "Taichi": "by_taichi",
}
PEERS: Final = tuple(_MODULES)


def backend() -> str:
    """Returns the backend that is measured."""
    return os.environ.get(BACKEND_VARIABLE, "cpu")


def load(contender: str) -> tuple[str, dict[str, Contender]]:
    """Returns the version of a contender and its solutions by job.

    Raises, ``ImportError`` for example, where it is not installed or cannot run here.
    """
    if contender in SOLUTIONS:
        vector_bits: int | None = 256 if contender == OURS_NARROW else None
        session = opened(backend(), int(os.environ.get(THREADS_VARIABLE, "1")), vector_bits)
        sides: dict[str, Contender] = {name: partial(job.ours, session) for name, job in JOBS.items()}
        return f"vyre {vyre.__version__} on {session.backend}", sides
    module = import_module(f"benchmarks.cpu.peers.{_MODULES[contender]}")
    sides = module.SIDES
    return module.version(), sides

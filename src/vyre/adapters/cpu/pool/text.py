"""The LLVM text of the runtime."""

from __future__ import annotations

from vyre.adapters.cpu.pool import jobs, machine, serving, step_rows, threads, work
from vyre.adapters.cpu.pool.machine import FUTEX_NUMBER, MONOTONIC, Target
from vyre.adapters.cpu.pool.translation import translate
from vyre.domain.errors import UnsupportedFeature


def runtime_text(target: Target) -> str:
    """Returns the runtime as one LLVM module without a triple.  Raises ``UnsupportedFeature`` for other machines.

    The module calls functions of the C library: ``clock_gettime``, ``sched_yield``, ``posix_memalign``, ``free``,
    ``memmove``, ``memset``, ``write`` (and ``memcpy``, which LLVM may use), and ``syscall`` on Linux or ``usleep`` on
    macOS.
    """
    if target.arch not in FUTEX_NUMBER or target.system not in MONOTONIC:
        raise UnsupportedFeature(
            feature=f"native code on {target.arch} {target.system}",
            backend="cpu",
            fix="use x86_64 or aarch64 with Linux or macOS, or the backend `reference`.",
        )
    return translate((machine, work, jobs, step_rows, serving, threads), {"TARGET": target})

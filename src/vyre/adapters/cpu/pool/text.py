"""The LLVM text of the runtime."""

from __future__ import annotations

from vyre.adapters.cpu.pool.jobs import write_jobs
from vyre.adapters.cpu.pool.primitives import Target, Text, checked, write_primitives
from vyre.adapters.cpu.pool.serving import write_rings, write_serving
from vyre.adapters.cpu.pool.work import write_work


def runtime_text(target: Target) -> str:
    """Returns the runtime as one LLVM module without a triple.  Raises ``UnsupportedFeature`` for other machines.

    The module calls functions of the C library: ``clock_gettime``, ``sched_yield``, ``posix_memalign``, ``free``,
    ``memmove``, ``memset``, ``write`` (and ``memcpy``, which LLVM may use), and ``syscall`` on Linux or ``usleep`` on
    macOS.
    """
    module = Text(checked(target))
    write_primitives(module)
    write_work(module)
    write_serving(module)
    write_jobs(module)
    write_rings(module)
    return module.text()

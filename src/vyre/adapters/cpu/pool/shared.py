"""One pool for each set of CPUs in a process, which all sessions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vyre.adapters.cpu.pool.entries import Entries
from vyre.adapters.cpu.pool.options import default_threads
from vyre.adapters.cpu.pool.worker_pool import WorkerPool
from vyre.adapters.forks import process_lock
from vyre.ports.interrupts import sealed, undisturbed

_POOLS: Final[dict[frozenset[int] | None, WorkerPool]] = {}
"""The pools that the process shares.  A fork keeps them, and they begin anew by themselves."""
_LOCK: Final = process_lock()


def shared_pool(load: Callable[[], Entries], affinity: frozenset[int] | None = None) -> WorkerPool:
    """Returns the pool of the process for these CPUs; the first call makes it, with the runtime that ``load`` returns.

    It has as many workers as ``options.default_threads`` says, and more once a job asks for them.
    """
    found = _POOLS.get(affinity)
    return undisturbed(_made, load, affinity) if found is None else found


def _made(load: Callable[[], Entries], affinity: frozenset[int] | None) -> WorkerPool:
    with _LOCK, sealed:
        found = _POOLS.get(affinity)
        if found is None:
            threads = default_threads(affinity)
            found = _POOLS[affinity] = WorkerPool(load(), size=threads, cpus=threads, affinity=affinity)
        return found

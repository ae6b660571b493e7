"""One pool for each set of CPUs in a process, which all sessions share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from vyre.adapters.cpu.pool.entries import Entries
from vyre.adapters.cpu.pool.options import default_threads
from vyre.adapters.cpu.pool.worker_pool import WorkerPool


class _Shared:
    """The pools that a process shares.

    A fork keeps the pools, which begin anew by themselves, and gets a lock of its own.
    """

    def __init__(self) -> None:
        self.pools: dict[frozenset[int] | None, WorkerPool] = {}
        self.renew()

    def renew(self) -> None:
        """Replaces the lock, which a thread may have held that a fork does not have."""
        self.lock = threading.Lock()


_SHARED = _Shared()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED.renew)


def shared_pool(load: Callable[[], Entries], affinity: frozenset[int] | None = None) -> WorkerPool:
    """Returns the pool of the process for these CPUs; the first call makes it, with the runtime that ``load`` returns.

    It has as many workers as ``options.default_threads`` says, and more once a job asks for them.
    """
    found = _SHARED.pools.get(affinity)
    if found is not None:
        return found
    with _SHARED.lock:
        found = _SHARED.pools.get(affinity)
        if found is None:
            threads = default_threads(affinity)
            found = _SHARED.pools[affinity] = WorkerPool(load(), size=threads, cpus=threads, affinity=affinity)
        return found

"""Programs that ``dispatch_many`` keeps running between its calls, so that opening an engine is paid for once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from vyre.adapters.forks import process_lock
from vyre.domain.unique import Unique
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.app.host_arrays import Shapes
    from vyre.app.persistent.jobs import PersistentJobs
    from vyre.app.pipeline import Pipeline

Launched: TypeAlias = "tuple[Pipeline, Shapes | None]"
"""A pipeline, and the shapes of its outputs where a kernel declares them."""
MOST_KEPT: Final = 8
"""Pipelines whose programs one session keeps running; the one that was used least recently is closed first."""
MOST_KEPT_BYTES: Final = 16 << 20
"""The memory for jobs up to which the engines of one pipeline are kept."""


class KeptJobs(Unique):
    """Open ``PersistentJobs`` by pipeline.  Idle ones cost memory only: the workers sleep.

    One caller at a time has the jobs of a pipeline; another one meanwhile opens its own.  All methods may be called
    from any thread.
    """

    def __init__(self) -> None:
        self._jobs: OrderedDict[Launched, PersistentJobs] = OrderedDict()
        self._lock = process_lock()
        self._closed = False

    def has(self, launched: Launched) -> bool:
        """Returns whether the program of a pipeline is running, and nobody uses it."""
        return launched in self._jobs

    @contextmanager
    def taken(self, launched: Launched, opened: Callable[[], PersistentJobs]) -> Iterator[PersistentJobs]:
        """Yields the jobs of a pipeline, which ``opened`` returns where none are kept, and keeps them afterwards.

        They are closed instead if the block is left by what is no ``Exception``, such as Ctrl-C: jobs may be under way.
        """
        with self._lock, sealed:
            jobs = self._jobs.pop(launched, None)
        if jobs is None or jobs.closed:
            jobs = opened()
        is_idle = False
        try:
            yield jobs
            is_idle = True
        except Exception:
            is_idle = True
            raise
        finally:
            self._give(launched, jobs, is_idle=is_idle)

    def close(self) -> None:
        """Closes all, and those that are given back later."""
        with self._lock, sealed:
            self._closed = True
            kept = tuple(self._jobs.values())
        for jobs in kept:
            jobs.close()
        self._jobs.clear()  # last: who was interrupted closes again

    def __len__(self) -> int:
        return len(self._jobs)

    def __del__(self) -> None:
        for jobs in getattr(self, "_jobs", {}).values():
            jobs.drop()

    def _give(self, launched: Launched, jobs: PersistentJobs, *, is_idle: bool) -> None:
        gone = jobs
        if is_idle and not jobs.closed and jobs.nbytes <= MOST_KEPT_BYTES:
            with self._lock, sealed:
                if not self._closed and launched not in self._jobs:
                    self._jobs[launched] = jobs
                    if len(self._jobs) <= MOST_KEPT:
                        return
                    gone = self._jobs.popitem(last=False)[1]
        gone.close()

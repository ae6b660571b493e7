"""Where rows are measured: the session of both sides, and what counts as their time.

Jobs that name no backend run on ``cpu`` here and on a GPU in ``tests/gpu_runs``, with equal checks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.harness import Clock, NotMeasured
from vyre import ResidentArray, Session, VyreError


@dataclass(frozen=True, slots=True)
class Site:
    """``open`` raises ``NotMeasured`` where there is no session.  ``clock`` counts seconds of both sides."""

    open: Callable[[], AbstractContextManager[Session]]
    clock: Clock


@contextmanager
def opened_session(**options: Any) -> Iterator[Session]:
    """Yields a session on the backend that the suite of ``cpu`` measures, with one thread."""
    # Imported here: other sites need none of the contenders.
    from benchmarks.cpu.contenders import backend
    from benchmarks.cpu.launches import opened

    try:
        session = opened(backend(), **options)
    except VyreError as error:
        raise NotMeasured(f"{type(error).__name__}: {error}") from None
    with session:
        yield session


CPU_WALL: Final = Site(opened_session, time.perf_counter)
CPU_PROCESSOR: Final = Site(opened_session, time.process_time)
"""For both sides on one thread: what other processes take does not count."""


class Word:
    """A word of resident memory for the host: in place where the device's memory is the host's, else by copies."""

    __slots__ = ("_array", "_place")

    def __init__(self, array: ResidentArray) -> None:
        self._array = array
        self._place: Any = None
        if array.__dlpack_device__()[0] == _HOST:
            self._place = np.from_dlpack(array)

    def clear(self) -> None:
        if self._place is None:
            self._array.upload(_ZERO)
        else:
            self._place[0] = 0

    def read(self) -> int:
        return int(self._array.download()[0] if self._place is None else self._place[0])


_HOST: Final = 1
"""The number of the host's memory in DLPack."""
_ZERO: Final = np.zeros(1, np.uint32)

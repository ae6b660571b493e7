"""Named ranges for a profiler's timeline: NVTX where the ``nvtx`` package is installed and ``VYRE_NVTX=1``."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from vyre.ports.support import Environment

VARIABLE: Final = "VYRE_NVTX"
_NOTHING: Final = nullcontext()


class NullProfiler:
    """No profiler is asked for."""

    def range(self, name: str, /) -> AbstractContextManager[object]:
        return _NOTHING


class NvtxProfiler:
    """Ranges of the ``nvtx`` package, in a domain of their own."""

    def __init__(self, nvtx: Any) -> None:
        self._annotate = nvtx.annotate

    def range(self, name: str, /) -> AbstractContextManager[object]:
        found: AbstractContextManager[object] = self._annotate(message=name, domain="vyre")
        return found


def profiler_from(environment: Environment) -> NullProfiler | NvtxProfiler:
    """The profiler that the environment asks for; none where the package is missing."""
    if environment.get(VARIABLE) != "1":
        return NullProfiler()
    try:
        import nvtx
    except ImportError:
        return NullProfiler()
    return NvtxProfiler(nvtx)

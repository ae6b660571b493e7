"""Named ranges in a profiler's timeline: NVTX if the ``nvtx`` package is installed and ``VYRE_NVTX=1``."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from vyre.domain.errors import InvalidConfig
from vyre.domain.printable import shown
from vyre.ports.support import Environment

VARIABLE: Final = "VYRE_NVTX"
_NOTHING: Final = nullcontext()


class NullProfiler:
    """A profiler that records nothing."""

    def range(self, name: str, /) -> AbstractContextManager[object]:
        """Returns a context manager that does nothing."""
        return _NOTHING


class NvtxProfiler:
    """Ranges of the ``nvtx`` package, in a domain of their own."""

    def __init__(self, nvtx: Any) -> None:
        self._annotate = nvtx.annotate

    def range(self, name: str, /) -> AbstractContextManager[object]:
        """Returns a context manager that marks a range of this name in the domain ``vyre``."""
        marked: AbstractContextManager[object] = self._annotate(message=name, domain="vyre")
        return marked


def profiler_from(environment: Environment) -> NullProfiler | NvtxProfiler:
    """Returns the profiler that is selected, ``NullProfiler`` without the package.  Raises ``InvalidConfig``."""
    if (asked := (environment.get(VARIABLE) or "").strip() or "0") not in ("0", "1"):
        raise InvalidConfig(f"{VARIABLE}={shown(asked)} is neither 0 nor 1", fix=f"set {VARIABLE} to 1, or unset it.")
    if asked == "0":
        return NullProfiler()
    try:
        import nvtx
    except ImportError:
        return NullProfiler()
    return NvtxProfiler(nvtx)

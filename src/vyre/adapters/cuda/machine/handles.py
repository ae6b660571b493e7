"""The objects behind the handles of one driver."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.contexts import Contexts
from vyre.adapters.cuda.machine.graphs import Executable, Graph
from vyre.adapters.cuda.machine.libraries import KernelCode, Library
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.machine.streams import Event, Stream

_FIRST_HANDLE: Final = 0x5_0000_1000
_HANDLE_STEP: Final = 0x10
_T = TypeVar("_T")
_Owned = TypeVar("_Owned", Stream, Event, Graph, Executable)


class Handles:
    """Tables of objects by handle.

    A method that looks up a handle raises ``Status`` if no object has it, and for streams, graphs, executable graphs
    and ``own_event`` also if the object does not belong to the current context.
    """

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._numbers = itertools.count(_FIRST_HANDLE, _HANDLE_STEP)
        self.streams: Final[dict[int, Stream]] = {}
        self.events: Final[dict[int, Event]] = {}
        self.libraries: Final[dict[int, Library]] = {}
        self.kernels: Final[dict[int, KernelCode]] = {}
        self.graphs: Final[dict[int, Graph]] = {}
        self.executables: Final[dict[int, Executable]] = {}

    def new(self) -> int:
        """Returns a handle that no object has."""
        return next(self._numbers)

    @property
    def context(self) -> int:
        """Returns the handle of the current context.  Raises ``Status`` if none is usable."""
        return self._contexts.current().handle

    def live(self) -> Mapping[str, int]:
        """Returns the number of objects by kind."""
        return {
            "stream": len(self.streams),
            "event": len(self.events),
            "library": len(self.libraries),
            "graph": len(self.graphs),
            "graph_exec": len(self.executables),
        }

    def remove_context(self, context: int) -> None:
        """Removes the objects that belong to a context."""
        tables: tuple[dict[int, Any], ...] = (self.streams, self.events, self.graphs, self.executables)
        for table in tables:
            for handle in [handle for handle, thing in table.items() if thing.context == context]:
                del table[handle]

    def stream(self, handle: int) -> Stream:
        """Returns a stream of the current context."""
        if handle == 0:
            raise Status(Result.INVALID_HANDLE, "the legacy stream is not used")
        return self._own(self.streams, handle, Result.INVALID_HANDLE, "stream")

    def own_event(self, handle: int) -> Event:
        """Returns an event of the current context."""
        return self._own(self.events, handle, Result.INVALID_HANDLE, "event")

    def event(self, handle: int) -> Event:
        """Returns an event."""
        return _find(self.events, handle, Result.INVALID_HANDLE, "event")

    def library(self, handle: int) -> Library:
        """Returns a library."""
        return _find(self.libraries, handle, Result.INVALID_HANDLE, "library")

    def kernel(self, handle: int) -> KernelCode:
        """Returns a kernel."""
        return _find(self.kernels, handle, Result.INVALID_HANDLE, "kernel")

    def graph(self, handle: int) -> Graph:
        """Returns a graph of the current context."""
        return self._own(self.graphs, handle, Result.INVALID_VALUE, "graph")

    def executable(self, handle: int) -> Executable:
        """Returns an executable graph of the current context."""
        return self._own(self.executables, handle, Result.INVALID_VALUE, "executable graph")

    def _own(self, table: Mapping[int, _Owned], handle: int, code: Result, kind: str) -> _Owned:
        """Returns the object behind a handle.  Raises ``Status`` if it does not belong to the current context."""
        owned = _find(table, handle, code, kind)
        if owned.context != self.context:
            raise Status(code, f"{kind} {handle:#x} belongs to another context")
        return owned


def _find(table: Mapping[int, _T], handle: int, code: Result, kind: str) -> _T:
    object_ = table.get(handle)
    if object_ is None:
        raise Status(code, f"{handle:#x} is no {kind}")
    return object_

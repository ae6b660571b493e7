"""Injected failures: the Nth call fails, the Nth operation faults on the device, a kernel does not end.

Counting starts at 1, when the plan is given to the driver.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final, Literal, TypeAlias, get_args

from vyre.adapters.cuda.seam import CudaDriver
from vyre.domain.errors import InvalidConfig, InvalidField
from vyre.domain.frozen import frozen
from vyre.domain.ir.foreign_names import nearest_of

FOREVER: Final = math.inf
RunName: TypeAlias = Literal[
    "launch", "graph_launch", "graph_upload", "memset8", "copy_to_device", "copy_to_host", "copy_on_device",
    "mem_alloc_async", "mem_free_async", "event_record", "wait_event",
]  # fmt: skip
"""An operation of a stream."""
_PREPARED: Final = {"prepare_launch": "launch", "prepare_graph_launch": "graph_launch"}
CALLS: Final = tuple(
    _PREPARED.get(name, name)
    for name in vars(CudaDriver)
    if name[0] != "_" and name not in ("name", "checks_races", "lock", "abandon")
)
"""Names of the calls of the seam; preparing a launch is none, but the launch is."""


@frozen(kw_only=True)
class Fault:
    """The ``nth`` call, or the ``nth`` call of ``method``, fails with ``code`` and does nothing.

    ``method`` is a name of the seam, ``launch`` or ``graph_launch``.  A sticky code also loses the current context.
    """

    code: int
    nth: int = 1
    method: str | None = None


@frozen(kw_only=True)
class SlowKernel:
    """The ``nth`` launch, or the ``nth`` launch of the entry ``kernel``, takes long.

    ``seconds`` pass in real time (``FOREVER``: until the driver's ``end_slow_kernels``), ``virtual_ns`` in the
    machine's time: a query adds the time of one call, a wait skips them.
    """

    nth: int = 1
    kernel: str | None = None
    seconds: float = 0.0
    virtual_ns: int = 0


@frozen(kw_only=True)
class FaultPlan:
    """Failures to inject.

    ``calls`` fail when they are called.  ``runs`` fail when the stream reaches them, as faults of the device do: the
    context is lost, whatever the code.  Raises ``InvalidConfig`` for a failure of what is never called, or never run.
    """

    calls: tuple[Fault, ...] = ()
    runs: tuple[Fault, ...] = ()
    slow: tuple[SlowKernel, ...] = ()

    def __post_init__(self) -> None:
        entries: tuple[Fault | SlowKernel, ...] = (*self.calls, *self.runs, *self.slow)
        for entry in entries:
            if not isinstance(entry.nth, int) or entry.nth < 1:
                raise InvalidField(record=type(entry).__name__, field="nth", value=entry.nth, expected="an int from 1")
        ways = (self.calls, CALLS, "call of the driver"), (self.runs, get_args(RunName), "operation of a stream")
        for faults, known, what in ways:
            for method in (fault.method for fault in faults if fault.method not in (None, *known)):
                raise InvalidConfig(f"`{method}` is no {what}", fix=f"write {nearest_of(str(method), known)}.")


NO_FAULTS: Final = FaultPlan()


class FaultInjector:
    """Counts calls, operations and launches, and finds the failure that the plan has for each."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan
        self._calls: Counter[str | None] = Counter()
        self._runs: Counter[str | None] = Counter()
        self._launches: Counter[str | None] = Counter()

    def call(self, method: str) -> int | None:
        """Returns the code with which this call fails, or None."""
        return _due(self._plan.calls, self._calls, method)

    def run(self, method: str) -> int | None:
        """Returns the code with which this operation faults, or None."""
        return _due(self._plan.runs, self._runs, method)

    def launch(self, kernel: str) -> SlowKernel | None:
        """Returns the plan's entry that makes this launch slow, or None."""
        count = self._launches
        count.update((None, kernel))
        return next((slow for slow in self._plan.slow if slow.nth == count[slow.kernel] and _names(slow, kernel)), None)


def _names(slow: SlowKernel, kernel: str) -> bool:
    return slow.kernel in (None, kernel)


def _due(faults: tuple[Fault, ...], count: Counter[str | None], method: str) -> int | None:
    count.update((None, method))
    return next((f.code for f in faults if f.method in (None, method) and f.nth == count[f.method]), None)

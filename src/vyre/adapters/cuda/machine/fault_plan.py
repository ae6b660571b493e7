"""Injected failures: the Nth call fails, the Nth operation faults on the device, a kernel does not end.

Counting starts at 1, when the plan is given to the driver.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import field
from typing import Final, Literal, TypeAlias, get_args

from vyre.domain.errors import InvalidConfig, InvalidField
from vyre.domain.frozen import frozen
from vyre.domain.ir.foreign_names import nearest_of

FOREVER: Final = math.inf
RunName: TypeAlias = Literal[
    "launch", "graph_launch", "graph_upload", "memset8", "copy_to_device", "copy_to_host", "copy_on_device",
    "mem_alloc_async", "mem_free_async", "event_record", "wait_event",
]  # fmt: skip
"""An operation of a stream."""
DriverCall: TypeAlias = Literal[
    "init", "driver_version", "device_count", "device_name", "device_uuid", "device_memory", "device_attribute",
    "primary_retain", "primary_release", "primary_reset", "context_create", "context_destroy", "set_current",
    "context_synchronize", "stream_create", "stream_destroy", "stream_synchronize", "stream_ready",
    "stream_wait_event", "event_create", "event_destroy", "event_record", "event_ready", "event_synchronize",
    "event_elapsed_ms", "memory_info", "pool_create", "pool_destroy", "pool_trim", "pool_use", "mem_alloc_async",
    "mem_free_async", "mem_alloc", "mem_free", "host_alloc", "host_device_address", "host_free", "copy_to_device",
    "copy_to_host", "copy_on_device", "memset8", "pointer_facts", "library_load", "library_unload", "library_kernel",
    "kernel_facts", "kernel_allow_dynamic_shared", "occupancy", "launch", "graph_create", "graph_destroy",
    "graph_add_copy_to_device", "graph_add_copy_to_host", "graph_add_memset8", "graph_add_kernel",
    "graph_add_event_record", "graph_condition", "graph_add_while", "graph_instantiate", "graph_upload",
    "graph_exec_destroy", "graph_update_kernel", "graph_launch",
]  # fmt: skip
"""A call of the seam; preparing a launch is none, but the launch is."""


@frozen(kw_only=True)
class Fault:
    """The ``nth`` call, or the ``nth`` call of ``method``, fails with ``code`` and does nothing.

    ``method`` is a ``DriverCall`` in ``calls`` of a plan, and a ``RunName`` in ``runs``.  A sticky code also loses the
    current context.
    """

    code: int
    nth: int = 1
    method: DriverCall | RunName | None = None


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

    ``assert_fired`` at the end of a test tells a failure that was waited for in vain from one that was handled.
    """

    calls: tuple[Fault, ...] = ()
    runs: tuple[Fault, ...] = ()
    slow: tuple[SlowKernel, ...] = ()
    fired: list[Fault | SlowKernel] = field(default_factory=list, init=False, compare=False, repr=False)
    """The failures that have happened since the plan was given to a driver, in order."""

    def __post_init__(self) -> None:
        for entry in self.entries:
            if not isinstance(entry.nth, int) or entry.nth < 1:
                raise InvalidField(record=type(entry).__name__, field="nth", value=entry.nth, expected="an int from 1")
        ways = (
            (self.calls, get_args(DriverCall), "call of the driver"),
            (self.runs, get_args(RunName), "operation of a stream"),
        )
        for faults, known, what in ways:
            for method in (fault.method for fault in faults if fault.method not in (None, *known)):
                raise InvalidConfig(f"`{method}` is no {what}", fix=f"write {nearest_of(str(method), known)}.")

    @property
    def entries(self) -> tuple[Fault | SlowKernel, ...]:
        """All failures of the plan."""
        return (*self.calls, *self.runs, *self.slow)

    def assert_fired(self) -> None:
        """Raises ``AssertionError``, which names them, if failures of the plan have not happened."""
        missing = [entry for entry in self.entries if not any(entry is each for each in self.fired)]
        if missing:
            raise AssertionError(f"never happened: {', '.join(map(str, missing))}; fired: {self.fired}")


NO_FAULTS: Final = FaultPlan()


class FaultInjector:
    """Counts calls, operations and launches, and finds the failure that the plan has for each."""

    def __init__(self, plan: FaultPlan) -> None:
        plan.fired.clear()
        self._plan = plan
        self._calls: Counter[str | None] = Counter()
        self._runs: Counter[str | None] = Counter()
        self._launches: Counter[str | None] = Counter()

    def call(self, method: str) -> int | None:
        """Returns the code with which this call fails, or None."""
        return self._code(self._plan.calls, self._calls, method)

    def run(self, method: str) -> int | None:
        """Returns the code with which this operation faults, or None."""
        return self._code(self._plan.runs, self._runs, method)

    def launch(self, kernel: str) -> SlowKernel | None:
        """Returns the plan's entry that makes this launch slow, or None."""
        count = self._launches
        count.update((None, kernel))
        for slow in self._plan.slow:
            if slow.kernel in (None, kernel) and slow.nth == count[slow.kernel]:
                self._plan.fired.append(slow)
                return slow
        return None

    def _code(self, faults: tuple[Fault, ...], count: Counter[str | None], method: str) -> int | None:
        count.update((None, method))
        for fault in faults:
            if fault.method in (None, method) and fault.nth == count[fault.method]:
                self._plan.fired.append(fault)
                return fault.code
        return None

"""A kernel that takes as long as it is told to, and batches of it in every mode that is measured."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Final

import numpy as np

from gpu_runs.bench import programs
from gpu_runs.bench.predictions import Shape
from gpu_runs.workbench import Workbench
from vyre.adapters.cuda.runtime.graphs import Chain, RecordedGraph
from vyre.adapters.cuda.runtime.loaded import LoadedModule
from vyre.policies.launching.execution_prices import ExecutionMode

SALTS: Final = (1, 2)
"""Values that the parameter changes between."""
CHAINS: Final = (8, 40)
"""Launches in a row: what more of them take longer is the time of those."""
_BYTES: Final = 4


class Spinning:
    """Launches of ``programs.spin`` with so many ``loops``.  Counts them, so that their result can be checked."""

    def __init__(self, bench: Workbench, module: LoadedModule, loops: int) -> None:
        self.bench: Final = bench
        self.loops: Final = loops
        self._sums = bench.upload(np.zeros(programs.SPIN_LANES, np.uint32))
        addresses, counts = (0, 0, self._sums), (1, 1, programs.SPIN_LANES)
        salts = [salt.to_bytes(_BYTES, "little") for salt in SALTS]
        values = {"loops": loops.to_bytes(_BYTES, "little"), "salt": salts[-1]}
        self.launch: Final = bench.prepare(programs.spin(), module, (1, 1, 1), addresses, counts, values)
        (kernel,) = self.launch.kernels
        self.kernel: Final = kernel
        (self._salt,) = (place for place, position in kernel.values if position == 1)
        self._next_salt = cycle(salts).__next__
        self._launched = dict.fromkeys(SALTS, 0)

    def change(self) -> None:
        """Give the parameter its other value."""
        self._salt[:] = self._next_salt()

    def submit(self, launches: int) -> None:
        launch = self.launch
        for _ in range(launches):
            launch()

    # ---- time
    def device_ns(self, launches: int) -> int:
        """Of so many launches in a row, as events tell it."""
        found = self.bench.device_ms(lambda: self.submit(launches))
        self.ran(Shape(launches, 1, 0, recorded=True))
        return round(found * 1e6)

    def chained_ns(self, busy: Callable[[], object]) -> int:
        """Device time of a launch and the gap after it, in a row that is submitted while what ``busy`` submits runs."""
        times = []
        for launches in CHAINS:
            busy()
            times.append(self.device_ns(launches))
        (few, many), (less, more) = CHAINS, times
        return (more - less) // (many - few)

    # ---- result
    def ran(self, shape: Shape) -> None:
        """Count a batch that has just run."""
        salt, other = int.from_bytes(self._salt, "little"), sum(SALTS)
        for _ in range(shape.runs):  # the last first
            self._launched[salt] += shape.nodes
            salt = other - salt if shape.changed else salt

    def is_right(self) -> bool:
        """Whether all that was counted ran, with the parameters that it had."""
        wanted = sum(
            (programs.spun(self.loops, salt) * np.uint32(count % 2**32) for salt, count in self._launched.items()),
            start=np.zeros(programs.SPIN_LANES, np.uint32),
        )
        return np.array_equal(self.bench.download(self._sums, programs.SPIN_LANES, np.uint32), wanted)


class Batches:
    """Batches of one shape in either mode, each with the wait for its end.

    ``settle`` after each.  A graph is recorded by the first batch that needs one; unless the shape is ``recorded``,
    that is every one.  ``graph``: the one that was recorded last, until it is released.
    """

    def __init__(self, kernel: Spinning, shape: Shape) -> None:
        self._kernel, self._bench, self._shape = kernel, kernel.bench, shape
        self.graph: RecordedGraph | None = None
        self.ways: Final[dict[ExecutionMode, Callable[[], None]]] = {
            ExecutionMode.PLAIN: self.launched,
            ExecutionMode.GRAPH: self.replayed,
        }

    def launched(self) -> None:
        kernel, shape = self._kernel, self._shape
        if shape.changed:
            for _ in range(shape.runs):
                kernel.change()
                kernel.submit(shape.nodes)
        else:
            kernel.submit(shape.launches)
        self._bench.wait()

    def replayed(self) -> None:
        graph = self.graph
        if graph is None:
            graph = self.graph = RecordedGraph(self._bench.device, self._record, self._bench.stream)
        replay, change, changed = graph.launch, self._kernel.change, self._shape.changed
        for _ in range(self._shape.runs):
            if changed:
                change()
                graph.update(0, changed)
            replay()
        self._bench.wait()

    def _record(self, chain: Chain) -> None:
        """As dispatches record it, between two events."""
        started, ended = self._bench.events
        chain.mark(started)
        for _ in range(self._shape.nodes):
            chain.kernel(self._kernel.kernel)
        chain.mark(ended)

    def settle(self) -> None:
        """Count what ran, and forget what the next batch has to record again."""
        self._kernel.ran(self._shape)
        if not self._shape.recorded:
            self.release()

    def release(self) -> None:
        if self.graph is not None:
            self.graph.release()
            self.graph = None

"""Rounds that a graph repeats by itself: the graphs of one slot, each for certain launches, a flag and a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.runtime.chunks import Piece
from vyre.adapters.cuda.runtime.conditions import ROUNDS_BYTES
from vyre.adapters.cuda.runtime.graphs import Chain, RecordedGraph
from vyre.adapters.cuda.seam import Condition, CudaCallError, DeviceAddress, Stream

if TYPE_CHECKING:
    from vyre.adapters.cuda.runtime.memory import DeviceBlock
    from vyre.adapters.cuda.runtime.resident_launch import Prepared, StepLaunch
    from vyre.adapters.cuda.runtime.slot import Resources

LOOPS: Final = 8
"""The loops that a slot keeps."""
_Key: TypeAlias = "tuple[tuple[StepLaunch, ...], DeviceAddress, int, tuple[bytes, ...]]"


class _Loop(NamedTuple):
    number: int
    record: DeviceBlock


class LoopRun:
    """A loop that is about to run: ``launch`` enqueues it, and ``status`` is what to read when it has ended."""

    __slots__ = ("_graph", "_resources", "kernels", "status")

    def __init__(self, resources: Resources, graph: RecordedGraph, record: DeviceAddress, kernels: int) -> None:
        self._resources = resources
        self._graph = graph
        self.kernels: Final = kernels
        self.status: Final = Piece(memoryview(bytearray(ROUNDS_BYTES)), record)

    def launch(self) -> None:
        """Enqueues the loop.  Raises ``CudaCallError``."""
        self._graph.launch()
        self._resources.device.counters.graph_launches += 1

    def ended(self) -> tuple[int, bool]:
        """Returns the rounds that ran and whether the last left the flag at 0; ``status`` has been read."""
        words = self.status.host.cast("I")
        rounds = words[0]
        self._resources.device.counters.graph_kernels += rounds * (self.kernels + 1)
        return rounds, words[1] == 0


class SlotLoops:
    """The loops of one slot.  Call its methods inside ``device.calls``."""

    __slots__ = ("_loops", "_resources", "_stream")

    def __init__(self, resources: Resources, stream: Stream) -> None:
        self._resources = resources
        self._stream = stream
        self._loops: Final[OrderedDict[_Key, _Loop]] = OrderedDict()

    def ready(
        self,
        part: Sequence[Prepared],
        record: Callable[[Sequence[Prepared], Chain], object],
        flag: DeviceAddress,
        limit: int,
    ) -> LoopRun | None:
        """Returns the loop of these launches; ``record`` adds one round to a graph.

        None where the driver refuses it, now and from then on.  Raises ``CudaCallError`` if the device is lost.
        """
        resources = self._resources
        conditions = resources.conditions
        if not conditions.available:
            return None
        key = (tuple(launch for launch, _ in part), flag, limit, _values(part))
        loop = self._loops.get(key)
        graph = None if loop is None else resources.graphs.get(loop.number)
        if loop is None:
            block = resources.memory.allocate(ROUNDS_BYTES, self._stream)
            loop = self._loops[key] = _Loop(resources.graphs.number(), block)
            while len(self._loops) > LOOPS:
                self._free(self._loops.popitem(last=False)[1])
        self._loops.move_to_end(key)
        if graph is None:
            whole = partial(self._record, part, record, flag, limit, loop.record.address)
            try:
                graph = resources.graphs.record(loop.number, whole, self._stream)
            except CudaCallError as error:
                if is_sticky(error.code):
                    raise
                self._free(self._loops.pop(key))
                conditions.refuse()
                resources.device.counters.graph_fallbacks += 1
                return None
        return LoopRun(resources, graph, loop.record.address, sum(launch.kernels for launch, _ in part))

    def drop(self, launch: StepLaunch) -> None:
        """Forgets the loops that contain a launch."""
        for key in [key for key in self._loops if launch in key[0]]:
            self._free(self._loops.pop(key))

    def release(self) -> None:
        """Forgets every loop; none of them runs."""
        while self._loops:
            self._free(self._loops.popitem()[1])

    def _free(self, loop: _Loop) -> None:
        self._resources.graphs.drop(loop.number)
        self._resources.memory.free(loop.record, self._stream)

    def _record(
        self,
        part: Sequence[Prepared],
        record: Callable[[Sequence[Prepared], Chain], object],
        flag: DeviceAddress,
        limit: int,
        counted: DeviceAddress,
        chain: Chain,
    ) -> None:
        def body(inner: Chain, condition: Condition) -> None:
            record(part, inner)
            self._resources.conditions.end_round(inner, condition, counted, flag, limit)

        chain.zero(counted, ROUNDS_BYTES)
        chain.zero(flag, 4)
        chain.repeat(body)


def _values(part: Sequence[Prepared]) -> tuple[bytes, ...]:
    """Returns the parameters that the launches of a round have now."""
    return tuple(packed for launch, step in part if launch.has_values for packed in launch.packed(step))

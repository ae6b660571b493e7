"""Lanes for dispatches on host memory: each has the prepared resources of one dispatch of a shape.

Such a lane owns a stream, an arena, its pinned mirror and the launches bound to them.  In the steady state a dispatch
copies bytes into pinned memory, enqueues a copy, a memset, the launches and a copy back, waits, and copies bytes out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, cycle
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from vyre.adapters.cuda.runtime.arena import Arena, plan_arena
from vyre.adapters.cuda.runtime.device import MIB, DeviceMember, release_all
from vyre.adapters.cuda.runtime.graphs import Chain, RecordedGraph
from vyre.adapters.cuda.runtime.lane import Lane, Resources, Track
from vyre.adapters.cuda.runtime.launch import (
    PreparedLaunch,
    ScratchAddresses,
    first_trap,
    pack_table,
    plan_scratch,
)
from vyre.adapters.cuda.runtime.memory import NO_BLOCK, DeviceBlock
from vyre.adapters.cuda.runtime.modules import LoadedModule
from vyre.adapters.cuda.runtime.transfer import MirroredTransfer, Transfer, make_transfer
from vyre.adapters.cuda.seam import CudaCallError
from vyre.adapters.kernel_plan import KernelPlan
from vyre.adapters.replay_decision import Work
from vyre.domain.binding import BindingPlan
from vyre.domain.errors import BackendError
from vyre.domain.launch import Launch

if TYPE_CHECKING:
    from vyre.adapters.cuda.ptx.kernel import EmittedKernel

GRAPH_BYTES: Final = 4 * MIB
"""Host bytes beyond which the time of copying exceeds the time that a graph saves."""


class LaneSpec(NamedTuple):
    """The purpose of a lane: one module on one launch geometry.

    ``iterations`` is the number of times that all kernels run; ``title`` names the lane in its decisions.  ``order``
    tells the order of so many kernels if grid loops repeat some of them; None where kernels come from a bundle.
    """

    title: str
    plan: BindingPlan
    launch: Launch
    iterations: int
    cooperative: bool
    race_check: bool = False
    order: Callable[[int], KernelPlan | None] | None = None

    def steps(self, module: LoadedModule) -> KernelPlan | None:
        """Returns the order of the kernels of a module if grid loops repeat some of them."""
        return None if self.order is None else self.order(len(module.kernels))


class DispatchPlan(NamedTuple):
    """The operations and the memory of a dispatch of a shape, before any of it is made.

    ``work`` counts the operations that it enqueues, whether by a graph or call by call.  ``apart``: its kernels are
    launched one by one, with a check for a trap, or for another round of a grid loop, in between.
    """

    arena: Arena
    work: Work
    apart: bool

    @property
    def recordable(self) -> bool:
        """Whether every dispatch enqueues the same operations, and copies few enough bytes for a graph."""
        return self.arena.mirror_nbytes <= GRAPH_BYTES and not self.apart


def plan_dispatch(module: LoadedModule, spec: LaneSpec) -> DispatchPlan:
    """Returns the plan of a dispatch of ``module`` as ``spec`` describes it."""
    polled = spec.steps(module) is not None
    scratch, kernels = plan_scratch(module, polled=polled), spec.iterations * len(module.kernels)
    arena = plan_arena(
        spec.plan,
        spec.launch,
        carried_as_parameters(spec.plan, [kernel.emitted for kernel in module.kernels]),
        table=scratch.table,
        traps=scratch.looked_at,
        scratch=scratch.zeroed,
    )
    copies = (arena.upload.nbytes > 0) + (arena.zero.nbytes > 0) + len(arena.reads)
    apart = polled or (scratch.can_trap and kernels > 1)
    return DispatchPlan(arena, Work(spec.title, kernels + copies, kernels), apart)


_Dispatch: TypeAlias = "tuple[Sequence[memoryview], int | None]"
"""The inputs of a dispatch, and its deadline in ns."""


class HostLane(Lane[_Dispatch]):
    """Runs one dispatch at a time, from one thread.  Its methods also raise ``TrapError``."""

    __slots__ = (
        "_apart",
        "_arena",
        "_block",
        "_iterations",
        "_launch",
        "_track",
        "_transfer",
        "_values",
        "_zero",
        "active",
        "home",
        "module",
        "used",
    )

    def __init__(self, resources: Resources, module: LoadedModule, spec: LaneSpec, home: list[HostLane]) -> None:
        """Keeps a reference to ``module``.  ``home`` is the list in which idle lanes of this kind are kept."""
        device, plan, launch = resources.device, spec.plan, spec.launch
        self._iterations = spec.iterations
        self.module: Final = module
        self.home: Final = home
        self.active: bool = False
        self.used: int = 0
        planned = plan_dispatch(module, spec)
        self._arena: Final = planned.arena
        arena = self._arena
        undo: list[Callable[[], None]] = []
        try:
            super().__init__(resources)
            stream = self.lease.stream
            undo.append(partial(resources.streams.give_back, self.lease))
            self._block: DeviceBlock = resources.memory.allocate(arena.nbytes, stream)
            undo.insert(0, partial(resources.memory.free, self._block, stream))
            base = self._block.address
            addresses = [0 if offset is None else base + offset for offset in arena.offsets]
            table = pack_table(plan, addresses, launch.counts) if arena.table.nbytes else b""
            self._transfer: Transfer = make_transfer(device, resources.pinned, arena, base, table, stream)
            undo.insert(0, partial(self._transfer.release, idle=True))
            self._launch = PreparedLaunch(
                device,
                module,
                plan,
                launch.grid,
                stream,
                cooperative=spec.cooperative,
                race_check=spec.race_check,
                sink=resources.decisions,
                steps=spec.steps(module),
            )
        except CudaCallError as error:
            device.roll_back(error, undo)
            raise
        except BaseException:
            release_all(undo)
            raise
        looked_at = base + arena.traps.start
        control = looked_at + self._launch.scratch.records if self._launch.steps is not None else None
        self._launch.bind(
            addresses,
            launch.counts,
            ScratchAddresses(base + arena.table.start, base + arena.zeroed_scratch, looked_at, control),
        )
        sources = [binding.input_index for binding in plan.bindings]
        self._values = tuple(
            (place, sources[position] or 0) for kernel in self._launch.kernels for place, position in kernel.values
        )
        zero = arena.zero
        self._zero = partial(device.driver.memset8, base + zero.start, 0, zero.nbytes, stream) if zero.nbytes else None

        self._apart: Final = planned.apart
        self._track: Final = Track(resources, planned.work if planned.recordable else None)

    @property
    def nbytes(self) -> int:
        """Returns the bytes of device memory that the lane holds."""
        return self._block.capacity

    def start(self, inputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        """Enqueues the dispatch; ``inputs`` have been read when this returns."""
        for place, index in self._values:
            place[:] = inputs[index]
        replayed = self._run(self._track, (inputs, deadline_ns))
        if replayed:
            self._mirror().count()
            self.launches = 0
        self._device.driver.event_record(self.lease.done, self.lease.stream)
        if not replayed and self._launch.steps is None:
            self._device.counters.kernel_launches += self._iterations * len(self._launch)

    def _enqueue(self, part: _Dispatch, rounds: int) -> None:
        """Implements ``Lane._enqueue`` for the only round of a dispatch."""
        driver, (stream, started, ended, _) = self._device.driver, self.lease
        self._transfer.upload(*part)
        if self._zero is not None:
            self._zero()
        driver.event_record(started, stream)
        if self._launch.steps is not None:
            self._device.counters.kernel_launches += self._launch_rounds(part[1])
        elif self._apart:
            self._launch_apart(part[1])
        else:
            for _ in range(self._iterations):
                self._launch()
            self.launches = self._iterations * len(self._launch)
        driver.event_record(ended, stream)
        self._transfer.request()

    def _prepare(self, part: _Dispatch) -> None:
        """Implements ``Lane._prepare``."""
        self._mirror().stage(part[0])

    def _record(self, part: _Dispatch, chain: Chain) -> None:
        """Implements ``Lane._record``."""
        mirror, zero = self._mirror(), self._arena.zero
        if mirror.copies.upload is not None:
            chain.upload(mirror.copies.upload)
        if zero.nbytes:
            chain.zero(self._block.address + zero.start, zero.nbytes)
        chain.mark(self.lease.started)
        for kernel in self._launch.kernels * self._iterations:
            chain.kernel(kernel)
        chain.mark(self.lease.ended)
        for read in mirror.copies.reads:
            chain.download(read)

    def _refresh(self, part: _Dispatch, graph: RecordedGraph) -> int:
        """Implements ``Lane._refresh``; ``start`` has packed the values."""
        return graph.update() if self._values else 0

    def _mirror(self) -> MirroredTransfer:
        """Returns the transfer of a lane that may be recorded."""
        mirror = self._transfer.recordable()
        assert mirror is not None
        return mirror

    def done(self) -> bool:
        """Returns whether all work enqueued by ``start`` has ended."""
        return self._device.driver.event_ready(self.lease.done)

    def finish(self, outputs: Sequence[memoryview], deadline_ns: int | None) -> int:
        """Waits, raises the trap if there is one, and fills ``outputs``; returns the kernels' time on the
        device in ns.
        """
        self.wait(deadline_ns)
        self.end()
        if self._launch.scratch.can_trap:
            self._raise_trap()
        self._transfer.collect(outputs, deadline_ns)
        return self.device_ns()

    def took(self, device_ns: int, wall_ns: int | None) -> None:
        """Records the time of the dispatch that has just ended, on the device and in all.

        ``wall_ns`` is None if the caller did other work in between.
        """
        if self._track.decision is not None:
            self._track.decision.took(device_ns, wall_ns)

    def release(self, *, idle: bool) -> None:
        """Implements ``Lane.release``."""
        resources, stream = self._resources, self.lease.stream
        block, self._block = self._block, NO_BLOCK
        self._track.release()
        release_all(
            (
                partial(self._transfer.release, idle=idle),
                partial(resources.memory.give_back if idle else resources.memory.free, block, stream),
                partial(resources.streams.give_back if idle else resources.streams.free, self.lease),
            )
        )

    def _launch_apart(self, deadline_ns: int | None) -> None:
        """Launches kernel by kernel and checks for a trap in between, so that no kernel runs after one.

        A later kernel might not even end if only half of its data had been computed.
        """
        left = self._iterations * len(self._launch)
        for launch in cycle(self._launch.launchers):
            launch()
            left -= 1
            if not left:
                return
            self._look(deadline_ns)

    def _launch_rounds(self, deadline_ns: int | None) -> int:
        """Launches the kernels of a program with grid loops, and looks after each round whether another one follows;
        returns the number of launches.
        """
        checked = self._launch.scratch.can_trap
        look = partial(self._look, deadline_ns)
        return sum(self._launch.run_rounds(look, checked=checked) for _ in range(self._iterations))

    def _look(self, deadline_ns: int | None) -> memoryview:
        """Waits for the launches, raises their trap if there is one, and returns what is looked at between kernels."""
        self._transfer.request_traps()
        self._device.driver.event_record(self.lease.done, self.lease.stream)
        self.wait(deadline_ns)
        if self._launch.scratch.can_trap:
            self._raise_trap()
        return self._transfer.traps()

    def _raise_trap(self) -> None:
        trap = first_trap(self._transfer.traps(), self._launch.kernels)
        if trap is not None:
            self._device.counters.trap_count += 1
            raise trap


def carried_as_parameters(plan: BindingPlan, kernels: Sequence[EmittedKernel]) -> frozenset[int]:
    """Returns the positions of bindings that need no memory: scalars, and uniforms that every kernel takes inline."""
    inlined = [{p.binding for p in kernel.parameters if p.kind.value == "uniform"} for kernel in kernels]
    return frozenset(
        position
        for position, binding in enumerate(plan.bindings)
        if binding.buffer.is_push or all(binding.buffer.binding in names for names in inlined)
    )


class LanePool(DeviceMember):
    """All lanes of a device.  Idle lanes are kept within the limits of the options; the least recently used are
    evicted.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._device = resources.device
        options = resources.device.options
        self._limit, self._most = options.cached_device_bytes, options.lanes
        self._lanes: dict[HostLane, None] = {}
        self._bytes = 0
        self._ticks = count(1)
        self._lock = threading.Lock()
        resources.memory.on_shortage(resources.quarantine.reap)
        resources.memory.on_shortage(self.release_idle)
        resources.device.add(self)

    def __len__(self) -> int:
        return len(self._lanes)

    def make(self, module: LoadedModule, spec: LaneSpec, home: list[HostLane]) -> HostLane:
        """Returns a new lane, in use.  Call it inside ``device.calls``."""
        self._resources.quarantine.reap()
        lane = HostLane(self._resources, module, spec, home)
        with self._lock:
            self._lanes[lane] = None
            self._bytes += lane.nbytes
        return lane

    def put(self, lane: HostLane) -> None:
        """Keeps ``lane``, which is idle, for the next dispatch."""
        if lane.epoch != self._device.epoch:
            return
        lane.used = next(self._ticks)
        lane.home.append(lane)
        if self._bytes > self._limit or len(self._lanes) > self._most:
            self._shrink()

    def drop(self, lane: HostLane, reason: BaseException) -> None:
        """Removes ``lane`` after a failure: frees it if it is idle, or puts it into quarantine if it may still be
        running.
        """
        device, quarantine = self._device, self._resources.quarantine
        if not device.reachable:  # closing the device releases the lane
            return
        self._forget_lane(lane)
        if lane.epoch != device.epoch:
            return
        release, stream = partial(lane.release, idle=False), lane.lease.stream
        held = False
        try:
            with device.calls:
                if device.driver.stream_ready(stream):
                    held = True
                    release()
        except BackendError as error:
            reason.add_note(f"giving back its memory failed too: {error}")
        if not held and device.reachable:
            quarantine.hold(stream, release)

    def release_idle(self) -> None:
        """Releases every idle lane.  Call it inside ``device.calls``."""
        with self._lock:
            lanes = list(self._lanes)
        release_all([partial(lane.release, idle=True) for lane in lanes if self._take(lane)])

    # ---- as a member of the device
    def settled(self) -> bool:
        """Returns whether no lane is being used by a thread."""
        return not any(lane.active for lane in tuple(self._lanes))

    def release(self) -> None:
        """Releases every lane."""
        with self._lock:
            lanes = list(self._lanes)
        self.forget()
        release_all([partial(lane.release, idle=False) for lane in lanes])

    def forget(self) -> None:
        """Drops every lane without a driver call."""
        with self._lock:
            for lane in self._lanes:
                lane.home.clear()
            self._lanes.clear()
            self._bytes = 0

    def _shrink(self) -> None:
        with self._lock:
            lanes = sorted(self._lanes, key=lambda lane: lane.used)
        for lane in lanes:
            if self._bytes <= self._limit and len(self._lanes) <= self._most:
                return
            if self._take(lane):
                with self._device.calls:
                    lane.release(idle=True)

    def _take(self, lane: HostLane) -> bool:
        """Removes ``lane`` from the pool if it is idle; returns whether it was."""
        try:
            lane.home.remove(lane)
        except ValueError:
            return False
        self._forget_lane(lane)
        return True

    def _forget_lane(self, lane: HostLane) -> None:
        with self._lock:
            if lane in self._lanes:
                del self._lanes[lane]
                self._bytes -= lane.nbytes

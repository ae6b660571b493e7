"""Slots for dispatches on host memory: each has the prepared resources of one dispatch of a shape.

Such a slot owns a stream, an arena, its pinned mirror and the launches bound to them.  In the steady state a dispatch
copies bytes into pinned memory, enqueues a copy, a memset, the launches and a copy back, waits, and copies bytes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, cycle
from math import prod
from typing import Final, NamedTuple, TypeAlias
from weakref import ref

from vyre.adapters.cuda.ptx.kernel import EmittedKernel
from vyre.adapters.cuda.runtime.arena import Arena, plan_arena
from vyre.adapters.cuda.runtime.device import MIB, DeviceMember, release_all
from vyre.adapters.cuda.runtime.graphs import Chain, RecordedGraph
from vyre.adapters.cuda.runtime.launch import PreparedLaunch, ScratchAddresses, first_trap, pack_table, plan_scratch
from vyre.adapters.cuda.runtime.loaded import LoadedModule
from vyre.adapters.cuda.runtime.memory import NO_BLOCK, DeviceBlock
from vyre.adapters.cuda.runtime.slot import Resources, Slot, Track
from vyre.adapters.cuda.runtime.transfer import MirroredTransfer, Transfer, make_transfer
from vyre.adapters.cuda.runtime.waiting import DeadlinePassed
from vyre.adapters.cuda.seam import CudaCallError
from vyre.adapters.forks import process_lock
from vyre.adapters.kernel_plan import KernelPlan
from vyre.adapters.replay_decision import Work
from vyre.domain.binding import BindingPlan
from vyre.domain.errors import BackendError
from vyre.domain.launch import Launch
from vyre.ports.interrupts import undisturbed

GRAPH_BYTES: Final = 4 * MIB
"""Host bytes beyond which the time of copying exceeds the time that a graph saves."""


class SlotSpec(NamedTuple):
    """The purpose of a slot: one module on one launch geometry.

    ``iterations`` is the number of times that all kernels run; ``title`` names the slot in its decisions.  ``order``
    tells the order of so many kernels if grid loops repeat some of them.
    """

    title: str
    plan: BindingPlan
    launch: Launch
    iterations: int
    cooperative: bool
    race_check: bool
    order: Callable[[int], KernelPlan | None]

    def steps(self, module: LoadedModule) -> KernelPlan | None:
        """Returns the order of the kernels of a module if grid loops repeat some of them."""
        return self.order(len(module.kernels))


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
        """Whether every dispatch enqueues the same operations, of which there are some, and few enough bytes."""
        return self.arena.mirror_nbytes <= GRAPH_BYTES and not self.apart and self.work.operations > 0


def plan_dispatch(module: LoadedModule, spec: SlotSpec) -> DispatchPlan:
    """Returns the plan of a dispatch of ``module`` as ``spec`` describes it."""
    polled = spec.steps(module) is not None
    scratch = plan_scratch(module, polled=polled)
    kernels = spec.iterations * len(module.kernels) if prod(spec.launch.grid) else 0
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


class HostSlot(Slot[_Dispatch]):
    """Runs one dispatch at a time, from one thread.  Its methods also raise ``TrapError``."""

    __slots__ = (
        "__weakref__",
        "_apart",
        "_arena",
        "_base",
        "_iterations",
        "_launch",
        "_track",
        "_transfer",
        "_values",
        "_zero",
        "active",
        "held",
        "home",
        "module",
        "used",
    )

    def __init__(self, resources: Resources, module: LoadedModule, spec: SlotSpec, home: list[HostSlot]) -> None:
        """Keeps a reference to ``module``.  ``home`` is the list in which idle slots of this kind are kept."""
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
            block = resources.memory.allocate(arena.nbytes, stream)
            undo.insert(0, partial(resources.memory.free, block, stream))
            self._base, base = block.address, block.address
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
        self.held: Final = _Held(self, block)

    def start(self, inputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        """Enqueues the dispatch; ``inputs`` have been read when this returns."""
        for place, index in self._values:
            place[:] = inputs[index]
        replayed = self._run(self._track, (inputs, deadline_ns))
        if replayed:
            self._mirror().count()
            self.launches: int | None = 0
        self._device.driver.event_record(self.lease.done, self.lease.stream)
        if not replayed and self._launch.steps is None:
            self._device.counters.kernel_launches += self._iterations * len(self._launch)

    def _enqueue(self, part: _Dispatch, rounds: int) -> None:
        """Implements ``Slot._enqueue`` for the only round of a dispatch."""
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
        """Implements ``Slot._prepare``."""
        self._mirror().stage(part[0])

    def _record(self, part: _Dispatch, chain: Chain) -> None:
        """Implements ``Slot._record``."""
        mirror, zero = self._mirror(), self._arena.zero
        if mirror.copies.upload is not None:
            chain.upload(mirror.copies.upload)
        if zero.nbytes:
            chain.zero(self._base + zero.start, zero.nbytes)
        chain.mark(self.lease.started)
        for kernel in self._launch.kernels * self._iterations:
            chain.kernel(kernel)
        chain.mark(self.lease.ended)
        for read in mirror.copies.reads:
            chain.download(read)

    def _refresh(self, part: _Dispatch, graph: RecordedGraph) -> int:
        """Implements ``Slot._refresh``; ``start`` has packed the values."""
        return graph.update() if self._values else 0

    def _mirror(self) -> MirroredTransfer:
        """Returns the transfer of a slot that may be recorded."""
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
        """Implements ``Slot.release``."""
        self.held.release(idle=idle)

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
            self._device.counters.traps += 1
            raise trap


class _Held:
    """The device memory and handles of a slot, which outlive a slot that is lost."""

    __slots__ = ("_block", "_module", "_resources", "_track", "_transfer", "epoch", "lease", "nbytes")

    def __init__(self, slot: HostSlot, block: DeviceBlock) -> None:
        self._resources = slot._resources
        self.lease: Final = slot.lease
        self.epoch: Final = slot.epoch
        self.nbytes: Final = block.capacity
        self._block, self._transfer, self._track = block, slot._transfer, slot._track
        self._module: LoadedModule | None = slot.module  # which must not be unloaded while it runs

    def release(self, *, idle: bool) -> None:
        """Implements ``Slot.release``."""
        resources, lease = self._resources, self.lease
        block, self._block, self._module = self._block, NO_BLOCK, None
        self._track.release()
        release_all(
            (
                partial(self._transfer.release, idle=idle),
                partial(resources.memory.give_back if idle else resources.memory.free, block, lease.stream),
                partial(resources.streams.give_back if idle else resources.streams.free, lease),
            )
        )


class _Watch(ref[HostSlot]):
    """Notices when a slot is lost: nobody refers to it any more, in the midst of whatever it was used for.

    The callback of a weak reference gets the reference; here it is ``CudaDevice.discard``, which is not written in
    Python, so that no signal handler can interrupt it.
    """

    __slots__ = ("held", "pool")
    held: _Held
    pool: SlotPool

    def __call__(self) -> None:
        """Sets aside what the slot holds, once the device is entered."""
        self.pool.lost(self)

    def slot(self) -> HostSlot | None:
        """Returns the slot, None if it is lost."""
        return super().__call__()


def carried_as_parameters(plan: BindingPlan, kernels: Sequence[EmittedKernel]) -> frozenset[int]:
    """Returns the positions of bindings that need no memory: scalars, and uniforms that every kernel takes inline."""
    inlined = [{p.binding for p in kernel.parameters if p.kind.value == "uniform"} for kernel in kernels]
    return frozenset(
        position
        for position, binding in enumerate(plan.bindings)
        if binding.buffer.is_push or all(binding.buffer.binding in names for names in inlined)
    )


class SlotPool(DeviceMember):
    """All slots of a device.  Idle slots are kept within the limits of the options; the least recently used are
    evicted.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._device = resources.device
        options = resources.device.options
        self._limit, self._most = options.cached_device_bytes, options.slots
        self._slots: dict[_Held, _Watch] = {}
        self._bytes = 0
        self._ticks = count(1)
        self._lock = process_lock()
        resources.memory.on_shortage(resources.quarantine.reap)
        resources.memory.on_shortage(self.release_idle)
        resources.device.add(self)

    def __len__(self) -> int:
        return len(self._slots)

    def make(self, module: LoadedModule, spec: SlotSpec, home: list[HostSlot]) -> HostSlot:
        """Returns a new slot, in use.  Call it inside ``device.calls``."""
        self._resources.quarantine.reap()
        slot = HostSlot(self._resources, module, spec, home)
        watch = _Watch(slot, self._device.discard)
        watch.held, watch.pool = slot.held, self
        with self._lock:
            self._slots[slot.held] = watch
            self._bytes += slot.held.nbytes
        return slot

    def put(self, slot: HostSlot) -> None:
        """Keeps ``slot``, which is idle, for the next dispatch."""
        self.home_of(slot)[:0] = (slot,)
        self.trim()

    def home_of(self, slot: HostSlot) -> list[HostSlot]:
        """Returns the list in which ``slot`` is kept for the next dispatch; a slot of an earlier epoch is not."""
        slot.used = next(self._ticks)
        return slot.home if slot.epoch == self._device.epoch else []

    def trim(self) -> None:
        """Releases idle slots while there are too many."""
        if self._bytes > self._limit or len(self._slots) > self._most:
            undisturbed(self._shrink)

    def lost(self, watch: _Watch) -> None:
        """Sets aside what a lost slot holds, until its stream is idle."""
        slot = watch.held
        if self._forget_slot(slot) and slot.epoch == self._device.epoch:
            self._device.driver.abandon(slot.lease.stream)
            self._resources.quarantine.hold(slot.lease.stream, partial(slot.release, idle=False))

    def drop(self, slot: HostSlot, reason: BaseException) -> None:
        """Removes ``slot`` after a failure: frees it if it is idle, or puts it into quarantine if it may still be
        running.
        """
        device, quarantine = self._device, self._resources.quarantine
        if not device.reachable:  # closing the device releases the slot
            return
        if not self._forget_slot(slot.held) or slot.epoch != device.epoch:
            return
        release, stream = partial(slot.release, idle=False), slot.lease.stream
        is_held = False
        if not isinstance(reason, DeadlinePassed):
            device.driver.abandon(stream)
        try:
            with device.calls:
                if device.driver.stream_ready(stream):
                    is_held = True
                    release()
        except BackendError as error:
            reason.add_note(f"giving back its memory failed too: {error}")
        if not is_held and device.reachable:
            quarantine.hold(stream, release)

    def release_idle(self) -> None:
        """Releases every idle slot.  Call it inside ``device.calls``."""
        release_all([partial(slot.release, idle=True) for slot in self._alive() if self._take(slot)])

    # ---- as a member of the device
    def settled(self) -> bool:
        """Returns whether no slot is being used by a thread."""
        return not any(slot.active for slot in self._alive())

    def release(self) -> None:
        """Releases every slot."""
        with self._lock:
            slots = list(self._slots)
        self.forget()
        release_all([partial(slot.release, idle=False) for slot in slots])

    def forget(self) -> None:
        """Drops every slot without a driver call."""
        for slot in self._alive():
            slot.home.clear()
        with self._lock:
            self._slots.clear()
            self._bytes = 0

    def _alive(self) -> list[HostSlot]:
        with self._lock:
            watches = list(self._slots.values())
        return [slot for watch in watches if (slot := watch.slot()) is not None]

    def _shrink(self) -> None:
        for slot in sorted(self._alive(), key=lambda slot: slot.used):
            if self._bytes <= self._limit and len(self._slots) <= self._most:
                return
            if self._take(slot):
                with self._device.calls:
                    slot.release(idle=True)

    def _take(self, slot: HostSlot) -> bool:
        """Removes ``slot`` from the pool if it is idle; returns whether it was."""
        try:
            slot.home.remove(slot)
        except ValueError:
            return False
        return self._forget_slot(slot.held)

    def _forget_slot(self, slot: _Held) -> bool:
        """Returns whether the pool knew it."""
        with self._lock:
            was_kept = self._slots.pop(slot, None) is not None
            self._bytes -= slot.nbytes if was_kept else 0
        return was_kept

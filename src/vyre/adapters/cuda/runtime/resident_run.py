"""Launches on resident memory: sequences of steps on one stream, each prepared once for the memory it is bound to.

A *lane* owns a stream and remembers the launches prepared on it by program, config and memory.  A run takes an idle
lane, enqueues everything in order, and waits once; where a kernel can trap, it looks after each launch, so that nothing
runs behind a trap.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.cuda.runtime.chunks import Piece, PinnedChunks
from vyre.adapters.cuda.runtime.device import DeviceMember, release_all
from vyre.adapters.cuda.runtime.executor import CudaExecutor, CudaPipeline
from vyre.adapters.cuda.runtime.lane import Resources, carried_as_parameters
from vyre.adapters.cuda.runtime.launch import (
    TRAP_BYTES,
    PreparedLaunch,
    ScratchAddresses,
    assumptions,
    first_trap,
    pack_table,
    plan_scratch,
)
from vyre.adapters.cuda.runtime.memory import ALIGNMENT, NO_BLOCK, DeviceBlock
from vyre.adapters.cuda.runtime.pipeline import Profiler
from vyre.adapters.cuda.runtime.resident import CudaBuffer, ResidentStore
from vyre.adapters.cuda.runtime.streams import StreamLease
from vyre.adapters.cuda.runtime.waiting import DeadlinePassed, deadline_after
from vyre.adapters.cuda.seam import CudaCallError
from vyre.domain.binding import BindingPlan, plan_bindings
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import BackendError, DispatchTimeout, InvalidInput, InvalidResource
from vyre.domain.ir.program import Access
from vyre.domain.launch import Launch
from vyre.ports.backend import HostBytes, ResidentBuffer, ResidentSequence, ResidentStep

LAUNCHES: Final = 64
"""Prepared launches that a lane remembers."""
LANES: Final = 16
"""Idle lanes kept."""

Memory: TypeAlias = "CudaBuffer | HostBytes"
Key: TypeAlias = "tuple[object, ...]"


class Step(NamedTuple):
    """A resolved step.  ``memory`` and ``nbytes`` by position in the plan; ``nbytes`` is what the program sees.

    ``number``: its place in the sequence.
    """

    number: int
    pipeline: CudaPipeline
    plan: BindingPlan
    launch: Launch
    memory: tuple[Memory, ...]
    nbytes: tuple[int, ...]
    iterations: int

    @property
    def key(self) -> Key:
        """What a prepared launch depends on.  Steps with host bytes need memory of their own for them."""
        has_host = any(
            not isinstance(m, CudaBuffer) and not b.buffer.is_push
            for m, b in zip(self.memory, self.plan.bindings, strict=True)
        )
        places = (
            (m.address, n) if isinstance(m, CudaBuffer) else n for m, n in zip(self.memory, self.nbytes, strict=True)
        )
        return (self.pipeline, self.launch.grid, self.number if has_host else None, *places)


class StepLaunch:
    """A step prepared on one stream: kernels bound to memory, scratch memory, what to copy and to zero before.

    Raises ``CudaCallError`` and what preparing a launch raises.  Not for two threads at once.
    """

    __slots__ = ("_block", "_host", "_iterations", "_launch", "_resources", "_stream", "_zero", "can_trap", "traps")

    def __init__(self, resources: Resources, step: Step, lease: StreamLease) -> None:
        self._resources = resources
        self._stream = lease.stream
        self._iterations = step.iterations
        device, plan = resources.device, step.plan
        host_only = [not isinstance(memory, CudaBuffer) for memory in step.memory]
        inline = all(
            is_host
            for is_host, binding in zip(host_only, plan.bindings, strict=True)
            if binding.buffer.access is Access.UNIFORM and not binding.buffer.is_push
        )
        # Host bytes get memory of their own, which is apart from everything and aligned.
        bound = [
            (m.address if isinstance(m, CudaBuffer) else 0, n) for m, n in zip(step.memory, step.nbytes, strict=True)
        ]
        resident = [(address, n if not host else 0) for (address, n), host in zip(bound, host_only, strict=True)]
        assume = assumptions(plan, [a for a, _ in resident], [n for _, n in resident])
        module = step.pipeline.module_for(step.launch.grid, assume, inline_uniforms=inline)
        undo: list[Callable[[], None]] = []
        try:
            scratch = plan_scratch(module)
            carried = carried_as_parameters(plan, [kernel.emitted for kernel in module.kernels])
            offsets: dict[int, int] = {}
            end = 0
            for position, (is_host, nbytes) in enumerate(zip(host_only, step.nbytes, strict=True)):
                if is_host and position not in carried and nbytes:
                    offsets[position], end = end, _aligned(end + nbytes)
            table, zeroed = end, _aligned(end + scratch.table)
            records = TRAP_BYTES * len(module.kernels) if scratch.can_trap else 0
            traps = _aligned(zeroed + scratch.zeroed)
            self._block: DeviceBlock = resources.memory.allocate(traps + records, self._stream)
            undo.insert(0, partial(resources.memory.free, self._block, self._stream))
            base = self._block.address
            addresses = [base + offsets[i] if i in offsets else address for i, (address, _) in enumerate(bound)]
            self._launch = PreparedLaunch(
                device, module, plan, step.launch.grid, self._stream, cooperative=step.pipeline.cooperative
            )
            self._launch.bind(
                addresses, step.launch.counts, ScratchAddresses(base + table, base + zeroed, base + traps)
            )
            self.can_trap = scratch.can_trap
            self.traps: Final = Piece(memoryview(bytearray(records)), base + traps)
            self._host = tuple((position, base + offset) for position, offset in offsets.items())
            driver = device.driver
            if scratch.table:
                pieces = [Piece(memoryview(pack_table(plan, addresses, step.launch.counts)), base + table)]
                _send_now(resources, self._stream, pieces)
            zero = [(addresses[i], n) for i, n in enumerate(step.nbytes) if plan.bindings[i].input_index is None and n]
            if traps + records > zeroed:
                zero.append((base + zeroed, traps + records - zeroed))
            self._zero = tuple(partial(driver.memset8, address, 0, n, self._stream) for address, n in zero)
        except CudaCallError as error:
            device.roll_back(error, undo)
            raise
        except BackendError:
            release_all(undo)
            raise

    def host_pieces(self, step: Step) -> list[Piece]:
        """Host bytes of this run that need to be on the device."""
        return [Piece(data, address) for i, address in self._host if not isinstance(data := step.memory[i], CudaBuffer)]

    def operations(self, step: Step, *after_launch: Callable[[], object]) -> tuple[Callable[[], object], ...]:
        """What a launch of ``step`` calls, in order, its host bytes being on the device; parameters are packed."""
        self._set_values(step)
        one_round: list[Callable[[], object]] = [*self._launch.launchers, *after_launch]
        return (*self._zero, *(one_round * self._iterations))

    def _set_values(self, step: Step) -> None:
        self._launch.set_values([None if isinstance(memory, CudaBuffer) else memory for memory in step.memory])

    def enqueue(self, step: Step, after_launch: Callable[[StepLaunch], None] | None) -> int:
        """Zero and launch; returns the number of kernels.  ``after_launch`` is called behind each launch."""
        self._set_values(step)
        for zero in self._zero:
            zero()
        for _ in range(self._iterations):
            self._launch()
            if after_launch is not None:
                after_launch(self)
        return self._iterations * len(self._launch)

    def raise_trap(self) -> None:
        """Raise what the records, copied into ``traps``, say."""
        trap = first_trap(self.traps.host, self._launch.kernels)
        if trap is not None:
            self._resources.device.counters.trap_count += 1
            raise trap

    def release(self) -> None:
        """Give everything back behind the work on its stream."""
        block, self._block = self._block, NO_BLOCK
        self._resources.memory.free(block, self._stream)


class ResidentLane:
    """A stream and the launches prepared on it."""

    __slots__ = ("_resources", "launches", "lease")

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self.lease: Final = resources.streams.acquire()
        self.launches: Final[OrderedDict[Key, StepLaunch]] = OrderedDict()

    def launch(self, step: Step) -> StepLaunch:
        key = step.key
        found = self.launches.get(key)
        if found is None:
            found = self.launches[key] = StepLaunch(self._resources, step, self.lease)
            if len(self.launches) > LAUNCHES:
                self.launches.popitem(last=False)[1].release()
        else:
            self.launches.move_to_end(key)
        return found

    def release(self, *, idle: bool) -> None:
        resources = self._resources
        launches = list(self.launches.values())
        self.launches.clear()
        release_all(
            [
                *(launch.release for launch in launches),
                partial(resources.streams.give_back if idle else resources.streams.free, self.lease),
            ]
        )


class BoundStep:
    """``BoundResidentStep``: one step on a stream of its own, with everything resolved before the first call."""

    __slots__ = (
        "_device",
        "_idle",
        "_lane",
        "_launch",
        "_operations",
        "_runner",
        "_seconds",
        "_step",
        "_stream",
        "epoch",
    )

    def __init__(self, runner: ResidentRunner, lane: ResidentLane, step: Step, seconds: float | None) -> None:
        self._runner, self._lane, self._step, self._seconds = runner, lane, step, seconds
        self._device: Final = runner.device
        self._launch: Final = lane.launch(step)
        self._stream: Final = lane.lease.stream
        check = (partial(runner.check_trap, lane, None, self._launch),) if self._launch.can_trap else ()
        self._operations: Final = self._launch.operations(step, *check)
        self._idle: Final = self._device.driver.stream_ready
        self.epoch: Final = self._device.epoch

    def __call__(self) -> None:
        """Launch and wait.  Raises as ``ResidentExecutor.run`` does."""
        device = self._device
        device.enter()
        try:
            for operation in self._operations:
                operation()
            device.counters.kernel_launches += 1
            if not self._idle(self._stream):  # asked here first: what is short has ended by now
                deadline = None if self._seconds is None else deadline_after(device.clock, self._seconds)
                if not device.waiter.stream(self._stream, deadline):
                    raise DeadlinePassed
        except CudaCallError as error:
            raise device.fault(error) from error
        except DeadlinePassed as error:
            raise self._runner.timeout(self._step, self._seconds) from error

    def close(self) -> None:
        """Give the stream back; calling it again does nothing."""
        lane, self._lane = self._lane, None  # type: ignore[assignment]  # closed
        if lane is not None and self.epoch == self._device.epoch:
            self._runner.unbind(lane)


class ResidentRunner(DeviceMember):
    """``ResidentExecutor`` and ``ResidentBinder``."""

    def __init__(self, resources: Resources, executor: CudaExecutor, store: ResidentStore, profiler: Profiler) -> None:
        self._resources = resources
        self._profiler = profiler
        self.device: Final = resources.device
        self._executor = executor
        self._store = store
        self._idle: list[ResidentLane] = []
        self._bound: set[ResidentLane] = set()
        self._lock = threading.Lock()
        resources.memory.on_shortage(self._release_idle)
        resources.device.add(self)

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        with self._profiler.range("vyre.cuda.resident_dispatch"):
            return self._run_sequence(sequence)

    def _run_sequence(self, sequence: ResidentSequence) -> DispatchTiming:
        device = self.device
        started = device.clock.now_ns()
        reads = self._store.pieces(sequence.reads)
        steps = [self._resolve(number, step) for number, step in enumerate((*sequence.prefix, *sequence.repeated))]
        limits = [s.config.timeout_s for s in (*sequence.prefix, *sequence.repeated) if s.config.timeout_s is not None]
        deadline = deadline_after(device.clock, min(limits) if limits else None)
        with device.calls:
            self._resources.quarantine.reap()
            lane = self._take()
            try:
                enqueued, device_ns = self._run(
                    lane, steps, len(sequence.prefix), sequence.repeat_count, reads, deadline
                )
            except BaseException as error:
                self._drop(lane, steps, error)
                if isinstance(error, DeadlinePassed):
                    raise self.timeout(steps[0], min(limits)) from error
                raise
            self._put(lane)
        now = device.clock.now_ns()
        return DispatchTiming(now - started, device_ns, enqueued - started, now - enqueued)

    def bind(self, step: ResidentStep, /) -> BoundStep:
        """Prepare ``step`` once; host bytes are taken now, for every launch."""
        resolved = self._resolve(0, step)
        with self.device.calls:
            self._resources.quarantine.reap()
            lane = ResidentLane(self._resources)
            try:
                bound = BoundStep(self, lane, resolved, step.config.timeout_s)
                pieces = lane.launch(resolved).host_pieces(resolved)
                if pieces:
                    _send_now(self._resources, lane.lease.stream, pieces)
            except BaseException as error:
                self._drop(lane, (resolved,), error)
                raise
            with self._lock:
                self._bound.add(lane)
        return bound

    def unbind(self, lane: ResidentLane) -> None:
        """A bound step is closed."""
        with self._lock:
            self._bound.discard(lane)
        if self.device.reachable:
            with self.device.calls:
                lane.release(idle=True)

    # ---------------------------------------------------------------- resolving
    def _resolve(self, number: int, step: ResidentStep) -> Step:
        """Check everything that can be checked before the first byte moves."""
        plan = plan_bindings(step.program)
        if len(step.resources) != len(plan.bindings):
            raise InvalidInput(
                f"{len(step.resources)} resources for {len(plan.bindings)} buffers",
                fix="pass one per non-workgroup buffer, in binding order.",
            )
        memory: list[Memory] = []
        sizes: list[int] = []
        for binding, resource in zip(plan.bindings, step.resources, strict=True):
            buffer = binding.buffer
            if isinstance(resource, ResidentBuffer):
                own = self._store.own(resource)
                if buffer.is_push:
                    raise InvalidResource(f"parameter `{buffer.name}` is bound to {own!r}", fix="pass its bytes.")
                if own.readonly and buffer.is_writable:
                    raise InvalidResource(f"`{buffer.name}` is written, but {own!r} is read-only", fix="bind a copy.")
                memory.append(own)
                sizes.append(_fitted(own, binding.static_nbytes, binding.element_size, buffer.name))
            elif buffer.is_writable:
                raise InvalidResource(
                    f"`{buffer.name}` is written, but bound to host bytes", fix="bind a resident buffer."
                )
            else:
                memory.append(resource)
                sizes.append(resource.nbytes)
        _check_overlap(plan, memory)
        config = step.config
        counts = {
            b.buffer.name: nbytes // b.element_size
            for b, nbytes in zip(plan.bindings, sizes, strict=True)
            if b.input_index is None and b.buffer.count == 0 and b.buffer.like is None
        }
        if counts:
            config = replace(config, output_counts={**counts, **(config.output_counts or {})})
        pipeline, _ = self._executor.pipeline(step.program, config)
        launch = pipeline.shape(tuple(sizes[i] for i in plan.inputs)).launch
        for binding, held, needed in zip(plan.bindings, sizes, launch.nbytes, strict=True):
            if held < needed:
                raise InvalidResource(
                    f"`{binding.buffer.name}` needs {needed} bytes, its memory has {held}",
                    fix="allocate at least that much.",
                )
        return Step(number, pipeline, plan, launch, tuple(memory), launch.nbytes, config.fixpoint_iterations or 1)

    # ---------------------------------------------------------------- running
    def _run(
        self,
        lane: ResidentLane,
        steps: Sequence[Step],
        once: int,
        repeat_count: int,
        reads: Sequence[Piece],
        deadline: int | None,
    ) -> tuple[int, int]:
        """Enqueue the first ``once`` steps once and the others ``repeat_count`` times, wait, read.

        Returns the moment when everything was enqueued, and the kernels' time, in ns.
        """
        device, driver = self.device, self.device.driver
        stream, started, ended, done = lane.lease
        prepared = [(lane.launch(step), step) for step in steps]
        looks = any(launch.can_trap for launch, _ in prepared)
        check = partial(self.check_trap, lane, deadline) if looks else None
        uploads = [piece for launch, step in prepared for piece in launch.host_pieces(step)]
        if uploads:
            _send_now(self._resources, stream, uploads)
        driver.event_record(started, stream)
        kernels = sum(launch.enqueue(step, check) for launch, step in prepared[:once])
        for _ in range(repeat_count):
            kernels += sum(launch.enqueue(step, check) for launch, step in prepared[once:])
        driver.event_record(ended, stream)
        driver.event_record(done, stream)
        enqueued = device.clock.now_ns()
        device.counters.kernel_launches += kernels
        device.counters.sync_points += 1
        if reads:
            self._read(lane, reads, deadline)
        elif not device.waiter.event(done, deadline):
            raise DeadlinePassed
        return enqueued, round(driver.event_elapsed_ms(started, ended) * 1e6)

    def _read(self, lane: ResidentLane, reads: Sequence[Piece], deadline: int | None) -> None:
        chunks = self._store.chunks(lane.lease.stream, reads)
        try:
            chunks.receive(reads, deadline)
        except (CudaCallError, DeadlinePassed):
            if self.device.reachable:
                self._resources.quarantine.hold(lane.lease.stream, partial(chunks.release, idle=False))
            raise
        chunks.release(idle=True)

    def check_trap(self, lane: ResidentLane, deadline: int | None, launch: StepLaunch) -> None:
        """Wait for a launch and raise its trap."""
        if not launch.can_trap:
            return
        self._read(lane, [launch.traps], deadline)
        launch.raise_trap()

    def timeout(self, step: Step, seconds: float | None) -> DispatchTimeout:
        """What a passed deadline is reported as."""
        self.device.counters.timeout_count += 1
        return DispatchTimeout(
            f"resident dispatch of {step.pipeline.id} did not finish on backend `{self.device.backend}` within "
            f"{seconds} s; it may still run, and its buffers are freed only after it"
        )

    # ---------------------------------------------------------------- lanes
    def _take(self) -> ResidentLane:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return ResidentLane(self._resources)

    def _put(self, lane: ResidentLane) -> None:
        with self._lock:
            if len(self._idle) < LANES:
                self._idle.append(lane)
                return
        lane.release(idle=True)

    def _drop(self, lane: ResidentLane, steps: Sequence[Step], error: BaseException) -> None:
        """After a failure the stream may still be running, and so may whatever uses the buffers."""
        if not self.device.reachable:
            return
        if isinstance(error, BackendError) and not isinstance(error, DeadlinePassed):
            self._put(lane)  # a trap, or a launch that was refused: nothing is pending behind it
            return
        for step in steps:
            for memory in step.memory:
                if isinstance(memory, CudaBuffer):
                    memory.occupy(lane.lease.stream)
        self._resources.quarantine.hold(lane.lease.stream, partial(lane.release, idle=False))

    def _release_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        release_all([partial(lane.release, idle=True) for lane in idle])

    # ---- as a member of the device
    def release(self) -> None:
        with self._lock:
            lanes = [*self._idle, *self._bound]
        self.forget()
        release_all([partial(lane.release, idle=False) for lane in lanes])

    def forget(self) -> None:
        with self._lock:
            self._idle.clear()
            self._bound.clear()


def _fitted(buffer: CudaBuffer, static_nbytes: int | None, element_size: int, name: str) -> int:
    """The bytes the program may see: the static length, or whole elements."""
    if static_nbytes is None:
        return buffer.nbytes - buffer.nbytes % element_size
    if buffer.nbytes < static_nbytes:
        raise InvalidResource(
            f"`{name}` needs {static_nbytes} bytes, its memory has {buffer.nbytes}", fix="allocate at least that much."
        )
    return static_nbytes


def _check_overlap(plan: BindingPlan, memory: Sequence[Memory]) -> None:
    """Memory bound twice and written through one of the bindings is refused, also by parts."""
    ranges = sorted(
        (m.address, m.address + m.nbytes, b.buffer.is_writable, b.buffer.name)
        for b, m in zip(plan.bindings, memory, strict=True)
        if isinstance(m, CudaBuffer) and m.nbytes
    )
    for i, (_, end, written, name) in enumerate(ranges):
        for start, _, also_written, other in ranges[i + 1 :]:
            if start >= end:
                break
            if written or also_written:
                raise InvalidResource(
                    f"`{name}` and `{other}` are bound to the same memory, and it is written through one of them",
                    fix="bind separate memory.",
                )


def _send_now(resources: Resources, stream: int, pieces: Sequence[Piece]) -> None:
    """Copy host bytes to the device ahead of what is enqueued next, and wait for it."""
    longest = max(piece.host.nbytes for piece in pieces)
    chunks = PinnedChunks(resources.device, resources.pinned, stream, longest)
    try:
        chunks.send(pieces, None)
        resources.device.waiter.stream(stream, None)
    except CudaCallError:
        if resources.device.reachable:
            resources.quarantine.hold(stream, partial(chunks.release, idle=False))
        raise
    chunks.release(idle=True)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT

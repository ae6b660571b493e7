"""Launches on resident memory: each is prepared once for one stream and for the memory that it is bound to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, repeat
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.cuda.runtime.chunks import Piece, copy_now
from vyre.adapters.cuda.runtime.device import release_all
from vyre.adapters.cuda.runtime.executor import CudaPipeline
from vyre.adapters.cuda.runtime.graphs import Chain
from vyre.adapters.cuda.runtime.host_slot import carried_as_parameters
from vyre.adapters.cuda.runtime.launch import (
    PreparedLaunch,
    ScratchAddresses,
    assumptions,
    first_trap,
    pack_table,
    plan_scratch,
)
from vyre.adapters.cuda.runtime.memory import ALIGNMENT, NO_BLOCK, DeviceBlock
from vyre.adapters.cuda.runtime.resident import CudaBuffer
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.cuda.runtime.streams import StreamLease
from vyre.adapters.cuda.seam import CudaCallError
from vyre.domain.binding import BindingPlan
from vyre.domain.ir.program import Access as BufferAccess
from vyre.domain.ir.program import Program
from vyre.domain.launch import Launch
from vyre.policies.concurrency.hazards import Access, AccessMode
from vyre.ports.requests import HostBytes

Memory: TypeAlias = "CudaBuffer | HostBytes"
Key: TypeAlias = "tuple[object, ...]"


class Step(NamedTuple):
    """A resolved step.

    ``memory`` and ``nbytes`` are by position in the plan; ``nbytes`` is the size that the program sees.  ``number`` is
    the step's place in the sequence.
    """

    number: int
    program: Program
    pipeline: CudaPipeline
    plan: BindingPlan
    launch: Launch
    memory: tuple[Memory, ...]
    nbytes: tuple[int, ...]
    iterations: int

    @property
    def key(self) -> Key:
        """Returns the values that a prepared launch depends on.  Steps with host bytes need memory of their own for
        them.
        """
        has_host = any(
            not isinstance(m, CudaBuffer) and not b.buffer.is_push
            for m, b in zip(self.memory, self.plan.bindings, strict=True)
        )
        places = (
            (m.address, n) if isinstance(m, CudaBuffer) else n for m, n in zip(self.memory, self.nbytes, strict=True)
        )
        return (self.pipeline, self.launch.grid, self.number if has_host else None, *places)


def buffers_of(steps: Iterable[Step]) -> list[CudaBuffer]:
    """Returns the buffers that steps are bound to."""
    return [memory for step in steps for memory in step.memory if isinstance(memory, CudaBuffer)]


class StepLaunch:
    """A step prepared on one stream: kernels bound to memory, scratch memory, and the copies and fills before them.

    ``kernels``: launches of a run.  ``operations``: launches and fills.  ``has_values``: whether host bytes are among
    the parameters.  ``cooperative``: whether a kernel needs the whole device.  ``looks``: the host looks at memory
    between kernels, for traps or for the rounds of grid loops.  Raises ``CudaCallError`` and the errors
    of preparing a launch.  Not for two threads at once.
    """

    __slots__ = (
        "_block",
        "_filled",
        "_host",
        "_iterations",
        "_launch",
        "_resources",
        "_stream",
        "_zero",
        "can_trap",
        "cooperative",
        "has_values",
        "kernels",
        "looks",
        "operations",
        "program",
        "traps",
    )

    def __init__(self, resources: Resources, step: Step, lease: StreamLease) -> None:
        self._resources = resources
        self._stream = lease.stream
        self._iterations = step.iterations
        self.program: Program = step.program
        device, plan = resources.device, step.plan
        host_only = [not isinstance(memory, CudaBuffer) for memory in step.memory]
        inline = all(
            is_host
            for is_host, binding in zip(host_only, plan.bindings, strict=True)
            if binding.buffer.access is BufferAccess.UNIFORM and not binding.buffer.is_push
        )
        # Host bytes get memory of their own, which is aligned and overlaps with nothing.
        bound = [
            (m.address if isinstance(m, CudaBuffer) else 0, n) for m, n in zip(step.memory, step.nbytes, strict=True)
        ]
        resident = [(address, n if not host else 0) for (address, n), host in zip(bound, host_only, strict=True)]
        assume = assumptions(plan, [a for a, _ in resident], [n for _, n in resident], resources.decisions)
        module = step.pipeline.module_for(step.launch.grid, assume, inline_uniforms=inline)
        undo: list[Callable[[], None]] = []
        try:
            order = step.pipeline.steps(module)
            scratch = plan_scratch(module, polled=order is not None)
            carried = carried_as_parameters(plan, [kernel.emitted for kernel in module.kernels])
            offsets: dict[int, int] = {}
            end = 0
            for position, (is_host, nbytes) in enumerate(zip(host_only, step.nbytes, strict=True)):
                if is_host and position not in carried and nbytes:
                    offsets[position], end = end, _aligned(end + nbytes)
            table, zeroed = end, _aligned(end + scratch.table)
            records = scratch.looked_at
            traps = _aligned(zeroed + scratch.zeroed)
            self._block: DeviceBlock = resources.memory.allocate(traps + records, self._stream)
            undo.insert(0, partial(resources.memory.free, self._block, self._stream))
            base = self._block.address
            addresses = [base + offsets[i] if i in offsets else address for i, (address, _) in enumerate(bound)]
            self._launch = PreparedLaunch(
                device,
                module,
                plan,
                step.launch.grid,
                self._stream,
                cooperative=step.pipeline.config.cooperative,
                race_check=step.pipeline.config.race_check,
                sink=resources.decisions,
                steps=order,
            )
            control = base + traps + scratch.records if order is not None else None
            self._launch.bind(
                addresses, step.launch.counts, ScratchAddresses(base + table, base + zeroed, base + traps, control)
            )
            self.can_trap: bool = scratch.can_trap
            self.looks: bool = scratch.can_trap or order is not None
            self.traps: Final = Piece(memoryview(bytearray(records)), base + traps)
            self._host = tuple((position, base + offset) for position, offset in offsets.items())
            driver = device.driver
            if scratch.table:
                pieces = [Piece(memoryview(pack_table(plan, addresses, step.launch.counts)), base + table)]
                copy_now(resources, self._stream, pieces, to_device=True)
            zero = [(addresses[i], n) for i, n in enumerate(step.nbytes) if plan.bindings[i].input_index is None and n]
            if traps + records > zeroed:
                zero.append((base + zeroed, traps + records - zeroed))
            self._filled = tuple(zero)
            self._zero = tuple(partial(driver.memset8, address, 0, n, self._stream) for address, n in zero)
            self.kernels: Final = step.iterations * len(self._launch)
            self.operations: Final = self.kernels + len(zero)
            self.has_values: Final = any(kernel.values for kernel in self._launch.kernels)
            self.cooperative: Final = any(kernel.shape.cooperative for kernel in self._launch.kernels)
        except CudaCallError as error:
            device.roll_back(error, undo)
            raise
        except BaseException:
            release_all(undo)
            raise

    def host_pieces(self, step: Step) -> list[Piece]:
        """Returns the host bytes of this run that must be on the device, with their addresses."""
        return [Piece(data, address) for i, address in self._host if not isinstance(data := step.memory[i], CudaBuffer)]

    def calls(self, step: Step, *after_launch: Callable[[], object]) -> tuple[Callable[[], object], ...]:
        """Returns the functions that a run of ``step`` calls, in order.

        They assume that its host bytes are on the device; its parameters are packed now.
        """
        self.set_values(step)
        one_round: list[Callable[[], object]] = [*self._launch.launchers, *after_launch]
        if self._launch.steps is not None:
            one_round = [partial(self._run_rounds, *after_launch)]
        return (*self._zero, *(one_round * self._iterations))

    def set_values(self, step: Step) -> None:
        """Packs the host bytes among the parameters, for the next launch or recording."""
        self._launch.set_values([None if isinstance(memory, CudaBuffer) else memory for memory in step.memory])

    def packed(self, step: Step) -> tuple[bytes, ...]:
        """Returns the parameters of each kernel in a run of ``step``."""
        self.set_values(step)
        return tuple(bytes(kernel.parameters.buffer) for kernel in self._launch.kernels)

    def enqueue(self, step: Step) -> None:
        """Enqueues the fills and the launches."""
        if self.has_values:
            self.set_values(step)
        for zero in self._zero:
            zero()
        for launch in chain.from_iterable(repeat(self._launch.launchers, self._iterations)):
            launch()

    def enqueue_checked(self, step: Step, check: Callable[[StepLaunch], None]) -> None:
        """Enqueues the fills and the launches, and calls ``check`` after each iteration."""
        self.set_values(step)
        for zero in self._zero:
            zero()
        launched = self.kernels
        if self._launch.steps is not None:
            launched = sum(self._run_rounds(partial(check, self)) for _ in range(self._iterations))
        else:
            for _ in range(self._iterations):
                self._launch()
                check(self)
        self._resources.device.counters.kernel_launches += launched

    def _run_rounds(self, check: Callable[[], object]) -> int:
        """Runs a program with grid loops once; returns the number of launches."""

        def look() -> memoryview:
            check()
            return self.traps.host

        launched = self._launch.run_rounds(look, checked=self.can_trap)
        if self.can_trap:
            check()
        return launched

    def accesses(self, step: Step) -> tuple[Access, ...]:
        """Returns the device memory that a run of ``step`` reads or writes, as ranges of bytes: buffers may overlap.

        Memory that belongs to the launch, such as its scratch memory, serves one run at a time, and counts as written.
        """
        own = self._block
        touched = [(own.address, own.capacity, True)] if own.capacity else []
        for binding, memory, nbytes in zip(step.plan.bindings, step.memory, step.nbytes, strict=True):
            if isinstance(memory, CudaBuffer) and nbytes:
                touched.append((memory.address, nbytes, binding.buffer.is_writable or binding.buffer.is_output))
        return tuple(
            Access(0, AccessMode.READ_WRITE if written else AccessMode.READ, ((address, address + nbytes),))
            for address, nbytes, written in touched
        )

    def record(self, step: Step, chain: Chain) -> None:
        """Adds the operations that ``enqueue`` enqueues."""
        self.set_values(step)
        for address, nbytes in self._filled:
            chain.zero(address, nbytes)
        for kernel in self._launch.kernels * self._iterations:
            chain.kernel(kernel)

    def raise_trap(self) -> None:
        """Raises the trap in the records that were copied into ``traps``, if there is one."""
        trap = first_trap(self.traps.host, self._launch.kernels)
        if trap is not None:
            self._resources.device.counters.traps += 1
            from vyre.domain.sites import locate  # only for errors

            locate(trap, (self.program,))
            raise trap

    def release(self) -> None:
        """Frees the memory after the work on its stream."""
        block, self._block = self._block, NO_BLOCK
        self._resources.memory.free(block, self._stream)


class Prepared(NamedTuple):
    """A launch, and the step that it runs next."""

    launch: StepLaunch
    step: Step


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT

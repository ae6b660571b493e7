"""Prepared launches: parameters packed in place, geometry checked, launchers made.

A ``BoundKernel`` is one entry with its parameter block; a launch on a stream and a graph node both start from it.  A
``PreparedLaunch`` holds those of a module on one stream: calling it enqueues them in order and does nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import prod
from typing import Final, NamedTuple

from vyre.adapters.cuda.ptx.kernel import Assumption, EmittedKernel, Parameter, ParameterKind
from vyre.adapters.cuda.runtime.device import CudaDevice
from vyre.adapters.cuda.runtime.loaded import LoadedKernel, LoadedModule
from vyre.adapters.cuda.seam import DeviceAddress, Launcher, LaunchShape, ParameterBlock, ParameterPlace, Stream
from vyre.adapters.kernel_plan import KernelLoop, KernelPlan
from vyre.domain.binding import BindingPlan
from vyre.domain.errors import TrapError
from vyre.domain.geometry import LaunchLimits
from vyre.domain.names import Dim3
from vyre.policies.devices import occupancy
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.variants.kernel_variant import BoundRange, VariantInputs, choose_variant

TRAP_BYTES: Final = 32
MOST_RESIDENT: Final = 16
"""The most blocks of a kernel that stays on the device."""
COUNT_MAX: Final = 0xFFFF_FFFF
SCRATCH_ALIGNMENT: Final = 256
_FORMATS: Final = {8: "Q", 4: "I", 2: "H", 1: "B"}
_TRAP_WORDS: Final = struct.Struct("<8I")
_TABLE_RECORD: Final = struct.Struct("<QII")


# ---------------------------------------------------------------- scratch memory
class ScratchPlan(NamedTuple):
    """Memory that the kernels of a module need in addition to their bindings, in bytes.

    The host writes ``table`` before the launch, and zeroes ``zeroed`` bytes once per dispatch.  ``offsets`` holds, per
    kernel, the offset of each BARRIER and SCRATCH parameter in the zeroed part, in declaration order.  ``traps`` tells
    per kernel whether it can trap; if one can, each kernel has a record, zeroed too.  ``control`` is the size of a
    SCRATCH parameter that the host reads between kernels: it follows these records and has no offset.
    """

    table: int
    zeroed: int
    offsets: tuple[tuple[int, ...], ...]
    traps: tuple[bool, ...]
    control: int = 0

    @property
    def can_trap(self) -> bool:
        """Whether some kernel of the module can trap."""
        return any(self.traps)

    @property
    def records(self) -> int:
        """The bytes of the trap records."""
        return TRAP_BYTES * len(self.traps) if self.can_trap else 0

    @property
    def looked_at(self) -> int:
        """The bytes that the host reads between kernels: the trap records, then the words that steer loops."""
        return self.records + self.control


class ScratchAddresses(NamedTuple):
    """The addresses of that memory: ``trap`` is the record of the first kernel, the others follow it.

    ``control`` is that of a SCRATCH parameter which the host reads between kernels; None if it is in the zeroed part.
    ``mailbox`` is the address of the description of a mailbox.
    """

    table: DeviceAddress = 0
    zeroed: DeviceAddress = 0
    trap: DeviceAddress = 0
    control: DeviceAddress | None = None
    mailbox: DeviceAddress = 0


def plan_scratch(module: LoadedModule, *, polled: bool = False) -> ScratchPlan:
    """Returns the scratch memory that the kernels of ``module`` need; they share that of a SCRATCH parameter.

    ``polled``: the host reads it between kernels.
    """
    table = zeroed = control = 0
    shared: int | None = None
    offsets: list[tuple[int, ...]] = []
    traps: list[bool] = []
    for kernel in module.kernels:
        own: list[int] = []
        for parameter in kernel.emitted.parameters:
            nbytes = parameter.nbytes or 0
            if parameter.kind is ParameterKind.TABLE:
                table = max(table, nbytes)
            elif parameter.kind is ParameterKind.SCRATCH and polled:
                control = nbytes
            elif parameter.kind is ParameterKind.SCRATCH and shared is not None:
                own.append(shared)
            elif parameter.kind in (ParameterKind.BARRIER, ParameterKind.SCRATCH):
                if parameter.kind is ParameterKind.SCRATCH:
                    shared = zeroed
                own.append(zeroed)
                zeroed += -(-nbytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        offsets.append(tuple(own))
        traps.append(any(p.kind is ParameterKind.TRAP for p in kernel.emitted.parameters))
    return ScratchPlan(table, zeroed, tuple(offsets), tuple(traps), control)


def pack_table(plan: BindingPlan, addresses: Sequence[DeviceAddress], counts: Sequence[int]) -> bytes:
    """Returns the pointer table: 16 bytes per binding, except scalar parameters, in binding order.

    A record is the address (u64), the number of elements (u32) and 4 bytes of zero, little-endian.
    """
    return b"".join(
        _TABLE_RECORD.pack(address, min(count, COUNT_MAX), 0)
        for binding, address, count in zip(plan.bindings, addresses, counts, strict=True)
        if not binding.buffer.is_push
    )


# ---------------------------------------------------------------- checks
def check_launch(
    device: CudaDevice, kernel: LoadedKernel, shape: LaunchShape, sink: DecisionSink | None = None
) -> None:
    """Raises ``DeviceLimitExceeded`` if the device cannot run ``kernel`` in this shape.

    The diagnosis as one log line is its first note, and other limits that are exceeded are further ones.
    """
    limit = None
    if shape.cooperative:  # the largest grid that can run
        limit = resident_per_multiprocessor(device, kernel) * device.facts.multiprocessors
    shared = shape.dynamic_shared + kernel.emitted.shared_static
    asked = occupancy.LaunchShape(shape.grid, shape.block, shared, shape.cooperative, kernel.facts.registers)
    inputs = occupancy.ShapeDiagnosisInputs(kernel.emitted.entry, device.facts.envelope, asked, limit)
    diagnosis = decide(sink, occupancy.diagnose_shape, inputs)
    if not diagnosis.is_launchable:
        limits = LaunchLimits(str(device.backend))
        reasons = [limits.excess(*_excess(failure)) for failure in diagnosis.failures]
        if limit is not None and diagnosis.grid_blocks > limit:
            what = "number of workgroups that run at once"
            reasons.append(limits.excess("cooperative_residency", what, diagnosis.grid_blocks, limit))
        error, *others = reasons
        error.add_note(diagnosis.stable_message)
        for other in others:
            error.add_note(other.message)
        raise error


def _excess(failure: occupancy.LaunchFailure) -> tuple[str, str, int, int]:
    """Returns the limit, of what it is one, and the sizes that are asked for and allowed."""
    match failure:
        case occupancy.ThreadsPerBlock(asked, most):
            return "max_invocations_per_workgroup", "number of lanes in a workgroup", asked, most
        case occupancy.SharedMemory(asked, most):
            return "max_shared_memory_bytes", "workgroup memory in bytes", asked, most
        case occupancy.Registers(asked, most):
            return "registers_per_block", "number of registers in a workgroup", asked, most
        case occupancy.AxisLimit(what, axis, asked, most):
            named = {"block": "workgroup", "grid": "grid"}[what]
            return f"max_{named}_size", f"{named} size along {axis}", asked, most
        case occupancy.CooperativeLaunch():
            return "cooperative_launch", "number of barriers of the whole grid", 1, 0


def resident_per_multiprocessor(device: CudaDevice, kernel: LoadedKernel) -> int:
    """Returns the number of blocks of ``kernel`` that one multiprocessor holds at once.  Calls the driver."""
    x, y, z = kernel.emitted.block
    return device.driver.occupancy(kernel.handle, x * y * z, kernel.emitted.shared_dynamic)


def resident_blocks(fitting: int, arena_nbytes: int, memory_nbytes: int) -> int:
    """Returns the number of blocks, at least 1, of a kernel that stays on the device.

    A quarter of the blocks that the device holds at once, ``fitting``, so that other work finds room; at most
    ``MOST_RESIDENT``, because hosts hand jobs over one after the other; and no more than an eighth of the device's
    memory, ``memory_nbytes``, holds their arenas of ``arena_nbytes`` each, which are more than 0.
    """
    return max(1, min(MOST_RESIDENT, fitting // 4, memory_nbytes // 8 // arena_nbytes))


def assumptions(
    plan: BindingPlan, addresses: Sequence[DeviceAddress], nbytes: Sequence[int], sink: DecisionSink | None = None
) -> frozenset[Assumption]:
    """Returns the facts that kernels may assume about this memory: its alignment, and that no buffers overlap."""
    ranges = tuple(
        BoundRange(address, size, binding.buffer.is_writable or binding.buffer.is_output)
        for binding, address, size in zip(plan.bindings, addresses, nbytes, strict=True)
        if not binding.buffer.is_push
    )
    chosen = decide(sink, choose_variant, VariantInputs(ranges))
    facts = ((Assumption.ALIGNED16, chosen.aligned16), (Assumption.NOALIAS, chosen.noalias))
    return frozenset(assumption for assumption, holds in facts if holds)


# ---------------------------------------------------------------- parameters
class BoundKernel:
    """One kernel with its parameter block.  Not for two threads at once.

    ``values`` holds the places in the block of scalars and inlined uniforms, each with its position in the binding
    plan.
    """

    __slots__ = ("_grid", "_offsets", "_plan", "kernel", "parameters", "shape", "values")

    def __init__(
        self,
        kernel: LoadedKernel,
        shape: LaunchShape,
        plan: BindingPlan,
        scratch_offsets: tuple[int, ...],
        grid: Dim3 | None = None,
    ) -> None:
        """``grid``: the workgroups that the program sees, which those of ``shape`` stand for; None: the same."""
        self.kernel: Final = kernel
        self._grid: Final = grid or shape.grid
        self.shape: Final = shape
        self.parameters: Final = ParameterBlock([_slot(p) for p in kernel.emitted.parameters])
        self._plan = plan
        self._offsets = scratch_offsets
        positions = {binding.buffer.binding: i for i, binding in enumerate(plan.bindings)}
        memory = memoryview(self.parameters.buffer)
        values: list[tuple[memoryview, int]] = []
        for parameter in kernel.emitted.parameters:
            if _is_value(parameter):
                assert parameter.binding is not None
                place = memory[parameter.offset : parameter.offset + parameter.size]
                values.append((place, positions[parameter.binding]))
        self.values: Final = tuple(values)

    def bind(self, addresses: Sequence[DeviceAddress], counts: Sequence[int], scratch: ScratchAddresses) -> None:
        """Packs the parameters for memory at ``addresses`` with ``counts`` elements, both by position in the plan.

        Scalars and inlined uniforms are zero until ``set_values`` is called.
        """
        positions = {binding.buffer.binding: i for i, binding in enumerate(self._plan.bindings)}
        offsets = iter(self._offsets)
        values: list[int | bytes] = []
        for parameter in self.kernel.emitted.parameters:
            match parameter.kind:
                case ParameterKind.POINTER:
                    values.append(addresses[_position(positions, parameter)])
                case ParameterKind.COUNT:
                    values.append(min(counts[_position(positions, parameter)], COUNT_MAX))
                case ParameterKind.UNIFORM:
                    values.append(bytes(parameter.size))
                case ParameterKind.SCALAR:
                    values.append(parameter.value or 0)
                case ParameterKind.GRID:
                    values.append(self._grid[parameter.value or 0])
                case ParameterKind.TRAP:
                    values.append(scratch.trap)
                case ParameterKind.TABLE:
                    values.append(scratch.table)
                case ParameterKind.MAILBOX:
                    values.append(scratch.mailbox)
                case ParameterKind.SCRATCH if scratch.control is not None:
                    values.append(scratch.control)
                case ParameterKind.BARRIER | ParameterKind.SCRATCH:
                    values.append(scratch.zeroed + next(offsets))
        self.parameters.pack(*values)

    def set_values(self, data: Sequence[memoryview | None]) -> None:
        """Packs scalars and inlined uniforms from host bytes, by position in the plan."""
        for place, position in self.values:
            value = data[position]
            assert value is not None
            place[:] = value


class PreparedLaunch:
    """The kernels of a module on one stream, in order.  Calling it enqueues them; raises ``CudaCallError``.

    With ``steps``, the kernels of a program with grid loops run in that order by ``run_rounds`` instead.  It keeps a
    reference to its module, which is then not unloaded.  Not for two threads at once.
    """

    __slots__ = ("_is_empty", "kernels", "launchers", "module", "scratch", "steps")

    def __init__(
        self,
        device: CudaDevice,
        module: LoadedModule,
        plan: BindingPlan,
        grid: Dim3,
        stream: Stream,
        *,
        cooperative: bool,
        race_check: bool = False,
        sink: DecisionSink | None = None,
        steps: KernelPlan | None = None,
    ) -> None:
        """Checks the launch (``check_launch``), reports the check to ``sink``, and prepares it.

        ``bind`` must be called before the first launch.
        """
        self.module: Final = module
        self.steps: Final = steps
        self._is_empty: Final = not prod(grid)
        self.scratch: Final = plan_scratch(module, polled=steps is not None)
        kernels: list[BoundKernel] = []
        for kernel, offsets in zip(module.kernels, self.scratch.offsets, strict=True):
            emitted = kernel.emitted
            together = cooperative or emitted.cooperative
            folds = any(parameter.kind is ParameterKind.GRID for parameter in emitted.parameters)
            blocks = (max(1, prod(grid)), 1, 1) if folds else grid
            shape = LaunchShape(blocks, emitted.block, emitted.shared_dynamic, together, race_check)
            check_launch(device, kernel, shape, sink)
            kernels.append(BoundKernel(kernel, shape, plan, offsets, grid))
        self.kernels: Final = tuple(kernels)
        self.launchers: Final[tuple[Launcher, ...]] = tuple(
            device.driver.prepare_launch(k.kernel.handle, k.shape, stream, k.parameters)
            for k in kernels
            if not self._is_empty
        )

    def bind(self, addresses: Sequence[DeviceAddress], counts: Sequence[int], scratch: ScratchAddresses) -> None:
        """Sets the memory of every kernel; ``addresses`` and ``counts`` are by position in the binding plan."""
        for number, kernel in enumerate(self.kernels):
            kernel.bind(addresses, counts, scratch._replace(trap=scratch.trap + number * TRAP_BYTES))

    def set_values(self, data: Sequence[memoryview | None]) -> None:
        """Packs scalars and inlined uniforms for the next launches, by position in the binding plan."""
        for kernel in self.kernels:
            kernel.set_values(data)

    def __call__(self) -> None:
        for launch in self.launchers:
            launch()

    def run_rounds(self, look: Callable[[], memoryview], *, checked: bool) -> int:
        """Runs the kernels once in the order of ``steps``; returns the number of launches.

        ``look`` waits, and returns the memory that is looked at between kernels; ``checked``: after each of them.
        """
        assert self.steps is not None
        if self._is_empty:
            return 0
        return self._rounds(self.steps.steps, look, checked)

    def _rounds(self, steps: Sequence[int | KernelLoop], look: Callable[[], memoryview], checked: bool) -> int:
        launched = 0
        for step in steps:
            if isinstance(step, KernelLoop):
                record = self.scratch.records + 4 * step.word
                self.launchers[step.enter]()
                launched += 1
                while any(look()[record : record + 4]):
                    launched += self._rounds(step.body, look, checked) + 1
                    self.launchers[step.advance]()
            else:
                self.launchers[step]()
                launched += 1
                if checked:
                    look()
        return launched

    def __len__(self) -> int:
        """Returns the number of kernels that one call enqueues."""
        return len(self.launchers)


# ---------------------------------------------------------------- traps
def read_trap(record: memoryview, kernel: EmittedKernel) -> TrapError | None:
    """Returns the trap that a launch of ``kernel`` recorded; None if it recorded none."""
    flag, address, tag, x, y, z, _, _ = _TRAP_WORDS.unpack(record)
    if not flag:
        return None
    return TrapError(tag=kernel.trap_tags[tag - 1], address=address, global_id=(x, y, z))


def first_trap(records: memoryview, kernels: Sequence[BoundKernel]) -> TrapError | None:
    """Returns the trap of the earliest kernel that recorded one, or None.  ``records`` has 32 bytes per kernel."""
    for number, kernel in enumerate(kernels):
        trap = read_trap(records[number * TRAP_BYTES : (number + 1) * TRAP_BYTES], kernel.kernel.emitted)
        if trap is not None:
            return trap
    return None


def _slot(parameter: Parameter) -> ParameterPlace:
    layout = f"{parameter.size}s" if parameter.kind is ParameterKind.UNIFORM else _FORMATS[parameter.size]
    return ParameterPlace(parameter.offset, parameter.size, layout)


def _is_value(parameter: Parameter) -> bool:
    return parameter.kind is ParameterKind.UNIFORM or (
        parameter.kind is ParameterKind.SCALAR and parameter.binding is not None
    )


def _position(positions: dict[int, int], parameter: Parameter) -> int:
    assert parameter.binding is not None
    return positions[parameter.binding]

"""How many blocks of a kernel fit on a multiprocessor, and why a kernel cannot be launched at all.

The estimator follows the hardware's allocation rules, which are published per architecture: registers per warp in units
of 256 and from four partitions, shared memory in units of 128 bytes with 1 KiB reserved per block, and a limit on
resident blocks.  It reproduces NVIDIA's occupancy calculator; for a loaded kernel the driver's answer is the truth.
All O(1), picking O(candidates).

What the reference gets wrong: it knows none of these units, so it promises more blocks than fit (a cooperative launch
then fails), and probes only the default shared memory limit, so it refuses kernels that need the larger opt-in one.

``diagnose`` and ``diagnose_shape`` give every reason for a refusal at once, as data and as one stable log line.
What the reference leaves out, a launch can still fail on: limits per axis and registers.  They are checked when the
envelope has them (``AxisLimits``; None, the default, is the pinned rule).
"""

from __future__ import annotations

from enum import Enum, IntFlag
from typing import Annotated, Final, TypeAlias

from vyre.domain.errors import PlanError
from vyre.policies.arith import dim_product
from vyre.policies.record import U32, U32_MAX, U64, U64_MAX, IntRange, Reason, record, verdict, why_field

Dim3: TypeAlias = tuple[U32, U32, U32]

WARP: Final = 32
MAX_BLOCK: Final = 1024
NO_LIMIT: Final = 2**31 - 1
REGISTERS_PER_SM: Final = 65_536
MAX_REGISTERS_PER_THREAD: Final = 256
PARTITIONS: Final = 4
REGISTER_UNIT: Final = 256
SHARED_UNIT: Final = 128
RESERVED_SHARED: Final = 1024


@record
class SmModel:
    """One multiprocessor: resident threads (at least a warp) and blocks, bytes of shared memory in all and per block
    (opt-in), and named barriers for each resident block."""

    threads: Annotated[int, IntRange(WARP, U32_MAX)]
    blocks: U32
    shared_bytes: U32
    shared_bytes_per_block: U32
    barriers_per_block: U32

    @property
    def warps(self) -> int:
        return self.threads // WARP


SM_MODELS: Final = {
    "sm_80": SmModel(2048, 32, 167_936, 166_912, 2),
    "sm_86": SmModel(1536, 16, 102_400, 101_376, 2),
    "sm_89": SmModel(1536, 24, 102_400, 101_376, 2),
    "sm_90": SmModel(2048, 32, 233_472, 232_448, 2),
    "sm_100": SmModel(2048, 32, 233_472, 232_448, 2),
    "sm_120": SmModel(1536, 24, 102_400, 101_376, 1),
}


@record
class KernelUsage:
    """What one block of a kernel takes; ``block_size`` in threads."""

    regs_per_thread: U32
    static_shared_bytes: U32
    dynamic_shared_bytes: U32
    block_size: U32
    block_barriers: U32 = 1

    @property
    def warps(self) -> int:
        return _ceil(self.block_size, WARP)


class LimitingFactor(IntFlag):
    """What keeps one more block from fitting."""

    WARPS = 1
    REGISTERS = 2
    SHARED_MEMORY = 4
    BLOCKS = 8
    BARRIERS = 16


_FACTORS: Final = tuple(map(LimitingFactor, range(32)))
"""Every combination, by its bits."""


@verdict
class Occupancy:
    """Resident blocks, the limit each resource alone would set (``NO_LIMIT`` if unused), and which are tight."""

    active_blocks_per_sm: int
    limit_warps: int
    limit_regs: int
    limit_shared: int
    limit_blocks: int
    limit_barriers: int
    limiting_factors: LimitingFactor
    shared_allocated_per_block: int
    regs_allocated_per_block: int
    resident_warps: int
    occupancy_bps: int

    @property
    def runnable(self) -> bool:
        return self.active_blocks_per_sm > 0


def estimate(sm: SmModel, usage: KernelUsage) -> Occupancy:
    """Occupancy of ``usage`` on ``sm``; an empty or oversized block has none.

    ``occupancy_bps``: resident warps over the most the multiprocessor holds.
    """
    warps, warps_of_sm = usage.warps, sm.warps
    regs_per_warp = _round_up(usage.regs_per_thread * WARP, REGISTER_UNIT)
    shared = usage.static_shared_bytes + usage.dynamic_shared_bytes + RESERVED_SHARED
    shared_allocated = _round_up(shared, SHARED_UNIT)
    limits = (  # in the order of the factors
        warps_of_sm // warps if 0 < usage.block_size <= MAX_BLOCK else 0,
        _register_limit(usage.regs_per_thread, regs_per_warp, warps),
        sm.shared_bytes // shared_allocated if shared <= sm.shared_bytes_per_block + RESERVED_SHARED else 0,
        sm.blocks,
        sm.blocks * sm.barriers_per_block // usage.block_barriers if usage.block_barriers else NO_LIMIT,
    )
    blocks = min(limits)
    tight = 0
    for place, limit in enumerate(limits):
        tight |= (limit == blocks) << place
    return Occupancy(
        blocks,
        *limits,
        limiting_factors=_FACTORS[tight],
        shared_allocated_per_block=shared_allocated,
        regs_allocated_per_block=regs_per_warp * warps,
        resident_warps=blocks * warps,
        occupancy_bps=blocks * warps * 10_000 // warps_of_sm,
    )


def _register_limit(regs_per_thread: int, regs_per_warp: int, warps: int) -> int:
    if regs_per_warp == 0 or warps == 0:
        return NO_LIMIT
    if regs_per_thread > MAX_REGISTERS_PER_THREAD:
        return 0
    return REGISTERS_PER_SM // PARTITIONS // regs_per_warp * PARTITIONS // warps


@record
class BlockSizeInputs:
    """``usage.block_size`` is replaced by each candidate in turn."""

    sm: SmModel
    usage: KernelUsage
    candidates: tuple[U32, ...]


@verdict
class BlockSizeChoice:
    block_size: int
    occupancy: Occupancy
    why: Reason = why_field()


def pick_block_size(inputs: BlockSizeInputs) -> BlockSizeChoice | None:
    """The runnable candidate of highest occupancy, ties to the smaller; None if none runs.

    Occupancy is not speed: measure the candidates that come close.
    """
    best: BlockSizeChoice | None = None
    for size in sorted(inputs.candidates):
        u = inputs.usage
        usage = KernelUsage(u.regs_per_thread, u.static_shared_bytes, u.dynamic_shared_bytes, size, u.block_barriers)
        found = estimate(inputs.sm, usage)
        if found.runnable and (best is None or found.occupancy_bps > best.occupancy.occupancy_bps):
            why = Reason("{} threads keep {} bps of the warps resident", (size, found.occupancy_bps))
            best = BlockSizeChoice(size, found, why)
    return best


@record
class CooperativeInputs:
    sm: SmModel
    usage: KernelUsage
    sm_count: U32
    supports_cooperative_launch: bool


def max_cooperative_blocks(inputs: CooperativeInputs) -> int:
    """Largest grid whose blocks are all resident at once; 0 without cooperative launch."""
    if not inputs.supports_cooperative_launch:
        return 0
    return estimate(inputs.sm, inputs.usage).active_blocks_per_sm * inputs.sm_count


class PairObstacle(Enum):
    """Why two kernels cannot share a multiprocessor, in the order of the tests."""

    DEVICE_UNSUPPORTED = "device_unsupported"
    KERNEL_UNRUNNABLE = "kernel_unrunnable"
    WARP_RESIDENCY = "warp_residency"
    REGISTER_PRESSURE = "register_pressure"
    SHARED_MEMORY = "shared_memory"


@record
class PairInputs:
    sm: SmModel
    first: KernelUsage
    second: KernelUsage
    concurrent_kernels: bool


@verdict
class Concurrent:
    why: Reason = why_field()


@verdict
class NotConcurrent:
    obstacle: PairObstacle
    why: Reason = why_field()


def can_run_together(inputs: PairInputs) -> Concurrent | NotConcurrent:
    """``Concurrent`` iff one block of each fits on one multiprocessor."""
    a, b = estimate(inputs.sm, inputs.first), estimate(inputs.sm, inputs.second)
    warps = inputs.first.warps + inputs.second.warps
    registers = a.regs_allocated_per_block + b.regs_allocated_per_block
    shared = a.shared_allocated_per_block + b.shared_allocated_per_block
    obstacles = (
        (PairObstacle.DEVICE_UNSUPPORTED, not inputs.concurrent_kernels, "the device runs one kernel at a time"),
        (PairObstacle.KERNEL_UNRUNNABLE, not (a.runnable and b.runnable), "a kernel does not fit even alone"),
        (PairObstacle.WARP_RESIDENCY, warps > inputs.sm.warps, "their blocks have too many warps"),
        (PairObstacle.REGISTER_PRESSURE, registers > REGISTERS_PER_SM, "their blocks take too many registers"),
        (PairObstacle.SHARED_MEMORY, shared > inputs.sm.shared_bytes, "their blocks take too much shared memory"),
    )
    for obstacle, found, text in obstacles:
        if found:
            return NotConcurrent(obstacle, Reason(text))
    return Concurrent(Reason("one block of each fits"))


@record
class AxisLimits:
    """Largest block (threads) and grid (blocks) along x, y, z, and registers of a block."""

    block: Dim3
    grid: Dim3
    registers_per_block: U32


@record
class DeviceEnvelope:
    """What a device offers one launch."""

    sm_major: U32
    sm_minor: U32
    max_threads_per_block: U32
    shared_memory_per_block_bytes: U64
    supports_cooperative_launch: bool
    supports_tensor_cores: bool
    limits: AxisLimits | None = None


@record
class KernelRequirement:
    """What a kernel asks for."""

    min_sm_major: U32
    min_sm_minor: U32
    requested_threads_per_block: U32
    requested_shared_memory_bytes: U64
    requires_cooperative_launch: bool
    requires_tensor_cores: bool


@verdict
class SmVersion:
    required_major: int
    required_minor: int
    actual_major: int
    actual_minor: int

    def __str__(self) -> str:
        required, actual = (self.required_major, self.required_minor), (self.actual_major, self.actual_minor)
        return "sm_version(required={}.{},actual={}.{})".format(*required, *actual)


@verdict
class ThreadsPerBlock:
    requested: int
    maximum: int

    def __str__(self) -> str:
        return f"threads_per_block(requested={self.requested},max={self.maximum})"


@verdict
class SharedMemory:
    requested: int
    maximum: int

    def __str__(self) -> str:
        return f"shared_memory(requested={self.requested},max={self.maximum})"


@verdict
class CooperativeLaunch:
    def __str__(self) -> str:
        return "cooperative_launch"


@verdict
class TensorCores:
    def __str__(self) -> str:
        return "tensor_cores"


@verdict
class AxisLimit:
    """``what`` is ``block`` or ``grid``."""

    what: str
    axis: str
    requested: int
    maximum: int

    def __str__(self) -> str:
        return f"{self.what}_{self.axis}(requested={self.requested},max={self.maximum})"


@verdict
class Registers:
    requested: int
    maximum: int

    def __str__(self) -> str:
        return f"registers_per_block(requested={self.requested},max={self.maximum})"


LaunchFailure: TypeAlias = (
    SmVersion | ThreadsPerBlock | SharedMemory | CooperativeLaunch | TensorCores | AxisLimit | Registers
)


@verdict
class LaunchDiagnosis:
    """``stable_message`` is one log line whose form does not change."""

    failures: tuple[LaunchFailure, ...]
    is_launchable: bool
    stable_message: str


@record
class DiagnosisInputs:
    kernel: str
    device: DeviceEnvelope
    requirement: KernelRequirement


def diagnose(inputs: DiagnosisInputs) -> LaunchDiagnosis:
    """All failures, in a fixed order."""
    failures = _failures(inputs.device, inputs.requirement)
    return LaunchDiagnosis(failures, not failures, _message(inputs.kernel, failures))


@record
class LaunchShape:
    """``regs_per_thread`` counts only against an envelope with limits."""

    grid: Dim3
    block: Dim3
    dynamic_shared_memory_bytes: U32
    cooperative: bool
    requires_tensor_cores: bool
    regs_per_thread: U32 = 0


@record
class ShapeDiagnosisInputs:
    """``cooperative_resident_block_limit``: blocks that fit the device at once; None = not asked."""

    kernel: str
    device: DeviceEnvelope
    shape: LaunchShape
    cooperative_resident_block_limit: U64 | None


@verdict
class ShapeDiagnosis:
    grid_blocks: int
    threads_per_block: int
    requirement: KernelRequirement
    failures: tuple[LaunchFailure, ...]
    is_launchable: bool
    stable_message: str

    @property
    def label(self) -> str:
        return "fits" if self.is_launchable else "does not fit"


def diagnose_shape(inputs: ShapeDiagnosisInputs) -> ShapeDiagnosis:
    """Like ``diagnose`` for a launch shape.

    Raises ``PlanError``: ``DimensionOverflow``, before anything else is looked at, for a grid of more blocks than 64
    bits count or a block of more threads than 32 bits count; the grid is looked at first.
    """
    shape, limit = inputs.shape, inputs.cooperative_resident_block_limit
    grid_blocks = _product(shape.grid, U64_MAX, "grid blocks")
    threads = _product(shape.block, U32_MAX, "threads per block")
    requirement = KernelRequirement(
        0, 0, threads, shape.dynamic_shared_memory_bytes, shape.cooperative, shape.requires_tensor_cores
    )
    failures = _failures(inputs.device, requirement)
    if inputs.device.limits is not None:
        failures += _limit_failures(inputs.device.limits, shape, threads)
    message = [
        _message(inputs.kernel, failures),
        f"grid={list(shape.grid)}",
        f"block={list(shape.block)}",
        f"grid_blocks={grid_blocks}",
        f"threads_per_block={threads}",
        f"dynamic_shared_bytes={shape.dynamic_shared_memory_bytes}",
    ]
    resident = limit is None or grid_blocks <= limit
    if limit is not None:
        message.append(f"cooperative_resident_block_limit={limit}")
    if not resident:
        message.append(f"cooperative_residency=blocked(required={grid_blocks},limit={limit})")
    return ShapeDiagnosis(grid_blocks, threads, requirement, failures, resident and not failures, "|".join(message))


def _product(dims: Dim3, most: int, field: str) -> int:
    product = dim_product(dims, most)
    if product is None:
        raise PlanError("DimensionOverflow", field=field, dims=dims, maximum=most)
    return product


def _failures(device: DeviceEnvelope, asked: KernelRequirement) -> tuple[LaunchFailure, ...]:
    required, actual = (asked.min_sm_major, asked.min_sm_minor), (device.sm_major, device.sm_minor)
    threads, shared = asked.requested_threads_per_block, asked.requested_shared_memory_bytes
    found: list[LaunchFailure] = []
    if actual < required:
        found.append(SmVersion(*required, *actual))
    if threads > device.max_threads_per_block:
        found.append(ThreadsPerBlock(threads, device.max_threads_per_block))
    if shared > device.shared_memory_per_block_bytes:
        found.append(SharedMemory(shared, device.shared_memory_per_block_bytes))
    if asked.requires_cooperative_launch and not device.supports_cooperative_launch:
        found.append(CooperativeLaunch())
    if asked.requires_tensor_cores and not device.supports_tensor_cores:
        found.append(TensorCores())
    return tuple(found)


def _limit_failures(limits: AxisLimits, shape: LaunchShape, threads: int) -> tuple[LaunchFailure, ...]:
    found: list[LaunchFailure] = [
        AxisLimit(what, axis, size, most)
        for what, sizes, maxima in (("block", shape.block, limits.block), ("grid", shape.grid, limits.grid))
        for axis, size, most in zip("xyz", sizes, maxima, strict=True)
        if size > most
    ]
    registers = shape.regs_per_thread * threads
    if registers > limits.registers_per_block:
        found.append(Registers(registers, limits.registers_per_block))
    return tuple(found)


def _message(kernel: str, failures: tuple[LaunchFailure, ...]) -> str:
    status = f"status=blocked|fix={','.join(map(str, failures))}" if failures else "status=ok"
    return f"cuda-kernel-capability-v1|kernel={kernel}|{status}"


def _ceil(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit

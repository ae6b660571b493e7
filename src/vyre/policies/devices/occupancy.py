"""How many blocks of a kernel fit on a multiprocessor, and why can a kernel not be launched at all?

The estimator follows the hardware's allocation rules, which are published per architecture: registers are allocated per
warp in units of 256 and from four partitions, shared memory in units of 128 bytes with 1 KiB reserved per block, and
the number of resident blocks is limited.  It reproduces NVIDIA's occupancy calculator; for a loaded kernel the driver's
answer is authoritative.  All O(1).

vyre-driver knows none of these units, so it promises more blocks than fit (a cooperative launch then fails), and it
probes only the default limit of shared memory, so it refuses kernels that need the larger opt-in limit.

``diagnose_shape`` reports all reasons for a refusal at once, as data and as one stable log line.  Beyond what
vyre-driver checks, it checks the limits per axis and the registers, on which a launch can fail as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag
from typing import Annotated, Final, TypeAlias

from vyre.domain.errors import PlanError
from vyre.policies.arith import dim_product
from vyre.policies.record import U32, U32_MAX, U64, U64_MAX, IntRange, record, verdict

Dim3: TypeAlias = tuple[U32, U32, U32]

WARP: Final = 32
"""Threads of a warp."""
MAX_BLOCK: Final = 1024
"""Most threads of a block."""
NO_LIMIT: Final = 2**31 - 1
"""The limit that an unused resource sets."""
REGISTERS_PER_SM: Final = 65_536
MAX_REGISTERS_PER_THREAD: Final = 256
PARTITIONS: Final = 4
"""Partitions of a multiprocessor's registers."""
REGISTER_UNIT: Final = 256
"""Registers of a warp are allocated in multiples of this number."""
SHARED_UNIT: Final = 128
"""Bytes of shared memory are allocated in multiples of this number."""
RESERVED_SHARED: Final = 1024
"""Bytes of shared memory that the system reserves per block, from sm_80 on."""
_MESSAGE: Final = "cuda-kernel-capability-v1"


@record
class SmModel:
    """The limits of one multiprocessor.

    They are the resident threads (at least a warp) and blocks, the bytes of shared memory in total and per block
    (opt-in), the named barriers per resident block, and the bytes of shared memory that each block takes in addition.
    """

    threads: Annotated[int, IntRange(WARP, U32_MAX)]
    blocks: U32
    shared_bytes: U32
    shared_bytes_per_block: U32
    barriers_per_block: U32
    reserved_shared: U32 = RESERVED_SHARED

    @property
    def warps(self) -> int:
        """Number of resident warps."""
        return self.threads // WARP


SM_MODELS: Final = {
    "sm_80": SmModel(2048, 32, 167_936, 166_912, 2),
    "sm_86": SmModel(1536, 16, 102_400, 101_376, 2),
    "sm_89": SmModel(1536, 24, 102_400, 101_376, 2),
    "sm_90": SmModel(2048, 32, 233_472, 232_448, 2),
    "sm_100": SmModel(2048, 32, 233_472, 232_448, 2),
    "sm_120": SmModel(1536, 24, 102_400, 101_376, 1),
}
"""Models by architecture, as in the table of technical specifications of NVIDIA's CUDA Programming Guide.

The named barriers are those of its ``cuda_occupancy.h``: for compute capability 12 one for each block.
"""


@record
class KernelUsage:
    """The resources that one block of a kernel takes; ``block_size`` is in threads, and barriers are named ones."""

    regs_per_thread: U32
    static_shared_bytes: U32
    dynamic_shared_bytes: U32
    block_size: U32
    block_barriers: U32

    @property
    def warps(self) -> int:
        """Number of warps of a block, the last of which may be partly filled."""
        return -(-self.block_size // WARP)


class LimitingFactor(IntFlag):
    """The resources that keep one more block from fitting."""

    WARPS = 1
    REGISTERS = 2
    SHARED_MEMORY = 4
    BLOCKS = 8
    BARRIERS = 16


_FACTORS: Final = tuple(map(LimitingFactor, range(32)))
"""Every combination, by its bits."""


@verdict
class Occupancy:
    """The number of resident blocks and the limit that each resource alone would set (``NO_LIMIT`` if it is unused).

    ``limiting_factors`` are the resources whose limit is the lowest.  ``occupancy_bps`` is the share of the
    multiprocessor's warps that are resident.
    """

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
        """Whether at least one block fits."""
        return self.active_blocks_per_sm > 0


def estimate(sm: SmModel, usage: KernelUsage) -> Occupancy:
    """Returns the occupancy of ``usage`` on ``sm``; it is 0 for an empty or oversized block.

    ``occupancy_bps`` is the number of resident warps over the most that the multiprocessor holds.
    """
    warps, warps_of_sm = usage.warps, sm.warps
    regs_per_warp = _round_up(usage.regs_per_thread * WARP, REGISTER_UNIT)
    shared = usage.static_shared_bytes + usage.dynamic_shared_bytes + sm.reserved_shared
    shared_allocated = _round_up(shared, SHARED_UNIT)
    limits = (  # in the order of the factors
        warps_of_sm // warps if 0 < usage.block_size <= MAX_BLOCK else 0,
        _register_limit(usage.regs_per_thread, regs_per_warp, warps),
        _shared_limit(sm, shared, shared_allocated),
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


def _shared_limit(sm: SmModel, shared: int, allocated: int) -> int:
    if shared > sm.shared_bytes_per_block + sm.reserved_shared:
        return 0
    return sm.shared_bytes // allocated if allocated else NO_LIMIT


def _register_limit(regs_per_thread: int, regs_per_warp: int, warps: int) -> int:
    if regs_per_warp == 0 or warps == 0:
        return NO_LIMIT
    if regs_per_thread > MAX_REGISTERS_PER_THREAD:
        return 0
    return REGISTERS_PER_SM // PARTITIONS // regs_per_warp * PARTITIONS // warps


@record
class AxisLimits:
    """The largest block (threads) and grid (blocks) along x, y, z, and the registers of a block."""

    block: Dim3
    grid: Dim3
    registers_per_block: U32


@record
class DeviceEnvelope:
    """The limits and features that a device offers to one launch."""

    max_threads_per_block: U32
    shared_memory_per_block_bytes: U64
    supports_cooperative_launch: bool
    limits: AxisLimits


@verdict
class ThreadsPerBlock:
    """The block has too many threads."""

    requested: int
    maximum: int

    def __str__(self) -> str:
        return f"threads_per_block(requested={self.requested},max={self.maximum})"


@verdict
class SharedMemory:
    """The block takes too many bytes of shared memory."""

    requested: int
    maximum: int

    def __str__(self) -> str:
        return f"shared_memory(requested={self.requested},max={self.maximum})"


@verdict
class CooperativeLaunch:
    """The device has no cooperative launch."""

    def __str__(self) -> str:
        return "cooperative_launch"


@verdict
class AxisLimit:
    """The launch is too large along one axis; ``what`` is ``block`` or ``grid``."""

    what: str
    axis: str
    requested: int
    maximum: int

    def __str__(self) -> str:
        return f"{self.what}_{self.axis}(requested={self.requested},max={self.maximum})"


@verdict
class Registers:
    """The block takes too many registers."""

    requested: int
    maximum: int

    def __str__(self) -> str:
        return f"registers_per_block(requested={self.requested},max={self.maximum})"


LaunchFailure: TypeAlias = ThreadsPerBlock | SharedMemory | CooperativeLaunch | AxisLimit | Registers


@record
class LaunchShape:
    """The shape of a launch."""

    grid: Dim3
    block: Dim3
    dynamic_shared_memory_bytes: U32
    cooperative: bool
    regs_per_thread: U32


@record
class ShapeDiagnosisInputs:
    """A launch shape and a device.

    ``cooperative_resident_block_limit`` is the number of blocks that fit the device at once; None leaves this
    unchecked.
    """

    kernel: str
    device: DeviceEnvelope
    shape: LaunchShape
    cooperative_resident_block_limit: U64 | None


@verdict
class ShapeDiagnosis:
    """The size of a launch, and the reasons why it does not fit the device, if any.

    ``stable_message`` is one log line whose form does not change between versions.
    """

    grid_blocks: int
    threads_per_block: int
    failures: tuple[LaunchFailure, ...]
    is_launchable: bool
    stable_message: str

    @property
    def label(self) -> str:
        """Whether the launch fits, for telemetry."""
        return "fits" if self.is_launchable else "does not fit"


def diagnose_shape(inputs: ShapeDiagnosisInputs) -> ShapeDiagnosis:
    """Returns all reasons why a launch of this shape is refused, in a fixed order.

    Raises ``PlanError("DimensionOverflow")``, before any other check, for a grid of more blocks than 64 bits count or a
    block of more threads than 32 bits count.  The grid is checked first.
    """
    device, shape, limit = inputs.device, inputs.shape, inputs.cooperative_resident_block_limit
    grid_blocks = _product(shape.grid, U64_MAX, "grid blocks")
    threads = _product(shape.block, U32_MAX, "threads per block")
    failures: tuple[LaunchFailure, ...] = (
        *_failures(device, threads, shape.dynamic_shared_memory_bytes, shape.cooperative),
        *_limit_failures(device.limits, shape, threads),
    )
    resident = limit is None or grid_blocks <= limit
    message = _message(inputs, grid_blocks, threads, _named(failures))
    return ShapeDiagnosis(grid_blocks, threads, failures, resident and not failures, message)


def _product(dims: Dim3, most: int, field: str) -> int:
    product = dim_product(dims, most)
    if product is None:
        raise PlanError("DimensionOverflow", field=field, dims=dims, maximum=most)
    return product


def _failures(
    device: DeviceEnvelope, threads: int, shared: int, cooperative: bool
) -> tuple[ThreadsPerBlock | SharedMemory | CooperativeLaunch, ...]:
    """Returns what is wrong with a block of so many threads and bytes of shared memory."""
    failures: list[ThreadsPerBlock | SharedMemory | CooperativeLaunch] = []
    if threads > device.max_threads_per_block:
        failures.append(ThreadsPerBlock(threads, device.max_threads_per_block))
    if shared > device.shared_memory_per_block_bytes:
        failures.append(SharedMemory(shared, device.shared_memory_per_block_bytes))
    if cooperative and not device.supports_cooperative_launch:
        failures.append(CooperativeLaunch())
    return tuple(failures)


def _limit_failures(limits: AxisLimits, shape: LaunchShape, threads: int) -> tuple[LaunchFailure, ...]:
    failures: list[LaunchFailure] = [
        AxisLimit(what, axis, size, most)
        for what, sizes, maxima in (("block", shape.block, limits.block), ("grid", shape.grid, limits.grid))
        for axis, size, most in zip("xyz", sizes, maxima, strict=True)
        if size > most
    ]
    registers = shape.regs_per_thread * threads
    if registers > limits.registers_per_block:
        failures.append(Registers(registers, limits.registers_per_block))
    return tuple(failures)


def _named(failures: Iterable[object]) -> str:
    texts = ",".join(map(str, failures))
    return f"status=blocked|fix={texts}" if texts else "status=ok"


def _message(inputs: ShapeDiagnosisInputs, grid_blocks: int, threads: int, status: str) -> str:
    shape, limit = inputs.shape, inputs.cooperative_resident_block_limit
    message = [
        f"{_MESSAGE}|kernel={inputs.kernel}|{status}",
        f"grid={list(shape.grid)}",
        f"block={list(shape.block)}",
        f"grid_blocks={grid_blocks}",
        f"threads_per_block={threads}",
        f"dynamic_shared_bytes={shape.dynamic_shared_memory_bytes}",
    ]
    if limit is not None:
        message.append(f"cooperative_resident_block_limit={limit}")
        if grid_blocks > limit:
            message.append(f"cooperative_residency=blocked(required={grid_blocks},limit={limit})")
    return "|".join(message)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit

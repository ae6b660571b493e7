"""Which block size keeps most of a multiprocessor busy, how large may a cooperative grid be, and do two kernels share a
multiprocessor?

They follow from the estimate of ``vyre.policies.devices.occupancy``.  All O(1), picking O(candidates).
"""

from __future__ import annotations

from enum import Enum

from vyre.policies.devices.occupancy import REGISTERS_PER_SM, KernelUsage, Occupancy, SmModel, estimate
from vyre.policies.record import U32, Reason, record, verdict, why_field


@record
class BlockSizeInputs:
    """A kernel and the block sizes to compare; each candidate in turn replaces ``usage.block_size``."""

    sm: SmModel
    usage: KernelUsage
    candidates: tuple[U32, ...]


@verdict
class BlockSizeChoice:
    """The chosen block size in threads, and its occupancy."""

    block_size: int
    occupancy: Occupancy
    why: Reason = why_field()


def pick_block_size(inputs: BlockSizeInputs) -> BlockSizeChoice | None:
    """Returns the runnable candidate of highest occupancy, the smallest of several; None if none can run.

    Occupancy is not speed: candidates of similar occupancy should be measured.
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
    """A kernel, and a device of ``sm_count`` multiprocessors of the model ``sm``."""

    sm: SmModel
    usage: KernelUsage
    sm_count: U32
    supports_cooperative_launch: bool


def max_cooperative_blocks(inputs: CooperativeInputs) -> int:
    """Returns the largest grid whose blocks are all resident at once; 0 without cooperative launch."""
    if not inputs.supports_cooperative_launch:
        return 0
    return estimate(inputs.sm, inputs.usage).active_blocks_per_sm * inputs.sm_count


class PairObstacle(Enum):
    """Why two kernels cannot share a multiprocessor, in the order of the checks."""

    DEVICE_UNSUPPORTED = "device_unsupported"
    KERNEL_UNRUNNABLE = "kernel_unrunnable"
    WARP_RESIDENCY = "warp_residency"
    REGISTER_PRESSURE = "register_pressure"
    SHARED_MEMORY = "shared_memory"


@record
class PairInputs:
    """Two kernels for one multiprocessor."""

    sm: SmModel
    first: KernelUsage
    second: KernelUsage
    concurrent_kernels: bool


@verdict
class Concurrent:
    """The kernels can share a multiprocessor."""

    why: Reason = why_field()


@verdict
class NotConcurrent:
    """The kernels cannot share a multiprocessor; ``obstacle`` is the first check that failed."""

    obstacle: PairObstacle
    why: Reason = why_field()


def can_run_together(inputs: PairInputs) -> Concurrent | NotConcurrent:
    """Returns ``Concurrent`` iff one block of each kernel fits on one multiprocessor."""
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

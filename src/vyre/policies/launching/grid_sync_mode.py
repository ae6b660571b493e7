"""A barrier of the whole grid: inside one cooperative kernel, or between kernels into which the program is split?

A native barrier needs every workgroup of the grid to be resident at once, or the first ones wait for others that can
never start; splitting is right for every grid and costs one launch for each part.  O(1).
"""

from __future__ import annotations

from enum import Enum

from vyre.policies.record import U32, U64, Reason, record, verdict, why_field


class GridSyncMode(Enum):
    """NATIVE: one cooperative kernel.  SPLIT: a kernel for each part, in order on one stream."""

    NATIVE = "native"
    SPLIT = "split"


@record
class GridSyncInputs:
    """``cooperative``: the device launches cooperative kernels.  ``workgroups``: of the grid.

    ``multiprocessors`` of the device, and ``resident_per_multiprocessor``: workgroups of the native kernel that one of
    them holds.  ``forced`` is what the caller asks for, None = either.
    """

    cooperative: bool
    workgroups: U64
    multiprocessors: U32
    resident_per_multiprocessor: U32
    forced: GridSyncMode | None = None


@verdict
class GridSyncVerdict:
    """``possible`` is False only where the native barrier is forced and cannot work."""

    mode: GridSyncMode
    possible: bool = True
    why: Reason = why_field()


def choose_grid_sync(inputs: GridSyncInputs) -> GridSyncVerdict:
    """Native where the grid fits the device as a whole (the boundary fits), else split."""
    if inputs.forced is GridSyncMode.SPLIT:
        return GridSyncVerdict(GridSyncMode.SPLIT, why=Reason("split kernels are asked for"))
    obstacle = _obstacle(inputs)
    if obstacle is None:
        resident = inputs.multiprocessors * inputs.resident_per_multiprocessor
        fits = Reason("{} workgroups are resident at once, up to {} can be", (inputs.workgroups, resident))
        return GridSyncVerdict(GridSyncMode.NATIVE, why=fits)
    if inputs.forced is GridSyncMode.NATIVE:
        return GridSyncVerdict(GridSyncMode.NATIVE, possible=False, why=obstacle)
    return GridSyncVerdict(GridSyncMode.SPLIT, why=obstacle)


def _obstacle(inputs: GridSyncInputs) -> Reason | None:
    """Why the native barrier cannot work."""
    if not inputs.cooperative:
        return Reason("the device launches no cooperative kernels")
    resident = inputs.multiprocessors * inputs.resident_per_multiprocessor
    if inputs.workgroups > resident:
        return Reason(
            "{} workgroups do not fit {} multiprocessors of {} each",
            (inputs.workgroups, inputs.multiprocessors, inputs.resident_per_multiprocessor),
        )
    return None

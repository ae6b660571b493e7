"""Does a barrier of the whole grid run inside one cooperative kernel, or between kernels into which the program is
split?

A native barrier needs every workgroup of the grid to be resident at once; otherwise the first ones wait for workgroups
that can never start.  Splitting is correct for every grid and costs one launch for each part.  O(1).
"""

from __future__ import annotations

from enum import Enum

from vyre.policies.record import U32, U64, Reason, record, verdict, why_field


class GridSyncMode(Enum):
    """``NATIVE`` is one cooperative kernel, ``SPLIT`` a kernel for each part, in order on one stream."""

    NATIVE = "native"
    SPLIT = "split"


@record
class GridSyncInputs:
    """A grid and a device.

    - ``cooperative``: whether the device launches cooperative kernels.
    - ``workgroups``: number of workgroups of the grid.
    - ``multiprocessors``: number of multiprocessors of the device.
    - ``resident_per_multiprocessor``: workgroups of the native kernel that one multiprocessor holds.
    - ``forced``: the mode that the caller requires; None for either.
    """

    cooperative: bool
    workgroups: U64
    multiprocessors: U32
    resident_per_multiprocessor: U32
    forced: GridSyncMode | None = None


@verdict
class GridSyncVerdict:
    """The mode; ``possible`` is False only where the native barrier is forced and cannot work."""

    mode: GridSyncMode
    possible: bool = True
    why: Reason = why_field()


def choose_grid_sync(inputs: GridSyncInputs) -> GridSyncVerdict:
    """Returns the native mode if the grid fits the device as a whole (equality fits), else splitting."""
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
    """Returns why the native barrier cannot work, or None."""
    if not inputs.cooperative:
        return Reason("the device launches no cooperative kernels")
    resident = inputs.multiprocessors * inputs.resident_per_multiprocessor
    if inputs.workgroups > resident:
        return Reason(
            "{} workgroups do not fit {} multiprocessors of {} each",
            (inputs.workgroups, inputs.multiprocessors, inputs.resident_per_multiprocessor),
        )
    return None

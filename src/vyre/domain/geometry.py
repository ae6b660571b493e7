"""The number of workgroups of a launch and its reason: inferred for one dimension, given for two and three."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from math import prod
from operator import gt
from typing import Final, NamedTuple

from vyre.domain.errors import DeviceLimitExceeded, InvalidConfig
from vyre.domain.names import Dim3
from vyre.domain.record import U32_MAX, U64_MAX


class LaunchLimits(NamedTuple):
    """The largest workgroup (lanes, total and per axis) and grid (workgroups per axis); None = unknown, unchecked.

    ``max_unfolded_grid``: the workgroups of a grid with a longer axis follow each other along x.  The last two limit
    programs, and no single launch.
    """

    backend: str
    max_invocations_per_workgroup: int | None = None
    max_workgroup_size: Dim3 | None = None
    max_grid_size: Dim3 | None = None
    max_unfolded_grid: Dim3 | None = None
    max_shared_memory_bytes: int | None = None
    max_storage_buffer_bytes: int | None = None

    def excess(self, limit: str, what: str, needed: int, offered: int) -> DeviceLimitExceeded:
        """Returns the error of a size above the limit of this name."""
        return DeviceLimitExceeded(what=what, limit=limit, needed=needed, offered=offered, backend=self.backend)

    def check_buffer(self, name: str, nbytes: int) -> None:
        """Raises ``DeviceLimitExceeded`` for a buffer that is larger than the device allows."""
        most = self.max_storage_buffer_bytes
        if most is not None and nbytes > most:
            error = self.excess("max_storage_buffer_bytes", f"number of bytes in buffer `{name}`", nbytes, most)
            error.buffer = name
            raise error


class GridRule(Enum):
    """The rule that chose the grid of a launch; ``value`` is a sentence about it."""

    GIVEN_GRID = "The grid was given."
    GIVEN_EXTENT = "The extent was given, and the grid covers it."
    GIVEN_COUNT = "The number of elements was given, and the grid covers it."
    LARGEST_OUTPUT = "The grid covers the largest returned buffer, because the program only maps elements."
    LARGEST_BUFFER = (
        "The grid covers the largest buffer of any kind, because the program uses workgroup memory or atomics."
    )
    NOTHING_RETURNED = "The grid covers the largest buffer of any kind, because no element is returned."
    REACHED = "The grid covers the indices that the ids of lanes and workgroups reach in the arrays."

    def __str__(self) -> str:
        return self.value


class Reach(NamedTuple):
    """A part of an array that the ids of one axis reach, from which lanes are counted.

    ``axis``: of the array, counted from the last one; None: all elements.  ``ids``: how many ids one index takes, as a
    fraction.  ``more``: by how much an index is smaller than its id.  ``most``: a number of ids that depends on no
    size, else 0.  ``of_groups``: the ids are those of workgroups.
    """

    buffer: str
    axis: int | None = None
    ids: tuple[int, int] = (1, 1)
    more: int = 0
    most: int = 0
    of_groups: bool = False

    def count_lanes(self, shape: Sequence[int], lanes: int) -> int:
        """Returns the number of lanes for an array of this shape, and so many ``lanes`` of a workgroup."""
        size = prod(shape) if self.axis is None else shape[-1 - self.axis]
        numerator, denominator = self.ids
        ids = (self.most or -(-(size + self.more) * numerator // denominator)) if size else 0
        return ids * lanes if self.of_groups else ids


class LaneReach(NamedTuple):
    """What decides how many lanes a launch needs: for each axis the parts of arrays that its ids reach.

    ``reads``: the axes along which the program reads the position of a lane or a workgroup in the grid.
    """

    reads: frozenset[int] = frozenset()
    axes: tuple[tuple[Reach, ...], ...] = ((), (), ())


NO_REACH: Final = LaneReach()
"""The words for a program whose ids reach nothing that counts lanes."""


class ReachedExtent(tuple[int, ...]):
    """An extent that was inferred from what the ids of a kernel reach, and not given."""

    __slots__ = ()


class LaunchGeometry(NamedTuple):
    """The geometry of one launch and the rule that chose it.

    ``grid`` counts workgroups and ``workgroup`` counts lanes, each along x, y and z.  ``extent`` counts the requested
    lanes: as given, or one axis with the inferred number of elements; None where the grid itself was given.
    """

    grid: Dim3
    workgroup: Dim3
    extent: tuple[int, ...] | None
    rule: GridRule

    def __str__(self) -> str:
        lanes = "" if self.extent is None else f" for {_axes(self.extent)} lanes"
        return f"{_axes(self.grid)} workgroups of {_axes(self.workgroup)} lanes{lanes}. {self.rule}"


def _axes(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def counting_rule(returned: list[int], *, driven_by_input: bool) -> GridRule:
    """Returns the rule that chooses the number of elements of a launch.

    ``returned`` holds the number of elements of each returned buffer.
    """
    if driven_by_input:
        return GridRule.LARGEST_BUFFER
    return GridRule.LARGEST_OUTPUT if any(returned) else GridRule.NOTHING_RETURNED


def element_count(returned: list[int], others: list[int], *, driven_by_input: bool) -> int:
    """Returns the number of elements that a launch covers; 0 where no buffer has one, 1 without buffers.

    The largest returned buffer determines the count of a program that only maps elements.  With workgroup memory or
    atomics (reductions, accumulators), or nothing returned, the largest buffer of any kind does.
    """
    if counting_rule(returned, driven_by_input=driven_by_input) is GridRule.LARGEST_OUTPUT:
        return max(returned)
    return max([*returned, *others], default=1)


def infer_grid(count: int, workgroup: Dim3) -> Dim3:
    """Returns the workgroups that cover ``count`` elements along x, at least one.

    Raises ``InvalidConfig`` for an empty, 2-D or 3-D workgroup.
    """
    x, y, z = workgroup
    if x < 1 or y != 1 or z != 1:
        raise InvalidConfig(
            f"the grid of a workgroup of {workgroup} cannot be inferred",
            fix="give grid=(x, y, z) in workgroups or extent=(x, y[, z]) in lanes.",
        )
    return (max(1, -(-count // x)), 1, 1)


def grid_of_extent(extent: tuple[int, ...], workgroup: Dim3) -> Dim3:
    """Returns the workgroups that cover an extent in lanes; an axis that is left out has size 1."""
    x, y, z = (-(-n // w) for n, w in zip((*extent, 1, 1, 1)[:3], workgroup, strict=True))
    return x, y, z


def check_geometry(grid: Dim3, workgroup: Dim3, limits: LaunchLimits) -> None:
    """Raises ``InvalidConfig`` (ids must fit 32 bits) or ``DeviceLimitExceeded`` (a limit of the backend)."""
    for axis, groups, lanes in zip("xyz", grid, workgroup, strict=True):
        if groups * lanes > U32_MAX + 1:
            raise InvalidConfig(
                f"the grid has {groups} workgroups of {lanes} lanes along {axis}; ids are 32 bits wide",
                fix="use fewer workgroups, or another axis.",
            )
    if prod(grid) > U64_MAX:
        raise InvalidConfig(f"the grid has {_axes(grid)} workgroups", fix="use at most 2^64-1 workgroups in all.")
    check_limits(grid, workgroup, limits)


def check_limits(grid: Dim3, workgroup: Dim3, limits: LaunchLimits) -> None:
    """Raises ``DeviceLimitExceeded`` for a workgroup or grid above a limit of the backend."""
    for excess in excesses(grid, workgroup, limits):
        raise excess


def excesses(grid: Dim3, workgroup: Dim3, limits: LaunchLimits) -> Iterator[DeviceLimitExceeded]:
    """Yields what is above a limit: the lanes of the workgroup, the axes of workgroup and grid, and all workgroups."""
    total, most_lanes = prod(workgroup), limits.max_invocations_per_workgroup
    if most_lanes is not None and total > most_lanes:
        yield limits.excess("max_invocations_per_workgroup", "number of lanes in a workgroup", total, most_lanes)
    for what, sizes, most in (
        ("workgroup", workgroup, limits.max_workgroup_size),
        ("grid", grid, limits.max_grid_size),
    ):
        for axis, size, limit in zip("xyz", sizes, most or sizes, strict=True):
            if size > limit:
                yield limits.excess(f"max_{what}_size", f"{what} size along {axis}", size, limit)
    unfolded, longest = limits.max_unfolded_grid, limits.max_grid_size
    if unfolded is not None and longest is not None and any(map(gt, grid, unfolded)) and prod(grid) > longest[0]:
        what = f"number of workgroups in a grid that has {_axes(grid)}, more along an axis than {_axes(unfolded)},"
        yield limits.excess("max_unfolded_grid", what, prod(grid), longest[0])

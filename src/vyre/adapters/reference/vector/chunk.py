"""State of the running chunk of workgroups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vyre.adapters.lanes.types import Dense
from vyre.adapters.reference.engine import RunOptions
from vyre.adapters.reference.vector.affine import Value
from vyre.adapters.reference.vector.lanes_context import Context, Grid, Indices, linear_global_ids, select
from vyre.adapters.reference.vector.storage import Storage
from vyre.domain.errors import BackendError, DispatchTimeout, StepBudgetExceeded, TrapError
from vyre.domain.ir.program import Dim3
from vyre.domain.launch import Launch

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Local:
    """A local variable, or a value that a loop keeps, with the lanes that the value is an array of."""

    __slots__ = ("home", "value")

    def __init__(self, value: Value, home: Context) -> None:
        self.value: Value = value
        self.home: Context = home


class Captured(NamedTuple):
    """Bytes that an async copy of one lane has read and not yet written, for byte ``start`` of ``destination``."""

    destination: str
    start: int
    payload: bytes


class Failures:
    """The failing lane with the lowest linear global id so far."""

    __slots__ = ("error", "lane")

    def __init__(self) -> None:
        self.lane: int = -1
        self.error: BackendError | None = None

    def offer(self, lane: int, error: BackendError) -> None:
        """Records a failure if its lane is lower than that of the present one."""
        if self.error is None or lane < self.lane:
            self.lane, self.error = lane, error


@dataclass(slots=True)
class Chunk:
    """Workgroups from ``group`` on along one axis of the grid, ``dims[0]`` of them.

    ``in_phase``: the result may depend on the order of accesses inside a workgroup, so that its lanes must not be run
    in parts.  ``locals``: by slot; None before the declaration, and where a loop has not kept a value yet.
    ``continuing``: by loop, the lanes that wait for its next round.  ``ended``: lanes that returned or trapped.
    ``pending``: by tag and lane.
    """

    grid: Grid
    group: Dim3
    along: int
    launch: Launch
    options: RunOptions
    buffers: dict[str, Storage]
    locals: list[Local | None]
    continuing: list[list[Context]]
    failures: Failures
    in_phase: bool
    ended: list[Context] = field(default_factory=list)
    pending: dict[str, dict[int, Captured]] = field(default_factory=dict)
    steps: NDArray[np.int64] | None = None

    def global_ids(self, numbers: Indices) -> NDArray[np.int64]:
        """Returns linear global ids of the lanes with these numbers."""
        return linear_global_ids(self.launch, self.group, self.along, self.grid, numbers)

    def global_id(self, number: int) -> Dim3:
        """Returns the global id of a lane along x, y, z."""
        w, z, y, x = (int(c[number]) for c in self.grid.coordinates())
        sx, sy, sz = self.launch.workgroup
        group = list(self.group)
        group[self.along] += w
        return group[0] * sx + x, group[1] * sy + y, group[2] * sz + z

    def trap(self, ctx: Context, address: Dense, tag: str) -> None:
        """Ends the lanes; records the one with the lowest linear global id."""
        ids = self.global_ids(ctx.numbers)
        first = int(np.argmin(ids))
        where = int(address.reshape(-1)[first]) if isinstance(address, np.ndarray) else int(address)
        number = int(ctx.numbers[first])
        self.failures.offer(int(ids[first]), TrapError(tag=tag, address=where, global_id=self.global_id(number)))
        self.ended.append(ctx)

    def take_step(self, ctx: Context, site: str | None) -> Context | None:
        """Counts a back-edge of the loop at a site for every lane; lanes beyond the budget end."""
        if self.options.is_late is not None and self.options.is_late():
            raise DispatchTimeout("the deadline passed inside a loop")
        budget = self.options.step_budget
        if budget is None:
            return ctx
        numbers = ctx.numbers
        carried = self.options.steps_used
        ids = self.global_ids(numbers)
        if carried is not None:
            carried[ids] += np.uint64(1)
            used = carried[ids].astype(np.int64)
        else:
            if self.steps is None:
                self.steps = np.zeros(self.grid.lanes, np.int64)
            self.steps[numbers] += 1
            used = self.steps[numbers]
        over = used > budget
        if not over.any():
            return ctx
        first = int(np.argmin(np.where(over, ids, np.iinfo(np.int64).max)))
        where = self.global_id(int(numbers[first]))
        self.failures.offer(int(ids[first]), StepBudgetExceeded(budget=budget, global_id=where, site=site))
        lost = select(ctx, over)
        assert lost is not None
        self.ended.append(lost)
        return select(ctx, ~over)

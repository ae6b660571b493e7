"""Calls of queries, planned and given memory: what calls with inputs of the same lengths have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from vyre.app.host_arrays import HostOutputs
from vyre.app.lease import BackendLease
from vyre.app.queries.inputs import Columns, SharedInputs
from vyre.app.queries.plan import QueriesPlan, QueryGroup
from vyre.app.resident import ResidentArray
from vyre.app.resident_dispatch import Sizes, resolve_sizes
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import PlanError
from vyre.domain.ir.buffers import outputs_of
from vyre.domain.ir.program import Program
from vyre.domain.queries import BatchedQueries, CannotBatch, QueryLaunch, batch_queries
from vyre.domain.upload_reuse import UploadReuse
from vyre.ports.requests import ResidentStep, Resource
from vyre.ports.resident_buffer import ResidentBuffer

_BYTE: Final = np.dtype(np.uint8)


class Returned(NamedTuple):
    """A buffer that queries return: the bytes from ``start`` to ``stop`` of each row, which are ``elements``."""

    name: str
    start: int
    stop: int
    elements: int


class Planned(NamedTuple):
    """A call as it was decided: the program of all queries, and the plan.

    ``nbytes`` are the bytes that one query has of each buffer that is not shared, and ``outputs`` the arrays in which
    those in ``returned`` reach the host.
    """

    batched: BatchedQueries | CannotBatch
    plan: QueriesPlan
    nbytes: dict[str, int]
    returned: tuple[Returned, ...]
    outputs: HostOutputs


class Group(NamedTuple):
    """The queries from ``start`` to ``stop``, which are in memory at once: ``memory`` holds their slabs by name.

    ``steps`` is the launch of all of them; None where each is launched by itself.
    """

    start: int
    stop: int
    memory: dict[str, ResidentBuffer]
    steps: tuple[ResidentStep] | None


class Prepared(NamedTuple):
    """A planned call with memory, for all calls of the same ``key``."""

    key: tuple[object, ...]
    planned: Planned
    groups: tuple[Group, ...]


class QueryPlanner:
    """Plans calls of one program, and gives them memory.  ``budget``: the most bytes of shared memory and slabs."""

    def __init__(
        self, lease: BackendLease, program: Program, config: DispatchConfig, shared: SharedInputs, budget: int
    ) -> None:
        self._lease = lease
        self._program = program
        self._config = config
        self._shared = shared
        self._budget = budget
        self._slabs: dict[str, ResidentArray] = {}

    def planned(self, columns: Columns) -> Planned:
        """Decides about a call.  Raises ``InvalidInput`` and ``PlanError``."""
        program, lease, shared = self._program, self._lease, self._shared
        arguments: dict[str, object] = {**shared.arrays, **shared.numbers, **columns.numbers}
        arguments |= {name: columns.row(name, 0) for name in columns.own}
        sizes = resolve_sizes(lease, program, self._config, shared.inputs, arguments)
        common = shared.names | columns.numbers.keys()
        nbytes = {b.name: n for b, n, _ in sizes.bindings if b.name not in common}
        batched = self._batched(sizes, common)
        frontier = sum(nbytes[name] for name in columns.own)
        output = sum(nbytes.values()) - frontier
        most = columns.queries if isinstance(batched, CannotBatch) else min(columns.queries, batched.most)
        groups = self._groups(columns.queries, most, frontier, output)
        reuse = UploadReuse(1, columns.queries - 1, shared.nbytes, (columns.queries - 1) * shared.nbytes)
        is_batched = not isinstance(batched, CannotBatch)
        why = f"a group is one launch, of {program.name or 'the program'} over slabs"
        if isinstance(batched, CannotBatch):
            why = f"each query is a launch of its own, because {batched.reason}"
        returned, outputs = self._returned(sizes, nbytes)
        return Planned(batched, QueriesPlan(columns.queries, is_batched, why, groups, reuse), nbytes, returned, outputs)

    def prepare(self, columns: Columns) -> Prepared:
        """Plans a call, and allocates the memory that it needs beside what an earlier call left."""
        planned = self.planned(columns)
        sizes = [len(group.queries) for group in planned.plan.groups]
        self._allocate({name: nbytes * max(sizes) for name, nbytes in planned.nbytes.items()})
        groups: list[Group] = []
        steps: dict[int, Group] = {}
        start = 0
        for size in sizes:
            group = steps.get(size)
            if group is None:
                group = steps[size] = self._group(planned, columns, size)
            groups.append(group._replace(start=start, stop=start + size))
            start += size
        return Prepared(columns.key, planned, tuple(groups))

    def step(self, planned: Planned, columns: Columns, group: Group, query: int) -> ResidentStep:
        """Returns the launch of one query by itself."""
        resources: list[Resource] = []
        for buffer in self._program.abi_buffers:
            nbytes = planned.nbytes.get(buffer.name)
            if nbytes is None:
                resources.append(self._common(columns, buffer.name))
            elif buffer.is_push:
                resources.append(columns.row(buffer.name, query))
            else:
                resources.append(group.memory[buffer.name].view((query - group.start) * nbytes, nbytes))
        return ResidentStep(self._program, tuple(resources), self._config)

    def release(self) -> None:
        """Frees the memory of the queries."""
        slabs, self._slabs = self._slabs, {}
        for array in slabs.values():
            array.close()

    # ---------------------------------------------------------------- details
    def _batched(self, sizes: Sizes, common: frozenset[str]) -> BatchedQueries | CannotBatch:
        config, launch = self._config, sizes.launch
        if config.step_budget is not None:
            return CannotBatch("the budget of steps counts for one launch")
        if config.timeout_s is not None:
            return CannotBatch("the timeout counts for one launch")
        asked = QueryLaunch(self._program, launch.grid, launch.workgroup, launch.counts, common)
        return batch_queries(asked, self._lease.backend.profile.max_grid_size)

    def _returned(self, sizes: Sizes, nbytes: Mapping[str, int]) -> tuple[tuple[Returned, ...], HostOutputs]:
        buffers = [buffer for buffer in outputs_of(self._program.abi_buffers) if buffer.name in nbytes]
        outputs = HostOutputs(buffers)
        returned: list[Returned] = []
        for buffer, raw in zip(buffers, outputs.raw_types, strict=True):
            start, stop = sizes.ranges[buffer.name]
            returned.append(Returned(buffer.name, start, stop, (stop - start) // raw.itemsize))
        return tuple(returned), outputs

    def _groups(self, queries: int, most: int, frontier: int, output: int) -> tuple[QueryGroup, ...]:
        """Returns groups of at most ``most`` queries, as many as the budget holds beside what they share.

        Raises ``PlanError`` if it does not hold one.
        """
        shared, each = self._shared.nbytes, frontier + output
        if shared + each > self._budget:
            raise PlanError(
                "OverBudget",
                fix="give the launch more memory, or split the query.",
                required_bytes=shared + each,
                budget_bytes=self._budget,
            )
        size = min(most, (self._budget - shared) // each) if each else most
        groups = (range(first, min(first + size, queries)) for first in range(0, queries, size))
        return tuple(QueryGroup(g, len(g) * frontier, len(g) * output, shared + len(g) * each) for g in groups)

    def _allocate(self, wanted: dict[str, int]) -> None:
        """Makes the slabs as large as is wanted."""
        for name in [name for name, slab in self._slabs.items() if slab.nbytes != wanted.get(name)]:
            self._slabs.pop(name).close()
        memory = self._lease.backend.require_memory()
        for name, nbytes in wanted.items():
            if name not in self._slabs:
                buffer = memory.allocate(nbytes, label=f"queries {name}").quiet()
                self._slabs[name] = slab = ResidentArray(buffer, memory, _BYTE, (nbytes,))
                self._lease.adopt(slab)

    def _group(self, planned: Planned, columns: Columns, size: int) -> Group:
        memory: dict[str, ResidentBuffer] = {}
        for name, nbytes in planned.nbytes.items():
            slab = self._slabs[name].buffer
            memory[name] = slab if slab.nbytes == size * nbytes else slab.view(0, size * nbytes)
        batched = planned.batched
        if isinstance(batched, CannotBatch):
            return Group(0, size, memory, None)
        resources = [memory.get(b.name) or self._common(columns, b.name) for b in self._program.abi_buffers]
        config = replace(
            self._config,
            grid=batched.grid(size),
            extent=None,
            workgroup=None,
            output_counts=None,
            max_output_bytes=None,
            element_count_override=None,
        )
        return Group(0, size, memory, (ResidentStep(batched.program, tuple(resources), config),))

    def _common(self, columns: Columns, name: str) -> Resource:
        """Returns what all queries of a call bind to a buffer."""
        array = self._shared.arrays.get(name)
        if array is not None:
            return array.buffer
        return memoryview(columns.numbers[name] if name in columns.numbers else self._shared.numbers[name])

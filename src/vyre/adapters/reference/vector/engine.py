"""The vectorised engine: a program compiled once to closures over NumPy lanes, run chunk by chunk.

A chunk is a run of workgroups along one axis of the grid, as many as keep its arrays small.  Inside a chunk every
statement runs for all lanes before the next one, which for one workgroup is the canonical schedule, and for several
gives the same bytes whenever the result does not depend on the order of workgroups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from vyre.adapters.lanes.silence import Silence
from vyre.adapters.lanes.types import Lanes
from vyre.adapters.reference.engine import Memory, RunOptions
from vyre.adapters.reference.vector.chunk import Chunk, Failures, Local
from vyre.adapters.reference.vector.lanes_context import Context, Grid
from vyre.adapters.reference.vector.statements import StatementCompiler
from vyre.adapters.reference.vector.storage import ElementRules, PrivateStorage, Storage
from vyre.domain.errors import DispatchTimeout
from vyre.domain.ir.expr import Atomic, Literal, Load, walk
from vyre.domain.ir.program import Dim3, Program
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, Loop, Store, operands, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch import Launch
from vyre.domain.validation.validator import check_rules

if TYPE_CHECKING:
    from numpy.typing import NDArray


CHUNK_LANES: Final = 1 << 18
"""Lanes of a chunk.  Measured: fewer have more overhead of Python, more exceed the cache and the allocator's pools."""
CHUNK_BYTES: Final = 32 << 20
"""Bound on the bytes of locals and workgroup memory of a chunk; one workgroup may exceed it."""
PRIVATE_CHUNK_BYTES: Final = 128 << 20
"""Bound on the bytes of private memory of a chunk.  One workgroup may exceed it."""
_LANE_BYTES: Final = 8
_TEMPORARIES: Final = 4


class VectorKernel:
    """The ``Engine`` of vectorised runs: a prepared program."""

    def __init__(self, program: Program, spec: Mapping[str, Literal]) -> None:
        elements = {b.name: b.element for b in program.buffers if isinstance(b.element, ScalarType)}
        self._shared = tuple(b for b in program.buffers if b.is_workgroup)
        compiler = StatementCompiler(program, elements, spec)
        self._execute = compiler.body(program.body)
        self._slots = compiler.slot_count
        self._loops = compiler.loop_count
        self._order_sensitive = check_rules(program).order_sensitive
        self._any_chunk = not self._order_sensitive or touches_written_buffers_once(program)
        self._private = tuple(b for b in program.buffers if b.is_private)
        self._private_nbytes = sum(b.static_nbytes or 0 for b in self._private)
        self._shared_nbytes = sum(b.static_nbytes or 0 for b in self._shared)
        self._rules = {name: ElementRules.of(element) for name, element in elements.items()}
        self._grids: dict[tuple[int, int, int, int], Grid] = {}

    def run(self, memory: Memory, launch: Launch, options: RunOptions, /) -> None:
        """Runs every workgroup; raises ``TrapError`` or ``StepBudgetExceeded`` once all have run."""
        sx, sy, sz = launch.workgroup
        along, step = self._chunk_shape(launch, options)
        in_phase = self._order_sensitive or options.chunk_workgroups == 1
        buffers = {name: self._storage(name, data) for name, data in memory.items()}
        failures = Failures()
        shared: dict[str, Lanes] = {}
        private: dict[str, PrivateStorage] = {}
        with Silence():
            for group in _first_groups(launch.grid, along, step):
                grid = self._grid((min(step, launch.grid[along] - group[along]), sz, sy, sx))
                for buffer in self._shared:
                    name, count = buffer.name, buffer.count
                    buffers[name] = self._workgroup_memory(name, count, grid.dims[0], shared)
                for buffer in self._private:
                    name, count = buffer.name, buffer.count
                    buffers[name] = private[name] = self._private_memory(name, count, grid, private)
                locals_: list[Local | None] = [None] * self._slots
                continuing: list[list[Context]] = [[] for _ in range(self._loops)]
                chunk = Chunk(grid, group, along, launch, options, buffers, locals_, continuing, failures, in_phase)
                self._execute(chunk, grid.root)
                if options.is_late is not None and options.is_late():
                    raise DispatchTimeout("the deadline passed between workgroups")
        if failures.error is not None:
            raise failures.error

    def _chunk_shape(self, launch: Launch, options: RunOptions) -> tuple[int, int]:
        """Returns the axis of the grid along which chunks run, and their number of workgroups."""
        # If order matters, chunks follow one another as workgroups do: along the fastest axis.
        extents = launch.grid
        ordered = self._order_sensitive or options.chunk_workgroups == 1
        along = next((a for a in range(3) if extents[a] > 1), 0) if ordered else extents.index(max(extents))
        wanted = options.chunk_workgroups
        if wanted is None:
            sx, sy, sz = launch.workgroup
            lanes = sx * sy * sz
            nbytes = lanes * _LANE_BYTES * (self._slots + self._loops + _TEMPORARIES) + self._shared_nbytes
            limits = [CHUNK_LANES // lanes, CHUNK_BYTES // nbytes]
            if self._private:
                limits.append(PRIVATE_CHUNK_BYTES // (lanes * self._private_nbytes))
            wanted = max(1, min(limits)) if self._any_chunk else 1
        return along, max(1, min(wanted, extents[along]))

    def _grid(self, dims: tuple[int, int, int, int]) -> Grid:
        grid = self._grids.get(dims)
        if grid is None:
            if len(self._grids) >= 8:
                self._grids.clear()
            grid = self._grids[dims] = Grid(dims)
        return grid

    def _storage(self, name: str, data: NDArray[np.uint8]) -> Storage:
        rules = self._rules[name]
        array = data.view(rules.stored)
        if not array.flags.aligned:
            raise ValueError(f"memory of `{name}` is not aligned to {rules.stored.itemsize} bytes")
        return Storage(array, len(array), rules, per_group=False)

    def _workgroup_memory(self, name: str, count: int, groups: int, arrays: dict[str, Lanes]) -> Storage:
        """Returns zeroed memory for a chunk; the array of the previous chunk is reused."""
        array = arrays.get(name)
        if array is None or len(array) < groups * count:
            array = arrays[name] = np.zeros(groups * count, self._rules[name].stored)
        else:
            array = array[: groups * count]
            array.fill(0)
        return Storage(array, count, self._rules[name], per_group=True)

    def _private_memory(self, name: str, count: int, grid: Grid, last: dict[str, PrivateStorage]) -> PrivateStorage:
        """Returns zeroed memory for the lanes of a chunk; the array of the last chunk is reused."""
        from vyre.adapters.reference.vector.storage import PrivateStorage  # few programs have private memory

        before = last.pop(name, None)
        if before is None or len(before.array) < grid.lanes * count:
            array = np.zeros(grid.lanes * count, self._rules[name].stored)
        else:
            array = before.array
            array[: before.used].fill(0)
        return PrivateStorage(array, count, self._rules[name], grid)


def _first_groups(grid: Dim3, along: int, step: int) -> Iterator[Dim3]:
    """Yields the first workgroup of every chunk, in ascending linear id as far as chunks are ordered at all."""
    steps = [step if axis == along else 1 for axis in range(3)]
    for z in range(0, grid[2], steps[2]):
        for y in range(0, grid[1], steps[1]):
            for x in range(0, grid[0], steps[0]):
                yield x, y, z


def touches_written_buffers_once(program: Program) -> bool:
    """Returns whether every buffer that is written is accessed in one place only, outside loops.

    Its lanes then access it in the canonical order in any chunk of consecutive workgroups.
    """
    touched: Counter[str] = Counter()
    written: set[str] = set()
    apart = {b.name for b in program.buffers if not b.is_bound}
    loops = [stmt for stmt in walk_statements(program.body) if isinstance(stmt, Loop)]
    repeated = {id(stmt) for loop in loops for stmt in walk_statements(loop.body)}
    for stmt in walk_statements(program.body):
        weight = 2 if id(stmt) in repeated else 1
        match stmt:
            case Store(buffer, _, _):
                touched[buffer] += weight
                written.add(buffer)
            case AsyncLoad(source, destination) | AsyncStore(source, destination):
                touched.update((source, destination))
                written.add(destination)
            case _:
                pass
        for expr in chain.from_iterable(map(walk, operands(stmt))):  # what is shared counts at every use
            if isinstance(expr, Load | Atomic):
                touched[expr.buffer] += weight
                if isinstance(expr, Atomic):
                    written.add(expr.buffer)
    return all(touched[name] == 1 for name in written - apart)

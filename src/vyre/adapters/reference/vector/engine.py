"""The vectorised engine: a program compiled once into closures over NumPy lanes, run chunk by chunk.

A chunk is a run of workgroups along x, as many as keep its arrays in the cache.  Inside a chunk every statement runs
for all lanes before the next one, which for one workgroup is the canonical schedule, and for several gives the same
bytes whenever the result does not depend on the order of workgroups.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from vyre.adapters.reference.engine import Memory, RunOptions
from vyre.adapters.reference.vector.chunk import Chunk, Failures
from vyre.adapters.reference.vector.lanes_context import Grid
from vyre.adapters.reference.vector.schedule import keeps_canonical_order
from vyre.adapters.reference.vector.statements import StatementCompiler
from vyre.adapters.reference.vector.storage import Storage
from vyre.domain.errors import DispatchTimeout
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch import Launch

CHUNK_LANES: Final = 1 << 18
"""Lanes of a chunk.  Measured: fewer pay for Python, more leave the cache and the allocator's pools."""


class VectorKernel:
    """A prepared program."""

    def __init__(self, program: Program, spec: Mapping[str, Literal]) -> None:
        self._elements = {b.name: b.element for b in program.buffers if isinstance(b.element, ScalarType)}
        self._shared = tuple(b for b in program.buffers if b.is_workgroup)
        compiler = StatementCompiler(program, self._elements, spec)
        self._execute = compiler.body(program.body)
        self._slots = compiler.slot_count
        self._any_chunk = keeps_canonical_order(program)
        self._dtypes = {name: _stored_dtype(element) for name, element in self._elements.items()}
        self._grids: dict[tuple[int, int, int, int], Grid] = {}

    def run(self, memory: Memory, launch: Launch, options: RunOptions, /) -> None:
        """Run every workgroup; raises ``TrapError`` or ``StepBudgetExceeded`` once all have run."""
        sx, sy, sz = launch.workgroup
        size = sx * sy * sz
        wanted = options.chunk_workgroups
        if wanted is None:
            wanted = max(1, CHUNK_LANES // size) if self._any_chunk else 1
        buffers = {name: self._storage(name, data) for name, data in memory.items()}
        failures = Failures()
        shared: dict[str, Any] = {}
        gx, gy, gz = launch.grid
        step = min(wanted, gx)
        with np.errstate(all="ignore"):
            for z in range(gz):
                for y in range(gy):
                    for x in range(0, gx, step):
                        grid = self._grid((min(step, gx - x), sz, sy, sx))
                        chunk = Chunk(grid, (x, y, z), launch, options, buffers, self._slots, failures)
                        for buffer in self._shared:
                            name, count = buffer.name, buffer.count
                            buffers[name] = self._workgroup_memory(name, count, grid.dims[0], shared)
                        self._execute(chunk, grid.root)
                        if options.deadline_ns is not None and time.monotonic_ns() > options.deadline_ns:
                            raise DispatchTimeout("the deadline passed between workgroups")
        if failures.error is not None:
            raise failures.error

    def _grid(self, dims: tuple[int, int, int, int]) -> Grid:
        found = self._grids.get(dims)
        if found is None:
            if len(self._grids) >= 8:
                self._grids.clear()
            found = self._grids[dims] = Grid(dims)
        return found

    def _storage(self, name: str, data: Any) -> Storage:
        dtype, element = self._dtypes[name], self._elements[name]
        count = min(len(data) // element.size, 0xFFFF_FFFF)
        array = data[: count * element.size]
        if array.ctypes.data % element.size:
            raise ValueError(f"memory of `{name}` is not aligned to {element.size} bytes")
        return Storage(array.view(dtype), count, element, per_group=False)

    def _workgroup_memory(self, name: str, count: int, groups: int, arrays: dict[str, Any]) -> Storage:
        """Zeroed memory for a chunk; the array of the chunk before is used again."""
        array = arrays.get(name)
        if array is None or len(array) < groups * count:
            array = arrays[name] = np.zeros(groups * count, self._dtypes[name])
        else:
            array = array[: groups * count]
            array.fill(0)
        return Storage(array, count, self._elements[name], per_group=True)


class VectorEngine:
    """Prepares programs for vectorised runs."""

    def prepare(self, program: Program, spec: Mapping[str, Literal], /) -> VectorKernel:
        return VectorKernel(program, spec)


def _stored_dtype(element: ScalarType) -> np.dtype[Any]:
    return np.dtype(element.numpy_name)

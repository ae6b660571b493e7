"""The CPU emitter's code behind the reference's engine protocol, so that what compares engines compares it.

One call runs all workgroups of a kernel, in ascending order, on the calling thread.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vyre.adapters.cpu.llvm.emit import EmittedCode, emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.compilation import Pipeline, compile_object
from vyre.adapters.cpu.native.features import CpuFeatures, host
from vyre.adapters.cpu.native.loading import LoadedCode, load
from vyre.adapters.reference import engine
from vyre.domain.binding import plan_bindings
from vyre.domain.errors import StepBudgetExceeded, TrapError
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.launch import Launch

_ENTRY: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_ALIGNMENT: Final = 64
_CONTROL: Final = struct.Struct("<iiQiiQ32x")
_NONE: Final = (1 << 64) - 1


def aligned(nbytes: int, fill: int = 0) -> NDArray[np.uint8]:
    """Returns ``nbytes`` bytes of this value at an address that is a multiple of 64."""
    data = np.full(nbytes + _ALIGNMENT, fill, np.uint8)
    start = -data.ctypes.data % _ALIGNMENT
    return data[start : start + nbytes]


@dataclass(frozen=True)
class CpuEngine:
    """``options`` of the emission, the instruction sets to compile for, and the work of the compiler."""

    options: EmitOptions = field(default_factory=EmitOptions)
    features: CpuFeatures = field(default_factory=host)
    pipeline: Pipeline = Pipeline.LIGHT

    def prepare(self, program: Program, spec: Mapping[str, Literal]) -> CpuKernel:
        return CpuKernel(self, program, spec)


class CpuKernel:
    """A compiled program; scratch memory starts with bytes of 0xA5."""

    def __init__(self, owner: CpuEngine, program: Program, spec: Mapping[str, Literal]) -> None:
        self._owner: Final = owner
        self._program: Final = program
        self._spec: Final = spec
        self._codes: Final[dict[bool, tuple[EmittedCode, LoadedCode]]] = {}

    def _code(self, counting: bool) -> tuple[EmittedCode, LoadedCode]:
        found = self._codes.get(counting)
        if found is None:
            owner = self._owner
            code = emit(self._program, replace(owner.options, counting=counting), self._spec)
            found = self._codes[counting] = code, load(compile_object(code.text, owner.features, owner.pipeline))
        return found

    def run(self, memory: Mapping[str, NDArray[np.uint8]], launch: Launch, options: engine.RunOptions) -> None:
        code, loaded = self._code(options.step_budget is not None)
        plan = plan_bindings(self._program)
        counts = {b.buffer.name: n for b, n in zip(plan.bindings, launch.counts, strict=True)}
        groups = int(np.prod(launch.grid))
        lanes = groups * int(np.prod(launch.workgroup))
        control = aligned(_CONTROL.size)
        _CONTROL.pack_into(control.data, 0, 0, 0, _NONE, 0, 0, _NONE)
        steps = options.steps_used if options.steps_used is not None else np.zeros(lanes, np.uint64)
        words = [*launch.grid, control.ctypes.data, options.step_budget or 0, steps.ctypes.data]
        for buffer in self._program.abi_buffers:
            words += [memory[buffer.name].ctypes.data, counts[buffer.name]]
        frame = np.array(words, np.uint64)
        for kernel in code.kernels:
            scratch = aligned(kernel.scratch_bytes, 0xA5)
            _ENTRY(loaded.addresses[kernel.entry])(frame.ctypes.data, 0, groups, scratch.ctypes.data)
            _, _, trap, where, tag, budget = _CONTROL.unpack_from(control.data)
            if trap != _NONE:
                raise TrapError(tag=kernel.trap_tags[tag], address=where & 0xFFFF_FFFF, global_id=_global(launch, trap))
            if budget != _NONE:
                raise StepBudgetExceeded(budget=options.step_budget or 0, global_id=_global(launch, budget))


def _global(launch: Launch, linear: int) -> tuple[int, int, int]:
    x, y = (launch.grid[axis] * launch.workgroup[axis] for axis in (0, 1))
    return linear % x, linear // x % y, linear // (x * y)

"""Programs of vyre on the interpreter: what a launcher does by hand, after ``docs/cuda.md``.

Every dispatch emits the program's PTX, gives each buffer an allocation of its own, fills in the parameters that the
emitted kernels list, and runs the kernels in order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from support.ptx_interpreter.engine import SCHEDULES, Launch, Schedule, run
from support.ptx_interpreter.memory import GlobalMemory
from support.ptx_interpreter.syntax import Module, PtxError, read_module
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import EmittedKernel, EmittedModule, Parameter, ParameterKind
from vyre.adapters.cuda.ptx.options import DEFAULT_OPTIONS, EmitOptions
from vyre.domain.binding import plan_bindings
from vyre.domain.dispatch import U32_MAX, DispatchTiming
from vyre.domain.errors import TrapError, UnsupportedFeature
from vyre.domain.geometry import LaunchLimits
from vyre.domain.grid_sync import has_grid_loops
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import BackendId
from vyre.domain.specialization import spec_literals
from vyre.ports.backend import Backend
from vyre.ports.lifecycle import NullLifecycle
from vyre.ports.requests import DispatchRequest, OutputStorage
from vyre.testing.fakes import claiming_all

if TYPE_CHECKING:
    from vyre.domain.launch import Launch as Sizes

NAME: Final = BackendId("ptx-interpreter")
_LIMITS: Final = LaunchLimits(str(NAME), max_invocations_per_workgroup=1024)


def interpreter(
    schedule: Schedule = SCHEDULES[0],
    *,
    seed: int = 0,
    options: EmitOptions = DEFAULT_OPTIONS,
    edit: Callable[[str], str] = str,
) -> Backend:
    """Returns a backend that runs emitted PTX on the interpreter.

    ``seed`` draws its noise and its shuffled order; ``edit`` changes the text before it is read.
    """
    executor = InterpreterExecutor(schedule, seed, options, edit)
    return Backend(id=NAME, profile=claiming_all(NAME), executor=executor, lifecycle=NullLifecycle(NAME))


@dataclass(frozen=True, slots=True)
class InterpreterExecutor:
    """``ProgramExecutor`` on the interpreter."""

    schedule: Schedule
    seed: int
    options: EmitOptions
    edit: Callable[[str], str]

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        """Implements ``ProgramExecutor.execute``; its timing is 0.  Raises ``PtxError`` where the kernel is wrong."""
        program, config = request.program, request.config
        if config.step_budget is not None or config.race_check or config.profile is not None:
            raise UnsupportedFeature(feature="a budget, a check or a profile", backend=str(NAME))
        if has_grid_loops(program) and not self.options.native_grid_sync:  # its rounds need a host between them
            raise UnsupportedFeature(feature="a grid loop in parts", backend=str(NAME))
        sizes = resolve_launch(program, tuple([view.nbytes for view in request.inputs]), config, _LIMITS)
        if config.workgroup is not None:
            program = replace(program, workgroup_size=config.workgroup)
        emitted = emit(program, self.options, spec_literals(program, config.spec))
        module = read_module(self.edit(emitted.ptx))
        held = _Held(request, sizes, emitted, module, np.random.default_rng(self.seed))
        for _ in range(config.launches):
            held.clear()
            for kernel in emitted.kernels:
                launch = Launch(sizes.grid, held.parameters(kernel), self.schedule, self.seed)
                run(module.entries[kernel.entry], launch, held.memory, held.constants)
                held.check_trap(kernel)
        plan = plan_bindings(program)
        returned = [held.content(plan.bindings[k].buffer.name) for k in plan.outputs]
        for view, data, (start, end) in zip(
            outputs.begin(sizes.output_nbytes), returned, sizes.output_ranges, strict=True
        ):
            view[:] = data[start:end]
        return DispatchTiming(0)


class _Held:
    """The device memory of one dispatch: its buffers, the module's constants, and what the emitter asks for besides."""

    def __init__(
        self, request: DispatchRequest, sizes: Sizes, emitted: EmittedModule, module: Module, noise: np.random.Generator
    ) -> None:
        bindings = plan_bindings(request.program).bindings
        self._counts = {b.buffer.name: n for b, n in zip(bindings, sizes.counts, strict=True)}
        self._numbers = {
            b.buffer.name: bytes(request.inputs[b.input_index])
            for b in bindings
            if b.input_index is not None and b.buffer.is_push
        }
        contents = {
            b.buffer.name: bytes(nbytes) if b.input_index is None else bytes(request.inputs[b.input_index])
            for b, nbytes in zip(bindings, sizes.nbytes, strict=True)
            if not b.buffer.is_push
        }
        self._sizes = {name: len(data) for name, data in contents.items()}
        self._extra = {p.kind: p.nbytes for k in emitted.kernels for p in k.parameters if p.nbytes is not None}
        constants = module.constants
        names: list[object] = [*contents, *constants, *self._extra]
        nbytes = [*self._sizes.values(), *(v.nbytes for v in constants.values()), *self._extra.values()]
        self.memory = GlobalMemory(nbytes, noise)
        self._addresses = dict(zip(names, self.memory.addresses, strict=True))
        self.constants = {name: self._addresses[name] for name in constants}
        for name, data in (*contents.items(), *((v.name, v.data) for v in constants.values())):
            self.memory.write(self._addresses[name], data)

    def clear(self) -> None:
        """Zeroes what must be zero before a launch, and fills in the table of bindings where there is one."""
        for kind, nbytes in self._extra.items():
            self.memory.write(self._addresses[kind], bytes(nbytes))
        if ParameterKind.TABLE in self._extra:
            records = [
                self._addresses[name].to_bytes(8, "little") + self._count(name) + bytes(4) for name in self._sizes
            ]
            self.memory.write(self._addresses[ParameterKind.TABLE], b"".join(records))

    def parameters(self, kernel: EmittedKernel) -> bytes:
        """Returns the bytes of a kernel's parameter space."""
        block = bytearray(kernel.parameter_bytes)
        for parameter in kernel.parameters:
            data = self._value(parameter)
            if len(data) != parameter.size:
                raise PtxError(f"{len(data)} bytes for the parameter {parameter}")
            block[parameter.offset : parameter.offset + parameter.size] = data
        return bytes(block)

    def content(self, name: str) -> bytes:
        """Returns the bytes of a buffer."""
        return self.memory.read(self._addresses[name], self._sizes[name])

    def check_trap(self, kernel: EmittedKernel) -> None:
        """Raises ``TrapError`` if the record of traps says that a lane did."""
        if ParameterKind.TRAP in self._extra:
            record = self.memory.read(self._addresses[ParameterKind.TRAP], self._extra[ParameterKind.TRAP])
            flag, address, tag, x, y, z, lock, _ = struct.unpack("<8I", record)
            if lock:
                raise PtxError("the record of traps is left locked")
            if flag:
                raise TrapError(tag=kernel.trap_tags[tag - 1], address=address, global_id=(x, y, z))

    def _count(self, name: str) -> bytes:
        return min(self._counts[name], U32_MAX).to_bytes(4, "little")

    def _value(self, parameter: Parameter) -> bytes:
        kind, name = parameter.kind, parameter.name
        if name is None:
            if kind is ParameterKind.SCALAR:
                return (parameter.value or 0).to_bytes(parameter.size, "little")
            return self._addresses[kind].to_bytes(8, "little")
        if kind is ParameterKind.SCALAR:
            return self._numbers[name]
        if kind is ParameterKind.COUNT:
            return self._count(name)
        return self.content(name) if kind is ParameterKind.UNIFORM else self._addresses[name].to_bytes(8, "little")

"""Emitted PTX on the interpreter behind the reference's engine protocol, so that what compares engines compares it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vyre.adapters.cuda.machine.execution import KernelRun
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.module import MachineEntry, load_module
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import EmittedKernel, Parameter, ParameterKind
from vyre.adapters.cuda.ptx.options import DEFAULT_OPTIONS, EmitOptions
from vyre.adapters.cuda.seam import LaunchShape
from vyre.adapters.reference import engine
from vyre.domain.binding import plan_bindings
from vyre.domain.errors import TrapError
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.launch import Launch

_SCRATCH: Final = (ParameterKind.TRAP, ParameterKind.BARRIER, ParameterKind.SCRATCH)


@dataclass(frozen=True)
class MachineEngine:
    """``options`` of the runs, ``emission`` of the text.  Pointers are aligned to 256 bytes."""

    options: RunOptions = field(default_factory=RunOptions)
    emission: EmitOptions = DEFAULT_OPTIONS

    def __call__(self, program: Program, spec: Mapping[str, Literal]) -> MachineKernel:
        module = emit(program, self.emission, spec)
        return MachineKernel(program, module.ptx, module.kernels, self.options)


@dataclass(frozen=True)
class MachineKernel:
    program: Program
    ptx: str
    kernels: tuple[EmittedKernel, ...]
    options: RunOptions

    def run(self, memory: Mapping[str, NDArray[np.uint8]], launch: Launch, options: engine.RunOptions) -> None:
        device = DeviceMemory()
        module = load_module(self.ptx).instantiate(device)
        chosen = self.options
        if options.chunk_workgroups is not None:
            chosen = replace(chosen, workgroups_at_once=options.chunk_workgroups)
        addresses = {}
        for name, data in memory.items():
            addresses[name] = device.allocate(max(1, data.nbytes))
            device.write(addresses[name], data.tobytes())
        for kernel in self.kernels:
            self._launch(kernel, module.entries[kernel.entry], device, memory, addresses, launch, chosen)
        for name, data in memory.items():
            if data.nbytes and data.flags.writeable:
                data[:] = np.frombuffer(device.read(addresses[name], data.nbytes), np.uint8)

    def _launch(
        self,
        kernel: EmittedKernel,
        entry: MachineEntry,
        device: DeviceMemory,
        memory: Mapping[str, NDArray[np.uint8]],
        addresses: Mapping[str, int],
        launch: Launch,
        options: RunOptions,
    ) -> None:
        plan = plan_bindings(self.program)
        counts = {b.buffer.name: n for b, n in zip(plan.bindings, launch.counts, strict=True)}
        block = bytearray(max(1, kernel.parameter_bytes))
        trap = 0
        for parameter in kernel.parameters:
            value = self._value(parameter, device, memory, addresses, counts)
            if parameter.kind is ParameterKind.TRAP:
                trap = int.from_bytes(value, "little")
            block[parameter.offset : parameter.offset + parameter.size] = value
        shape = LaunchShape(launch.grid, launch.workgroup, kernel.shared_dynamic, kernel.cooperative)
        KernelRun(entry, shape, bytes(block), device, options).finish()
        if trap:
            flag, address, tag, x, y, z, _, _ = struct.unpack("<8I", device.read(trap, 32))
            if flag:
                raise TrapError(tag=kernel.trap_tags[tag - 1], address=address, global_id=(x, y, z))

    def _value(
        self,
        parameter: Parameter,
        device: DeviceMemory,
        memory: Mapping[str, NDArray[np.uint8]],
        addresses: Mapping[str, int],
        counts: Mapping[str, int],
    ) -> bytes:
        name = parameter.name
        if parameter.kind is ParameterKind.TABLE:
            bound = [b for b in self.program.abi_buffers if not b.is_push]
            address = device.allocate(max(16, 16 * len(bound)))
            device.fill(address, 0, max(16, 16 * len(bound)))
            for number, buffer in enumerate(bound):
                device.write(address + 16 * number, struct.pack("<QII", addresses[buffer.name], counts[buffer.name], 0))
            return address.to_bytes(8, "little")
        if parameter.kind in _SCRATCH:
            assert parameter.nbytes is not None
            address = device.allocate(parameter.nbytes)
            device.fill(address, 0, parameter.nbytes)
            return address.to_bytes(8, "little")
        if name is None:
            assert parameter.value is not None
            return parameter.value.to_bytes(parameter.size, "little")
        match parameter.kind:
            case ParameterKind.POINTER:
                return (addresses[name] if counts[name] else 0).to_bytes(8, "little")
            case ParameterKind.COUNT:
                return counts[name].to_bytes(4, "little")
            case _:
                return memory[name].tobytes()[: parameter.size]

"""A dispatch of which at least one buffer is resident.

Resident buffers are bound as they are; host data that the program only reads is passed along; host data that it
updates, and outputs that nobody bound, get device memory for this dispatch and are read back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from vyre.app.host_arrays import HostInputs, HostOutputs, foreign_resident
from vyre.app.lease import BackendLease
from vyre.app.resident import ResidentArray
from vyre.app.result import Result
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.types import ScalarType
from vyre.ports.backend import Readback, ResidentBuffer, ResidentSequence, ResidentStep, Resource, Upload

_SCRATCH: Final = "scratch"


def has_resident(inputs: object) -> bool:
    """Is any of these arguments a ``ResidentArray``?"""
    values = inputs.values() if isinstance(inputs, Mapping) else inputs if isinstance(inputs, Sequence) else ()
    return any(isinstance(value, ResidentArray) for value in values)


def run_resident(
    lease: BackendLease,
    program: Program,
    config: DispatchConfig,
    host_inputs: HostInputs,
    inputs: object,
) -> Result:
    """Run once.  Host results are in the ``Result``, resident ones in ``Result.resident``."""
    memory = lease.backend.require_memory()
    executor = lease.backend.require_resident_executor()
    arguments = _arguments(program, host_inputs, inputs)
    _check_residents(lease, program, arguments)
    uploads: list[Upload] = []
    scratch: dict[str, ResidentBuffer] = {}
    with ExitStack() as stack:

        def allocate(buffer: Buffer, nbytes: int) -> ResidentBuffer:
            scratch[buffer.name] = stack.enter_context(memory.allocate(nbytes, label=f"{_SCRATCH} {buffer.name}"))
            return scratch[buffer.name]

        resources: dict[str, Resource] = {}
        for buffer in program.abi_buffers:
            argument = arguments.get(buffer.name)
            if isinstance(argument, ResidentArray):
                resources[buffer.name] = argument.buffer
            elif buffer.takes_input:
                view = host_inputs.view(buffer.name, argument)
                resources[buffer.name] = view
                if buffer.is_writable:
                    resources[buffer.name] = target = allocate(buffer, view.nbytes)
                    uploads.append(Upload(target, view))
        for buffer in program.abi_buffers:
            if buffer.name not in resources:
                resources[buffer.name] = allocate(buffer, _output_nbytes(program, buffer, resources, config))
        if uploads:
            memory.upload(uploads)
        read = [b for b in program.abi_buffers if b.is_returned and b.name in scratch]
        ranges = [b.output_range or (0, scratch[b.name].nbytes) for b in read]
        host_outputs = HostOutputs(read)
        storage = host_outputs.storage()
        views = storage.begin(tuple(end - start for start, end in ranges))
        reads = tuple(
            Readback(scratch[b.name], view, start) for b, view, (start, _) in zip(read, views, ranges, strict=True)
        )
        step = ResidentStep(program, tuple(resources[b.name] for b in program.abi_buffers), config)
        timing = executor.run(ResidentSequence(prefix=(step,), reads=reads))
    resident = {b.name: a for b in program.abi_buffers if isinstance(a := arguments.get(b.name), ResidentArray)}
    returned = {name: array for name, array in resident.items() if program.buffer(name).is_returned}
    return Result(host_outputs.names, host_outputs.arrays(storage), timing, str(lease.backend.id), returned)


def _arguments(program: Program, host_inputs: HostInputs, inputs: object) -> dict[str, object]:
    """Arguments by buffer name; beside the inputs, a mapping may bind outputs to resident memory."""
    if not isinstance(inputs, Mapping):
        assert isinstance(inputs, Sequence)  # has_resident found an argument in it
        return dict(zip(host_inputs.names, host_inputs.values(inputs), strict=True))
    bound = {b.name: inputs[b.name] for b in program.abi_buffers if b.is_output and b.name in inputs}
    for name, value in bound.items():
        if not isinstance(value, ResidentArray):
            raise InvalidInput(
                f"output `{name}` is bound to a {type(value).__name__}",
                fix="bind it to a resident array, or leave it out and read it from the result.",
            )
    rest = {name: value for name, value in inputs.items() if name not in bound}
    return dict(zip(host_inputs.names, host_inputs.values(rest), strict=True)) | bound


def _check_residents(lease: BackendLease, program: Program, arguments: Mapping[str, object]) -> None:
    bound: dict[int, Buffer] = {}
    for buffer in program.abi_buffers:
        array = arguments.get(buffer.name)
        if not isinstance(array, ResidentArray):
            continue
        if not lease.owns(array):
            raise foreign_resident(buffer.name, array)
        if array.closed:
            raise InvalidResource(f"`{buffer.name}` is bound to {array!r}", fix="keep it open while it is used.")
        other = bound.setdefault(id(array), buffer)
        if other is not buffer and (other.is_writable or buffer.is_writable):
            raise InvalidResource(
                f"`{other.name}` and `{buffer.name}` are bound to the same memory and one of them is written",
                fix="bind different resident arrays, or copy one.",
            )


def _output_nbytes(program: Program, buffer: Buffer, resources: Mapping[str, Resource], config: DispatchConfig) -> int:
    """Bytes of an output nobody bound: declared, as many elements as ``like``, or from ``output_counts``."""
    assert isinstance(buffer.element, ScalarType)  # a valid program has no other buffers
    if buffer.static_nbytes is not None:
        return buffer.static_nbytes
    if config.output_counts and buffer.name in config.output_counts:
        return config.output_counts[buffer.name] * buffer.element.size
    like = program.buffers_by_name.get(buffer.like or "")
    if like is not None and isinstance(like.element, ScalarType):
        known = resources.get(like.name)
        nbytes = known.nbytes if known is not None else _output_nbytes(program, like, resources, config)
        return nbytes // like.element.size * buffer.element.size
    raise InvalidInput(
        f"the size of output `{buffer.name}` is unknown", fix=f"pass output_counts={{{buffer.name!r}: n}}."
    )

"""The check of a kernel's layout in a bundle against the program that it is launched for."""

from __future__ import annotations

from collections.abc import Iterator

from vyre.adapters.cuda.ptx.kernel import EmittedKernel, Parameter, ParameterKind
from vyre.adapters.cuda.ptx.module_form import decode_layout
from vyre.domain.errors import MalformedWire
from vyre.domain.ir.buffers import Buffer
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import SCALAR_BY_TEXT
from vyre.domain.plain_values import counts


def checked_kernels(data: bytes, program: Program) -> tuple[EmittedKernel, ...]:
    """Returns the kernels of a layout as ``encode_layout`` wrote it, whose parameters a launch of the program can fill.

    Raises ``MalformedWire`` for any other bytes.
    """
    kernels = decode_layout(data).kernels
    problems = [f"{kernel.entry!r}: {problem}" for kernel in kernels for problem in _problems(kernel, program)]
    if problems:
        raise MalformedWire("; ".join(problems), fix="rebuild the bundle.")
    return kernels


def _problems(kernel: EmittedKernel, program: Program) -> Iterator[str]:
    """Yields the reasons why a kernel does not fit the program."""
    if kernel.block != program.workgroup_size:
        yield f"its block is {kernel.block}, the workgroup {program.workgroup_size}"
    for parameter in kernel.parameters:
        if not _fits(parameter, program.abi_buffers):
            yield f"its {parameter.kind.value} parameter at {parameter.offset} does not fit"


def _fits(parameter: Parameter, buffers: tuple[Buffer, ...]) -> bool:
    """Whether a launcher can fill ``parameter`` with a value of its kind."""
    buffer = next((b for b in buffers if b.binding == parameter.binding), None)
    named = buffer is not None and buffer.name == parameter.name and buffer.element.text == parameter.dtype
    size = parameter.size
    match parameter.kind:
        case ParameterKind.POINTER:
            return named and size == 8
        case ParameterKind.COUNT:
            return named and size == 4
        case ParameterKind.UNIFORM:
            return named and buffer is not None and 0 < size == buffer.static_nbytes
        case ParameterKind.SCALAR if parameter.binding is None:
            return size in (4, 8) and counts(parameter.value, most=256**size - 1)
        case ParameterKind.SCALAR:
            return named and buffer is not None and buffer.is_push and size == SCALAR_BY_TEXT[buffer.element.text].size
        case ParameterKind.TRAP:
            return size == 8 and parameter.nbytes == 32
        case ParameterKind.TABLE:
            return size == 8 and parameter.nbytes == 16 * sum(not b.is_push for b in buffers)
        case _:
            return size == 8 and counts(parameter.nbytes)

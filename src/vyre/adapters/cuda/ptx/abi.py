"""The entry's parameter list: pointers, 8-byte words, counts and 4-byte words, then inlined uniform buffers.

In that order natural alignment leaves no gap before the uniforms.  The list is what ``cuFuncGetParamInfo`` reports for
the assembled kernel, and what a launcher packs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from vyre.adapters.cuda.ptx.kernel import Init, Parameter, ParameterKind
from vyre.adapters.cuda.ptx.mailbox_layout import Descriptor
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.grid_sync import hidden_control
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.launching.bindless import (
    POINTER_BYTES,
    PointerTable,
    ResourceTableInputs,
    Unsupported,
    plan_resource_table,
)
from vyre.policies.launching.param_inlining import (
    Inline,
    ParamInliningInputs,
    ParamInliningPolicy,
    decide_param_inlining,
)

TRAP_BYTES: Final = 32
BARRIER_BYTES: Final = 8
TABLE_RECORD_BYTES: Final = 16
CONTROL: Final = "control"
"""The parameter with the address of the hidden buffer of grid loops, which all kernels of a module share."""
MAILBOX: Final = "mailbox"
"""The parameter with the address of the description of a mailbox."""
MOST_INLINED: Final = 256
"""The longest uniform buffer, in bytes, that travels as parameters: each launch copies all of them."""
UNIFORM_ALIGNMENT: Final = 16
_FURTHER_BYTES: Final = 64
"""Room for the parameters that features of a kernel add."""


class Features(NamedTuple):
    """Parameters that the body needs in addition to its bindings."""

    trap: bool = False
    barrier: bool = False
    zero: bool = False
    control: Buffer | None = None
    mailbox: bool = False
    folded: bool = False


class Abi(NamedTuple):
    """The parameter list.  ``names`` holds the name of every parameter in the text, in list order; ``nbytes`` is its
    size.
    """

    parameters: tuple[Parameter, ...]
    names: tuple[str, ...]
    nbytes: int


def pointer_bindings(program: Program) -> tuple[Buffer, ...]:
    """Returns the bindings that have an address: all except workgroup memory, scalar parameters and the hidden buffer
    of grid loops.
    """
    hidden = hidden_control(program)
    return tuple(b for b in program.abi_buffers if not b.is_push and b is not hidden)


def inlined_uniforms(program: Program, options: EmitOptions, sink: DecisionSink | None = None) -> frozenset[str]:
    """Returns the names of the uniform buffers whose bytes travel as parameters."""
    if options.mailbox or not options.switches.inline_uniforms:
        return frozenset()
    bindings = pointer_bindings(program)
    pointers = POINTER_BYTES * len(bindings)
    room = options.parameter_limit - _word_bytes(program, bindings)
    room -= pointers if pointers <= room else 0  # else they go into a table
    inlined: set[str] = set()
    for buffer in bindings:
        if buffer.access is Access.UNIFORM and buffer.static_nbytes:
            budget = ParamInliningPolicy(max(0, min(MOST_INLINED, room)), UNIFORM_ALIGNMENT, True)
            verdict = decide(sink, decide_param_inlining, ParamInliningInputs(buffer.static_nbytes), budget)
            if isinstance(verdict, Inline):
                inlined.add(buffer.name)
                room -= verdict.padded_bytes
    return frozenset(inlined)


def _word_bytes(program: Program, bindings: Sequence[Buffer]) -> int:
    """Returns the bytes of the parameters that are neither pointers nor uniform buffers."""
    scalars = sum(max(8, buffer.static_nbytes or 0) for buffer in program.abi_buffers if buffer.is_push)
    return 4 * len(bindings) + scalars + _FURTHER_BYTES


def uses_table(
    program: Program, inlined: frozenset[str], options: EmitOptions, sink: DecisionSink | None = None
) -> bool:
    """Returns whether the bindings are passed in a table in memory.

    Raises ``UnsupportedFeature`` for a kernel that needs a table and may take none: one of a mailbox, and one whose
    caller wants none.
    """
    if options.pointer_table and not options.mailbox:
        return True
    bindings = pointer_bindings(program)
    other = _word_bytes(program, bindings)
    other += sum(UNIFORM_ALIGNMENT + (b.static_nbytes or 0) for b in bindings if b.name in inlined)
    may_use_table = not options.mailbox and options.pointer_table is not False
    inputs = ResourceTableInputs(len(bindings), may_use_table, other, options.parameter_limit)
    verdict = decide(sink, plan_resource_table, inputs)
    if isinstance(verdict, Unsupported):
        form = "kernel of a mailbox" if options.mailbox else "kernel without a table of pointers"
        raise UnsupportedFeature(
            feature=f"a {form} for {len(bindings)} buffers ({verdict.why})",
            backend="cuda",
            fix="bind fewer buffers, or dispatch the program without that option.",
        )
    return isinstance(verdict, PointerTable)


def layout(program: Program, inlined: frozenset[str], *, table: bool, features: Features) -> Abi:
    """Returns the parameter list of a kernel."""
    bindings, pushes = pointer_bindings(program), [b for b in program.abi_buffers if b.is_push]
    entries: list[tuple[str, Parameter]] = []
    offset = 0

    def add(
        name: str, kind: ParameterKind, size: int, align: int, buffer: Buffer | None = None, **more: object
    ) -> None:
        nonlocal offset
        offset = -(-offset // align) * align
        named = (buffer.name, buffer.binding, buffer.element.text) if buffer is not None else (None, None, None)
        entries.append((name, Parameter(kind, offset, size, align, *named, **more)))  # type: ignore[arg-type]
        offset += size

    if table:
        add("table", ParameterKind.TABLE, 8, 8, init=Init.ZERO, nbytes=TABLE_RECORD_BYTES * len(bindings))
    else:
        for index, buffer in enumerate(bindings):
            init = Init.ZERO if buffer.is_output else Init.INPUT
            add(f"p{index}", ParameterKind.POINTER, 8, 8, buffer, init=init)
    if features.mailbox:
        for index, buffer in enumerate(pushes):
            add(f"s{index}", ParameterKind.POINTER, 8, 8, buffer, init=Init.INPUT)
        add(MAILBOX, ParameterKind.MAILBOX, 8, 8, init=Init.ZERO, nbytes=Descriptor.NBYTES)
    if features.trap:
        add("trap", ParameterKind.TRAP, 8, 8, init=Init.ZERO, nbytes=TRAP_BYTES)
    if features.barrier:
        add("barrier", ParameterKind.BARRIER, 8, 8, init=Init.ZERO, nbytes=BARRIER_BYTES)
    if features.control is not None:
        add(CONTROL, ParameterKind.SCRATCH, 8, 8, init=Init.ZERO, nbytes=features.control.static_nbytes)
    for size in (8, 4):
        if size == 4 and not table:
            for index, buffer in enumerate(bindings):
                add(f"n{index}", ParameterKind.COUNT, 4, 4, buffer)
        for index, buffer in enumerate(() if features.mailbox else pushes):
            if _size(buffer) == size:
                add(f"s{index}", ParameterKind.SCALAR, size, size, buffer)
    for axis in range(3) if features.folded else ():
        add(f"grid{axis}", ParameterKind.GRID, 4, 4, value=axis)
    if features.zero:
        add("zero", ParameterKind.SCALAR, 4, 4, value=0)
    for index, buffer in enumerate(bindings):
        if buffer.name in inlined:
            add(
                f"u{index}",
                ParameterKind.UNIFORM,
                buffer.static_nbytes or 0,
                UNIFORM_ALIGNMENT,
                buffer,
                init=Init.INPUT,
            )
    return Abi(tuple(p for _, p in entries), tuple(n for n, _ in entries), offset)


def declaration(abi: Abi) -> Iterable[str]:
    """Yields the ``.param`` declarations."""
    for name, parameter in zip(abi.names, abi.parameters, strict=True):
        if parameter.kind is ParameterKind.UNIFORM:
            yield f".param .align {UNIFORM_ALIGNMENT} .b8 {name}[{parameter.size}]"
        else:
            yield f".param .{'u64' if parameter.size == 8 else 'u32'} {name}"


def _size(buffer: Buffer) -> int:
    return element_of(buffer).size

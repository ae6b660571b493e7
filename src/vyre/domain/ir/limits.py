"""Structural limits that every written form and every reader shares.

A program within them can be walked by functions that recurse once per level, and its tree, with shared
sub-expressions written out, has a bounded size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.buffers import NO_HINTS, Buffer
from vyre.domain.ir.node import fields_getter, misplaced
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import measure, program_statements, size_if_small, unique_expressions
from vyre.domain.program_report import InvalidProgram

if TYPE_CHECKING:
    from vyre.domain.ir.definitions import Definition
    from vyre.domain.ir.program import Program

MAX_STATEMENT_DEPTH: Final = 64
"""The largest number of bodies around a statement, not counting the entry body."""
MAX_EXPRESSION_DEPTH: Final = 128
"""The largest number of operators around an operand; the root has depth 0."""
MAX_PROGRAM_NODES: Final = 1 << 18
"""The largest number of expressions and statements of a valid program; shared sub-expressions count at every use."""
MAX_NODES: Final = 1_000_000
"""The largest number of expressions and statements of a written program, counted in the same way."""
MAX_BUFFERS: Final = 16_384
"""The largest number of buffers of a program."""
MAX_DEFINITIONS: Final = 4_096
"""The largest number of definitions of a program."""
MAX_PARAMETERS: Final = 256
"""The largest number of parameters of a definition."""
MAX_NAME_BYTES: Final = 1 << 20
"""The largest size of a name, tag or label as UTF-8, in which a lone surrogate takes three bytes."""
MAX_TEXT_CHARACTERS: Final = 64 << 20
"""The largest size of a program as ``.vyre`` text."""
MAX_TYPE_DEPTH: Final = 64
"""The largest nesting of element types inside an element type."""
U32_MAX: Final = 0xFFFF_FFFF
U64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF

_WRITABLE: Final = "within the limits"
_VALID: Final = "written as it is valid"


def remember_valid(program: Program) -> None:
    """Records that a program breaks no rule of the language: it is then within every limit of the written forms."""
    program._cache[_VALID] = True


def is_known_valid(program: Program) -> bool:
    """Returns whether ``remember_valid`` was called."""
    return _VALID in program._cache


def check_writable(program: Program) -> None:
    """Raises ``InvalidProgram`` if no written form can hold the program.

    That is the case if it is deeper or larger than the limits, or an integer field is out of range.  Linear in the
    number of distinct nodes, however often they are shared; a positive answer is cached, and known of a valid program.
    An ``else if`` is no deeper than its ``if``.
    """
    if not (_VALID in program._cache or _WRITABLE in program._cache):
        _check(program)
        program._cache[_WRITABLE] = True


def _check(program: Program) -> None:
    _check_header(program)
    measured: dict[int, tuple[int, int]] = {}
    total = 0
    pending: list[tuple[ir.Body, int]] = [(program.body, 0)]
    if program.definitions:
        _check_headers(program.definitions)
        # As statements, so that results are measured like the values of statements.
        pending += [((*each.body, ir.Let("", each.result)), 0) for each in program.definitions]
        total -= len(program.definitions)
    while pending:
        body, depth = pending.pop()
        if body and depth > MAX_STATEMENT_DEPTH:
            raise InvalidProgram(
                f"statements are nested {depth} bodies deep; the limit is {MAX_STATEMENT_DEPTH}",
                fix="flatten the nesting or split the program.",
            )
        for stmt in body:
            total += 1
            if type(stmt) is ir.Switch:
                total += ir.own_size(stmt) - 1
                _check_labels(stmt)
            elif type(stmt) is ir.IndirectDispatch:
                _check_range("the offset of an indirect dispatch", stmt.offset, U64_MAX)
            for operand in ir.operands(stmt):
                size = size_if_small(operand, MAX_EXPRESSION_DEPTH, _CHECKS)
                if not size:
                    height, size = measure(operand, measured, MAX_NODES + 1, _CHECKS)
                    if height > MAX_EXPRESSION_DEPTH:
                        raise InvalidProgram(
                            f"an expression is {height} operators deep; the limit is {MAX_EXPRESSION_DEPTH}",
                            fix="compute parts of it first, as locals.",
                        )
                total += size
            if type(stmt) in ir.WITH_BODIES:
                pending += ir.nested(stmt, depth)
        if total > MAX_NODES:
            raise InvalidProgram(
                f"written out, the program has more than {MAX_NODES} nodes",
                fix="compute shared sub-expressions once, as locals, or split the program.",
            )


def _check_labels(stmt: ir.Switch) -> None:
    for arm in stmt.arms:
        for label in arm.labels:
            if type(label) is not ir.Literal:
                raise misplaced(label, "a label of `switch`", "Literal.of(ScalarType.U32, 1)")


def is_name_too_long(name: str) -> bool:
    """Returns whether a name has more than ``MAX_NAME_BYTES`` bytes."""
    return len(name) > MAX_NAME_BYTES // 4 and len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES


def checked_name(name: str) -> str:
    """Returns the name; raises ``InvalidProgram`` for one that is too long to be read back."""
    if is_name_too_long(name):
        raise InvalidProgram(f"`{name[:40]}...` has more than {MAX_NAME_BYTES} bytes", fix="shorten the name.")
    return name


def check_names(program: Program) -> None:
    """Raises ``InvalidProgram`` if a name, tag or label is too long to be read back."""
    if program.name is not None:
        checked_name(program.name)
    for definition in program.definitions:
        for written in (definition.id, *[parameter.name for parameter in definition.parameters]):
            checked_name(written)
    for node in (*program.buffers, *program_statements(program), *unique_expressions(program)):
        for name in _NAMES[type(node)](node):
            if name is not None:
                checked_name(name)


def _names_of(cls: type) -> Callable[[Any], tuple[str | None, ...]]:
    """Returns a function from a node of that class to its names, tags and labels."""
    return fields_getter(tuple(field.name for field in fields(cls) if field.type in ("str", "str | None")))


_NAMES: Final = {cls: _names_of(cls) for cls in (*ir.EXPR_TYPES, *ir.STMT_TYPES, Buffer)}


def _check_launch_id(node: ir.LaunchId) -> None:
    if not 0 <= node.axis <= 2:
        raise _out_of_range("the axis of a launch id", node.axis, 2)


def _check_atomic(node: ir.Atomic) -> None:
    if (node.expected is None) is (node.op is AtomicOp.COMPARE_EXCHANGE):
        raise InvalidProgram(
            f"atomic {node.op.name.lower()} on `{node.buffer}` has the wrong operands",
            fix="give an expected value to compare_exchange and to no other operator.",
        )


def _check_spec_const(node: ir.SpecConst) -> None:
    if type(node.default) is not ir.Literal:
        raise misplaced(node.default, "the default of a specialization constant", "Literal.of(ScalarType.U32, 1)")


_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    ir.LaunchId: _check_launch_id,
    ir.Atomic: _check_atomic,
    ir.SpecConst: _check_spec_const,
}


def _check_headers(definitions: tuple[Definition, ...]) -> None:
    if len(definitions) > MAX_DEFINITIONS:
        raise InvalidProgram(
            f"the program has {len(definitions)} definitions; the limit is {MAX_DEFINITIONS}",
            fix="leave out those that it does not call.",
        )
    for each in definitions:
        if len(each.parameters) > MAX_PARAMETERS:
            raise InvalidProgram(
                f"`{each.id}` has {len(each.parameters)} parameters; the limit is {MAX_PARAMETERS}",
                fix="split the operation.",
            )
        for dtype in (each.result_type, *[parameter.dtype for parameter in each.parameters]):
            if not isinstance(dtype, ScalarType):
                raise misplaced(dtype, "the type of a parameter or a result", "ScalarType.F32")
        for number in (each.version.major, each.version.minor, each.version.patch):
            _check_range(f"a number of the version of `{each.id}`", number, U32_MAX)


def _check_header(program: Program) -> None:
    if len(program.buffers) > MAX_BUFFERS:
        raise InvalidProgram(
            f"the program has {len(program.buffers)} buffers; the limit is {MAX_BUFFERS}",
            fix="merge buffers of the same element type.",
        )
    if len(program.workgroup_size) != 3:
        raise InvalidProgram("the workgroup size has not three axes", fix="give (x, y, z).")
    for size in program.workgroup_size:
        if not 0 <= size <= U32_MAX:
            raise _out_of_range("an axis of the workgroup size", size, U32_MAX)
    for buffer in program.buffers:
        if (
            buffer.output_range is not None
            or buffer.hints is not NO_HINTS
            or not (0 <= buffer.binding <= U32_MAX and 0 <= buffer.count <= U32_MAX)
        ):
            _check_buffer(buffer)


def _check_buffer(buffer: Buffer) -> None:
    where = f"of buffer `{buffer.name}`"
    _check_range(f"the binding {where}", buffer.binding, U32_MAX)
    _check_range(f"the count {where}", buffer.count, U32_MAX)
    for end in buffer.output_range or ():
        _check_range(f"the output range {where}", end, U64_MAX)
    _check_range(f"the preferred alignment {where}", buffer.hints.preferred_alignment, U32_MAX)
    if buffer.hints.coalesce_axis is not None:
        _check_range(f"the coalesce axis {where}", buffer.hints.coalesce_axis, 255)


def _check_range(what: str, value: int, high: int) -> None:
    if not 0 <= value <= high:
        raise _out_of_range(what, value, high)


def _out_of_range(what: str, value: int, high: int) -> InvalidProgram:
    return InvalidProgram(f"{what} is {value}", fix=f"use an integer in 0..{high}.")

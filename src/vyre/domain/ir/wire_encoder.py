"""An encoder of the two sections of ``.vyrb`` (``wire_format`` describes them), without recursion."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vyre.domain.ir import expr as x
from vyre.domain.ir import stmt as s
from vyre.domain.ir import wire_format as w
from vyre.domain.ir.buffers import Access, Buffer, MemoryKind
from vyre.domain.ir.definition_nodes import DEFINITION_EXPRESSIONS, DEFINITION_STATEMENTS
from vyre.domain.ir.expr import CHILDREN, LEAVES, Expr, Literal, children
from vyre.domain.ir.forms import FORMS
from vyre.domain.ir.limits import MAX_NAME_BYTES, check_writable, is_known_valid
from vyre.domain.ir.location_table import LocationTable, table_of
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering, SubgroupOp, UnaryOp
from vyre.domain.ir.size_parameters import written_sizes
from vyre.domain.ir.type_forms import ArgKind, argument_kinds, type_to_json
from vyre.domain.ir.types import DataType, ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.program_report import InvalidProgram

if TYPE_CHECKING:
    from vyre.domain.ir.definitions import Definition
    from vyre.domain.ir.program import Program


class Sections(NamedTuple):
    """The semantic body and the names section of one program, or of one definition."""

    body: bytes
    names: bytes


def encode_sections(program: Program, *, locations: bool = False) -> Sections:
    """Returns semantic body and names section, which has the ``locations`` of nodes on request.

    Raises ``InvalidProgram`` where a name does not resolve, is declared twice where it is visible, or the program
    exceeds the limits of every written form.
    """
    writer, order = _written(program)
    table = table_of(program) if locations else None
    return Sections(writer.body(program, order), writer.names(program, order, table))


def encode_body(program: Program) -> bytes:
    """Returns the semantic body alone; raises the errors of ``encode_sections``."""
    writer, order = _written(program)
    return writer.body(program, order)


def encode_definition(definition: Definition) -> Sections:
    """Returns the encoding of a definition, and the names of its parameters and locals.

    Raises ``InvalidProgram`` where a name does not resolve or a statement or expression belongs to no definition.
    """
    statements = list(s.walk_statements(definition.body))
    roots = [*itertools.chain.from_iterable(map(s.operands, statements)), definition.result]
    if not (
        DEFINITION_STATEMENTS.issuperset(map(type, statements))
        and DEFINITION_EXPRESSIONS.issuperset(map(type, unique_nodes(roots)))
    ):
        raise InvalidProgram(
            f"`{definition.id}` has a statement or an expression that depends on more than its locals",
            fix="use `let`, assignments, `if`, `switch` and loops over locals, and pass values as arguments.",
        )
    writer = _Writer({}, (), [])
    for parameter in definition.parameters:
        writer._declare(parameter.name)
    writer.statements(definition.body)
    writer._expression(definition.result)
    head = _string(definition.id)
    version = definition.version
    for number in (version.major, version.minor, version.patch, len(definition.parameters)):
        head += uleb(number)
    types = [_TAG_OF[each.dtype] | w.IS_ATTRIBUTE * each.is_attribute for each in definition.parameters]
    body = head + bytes((*types, _TAG_OF[definition.result_type])) + bytes(writer._out) + bytes((w.RESULT,))
    return Sections(body, _list(map(_string, writer._locals)))


def _written(program: Program) -> tuple[_Writer, list[Buffer]]:
    if not is_known_valid(program):
        check_writable(program)
        _check_buffers(program)
    abi, every = program.abi_buffers, program.buffers
    shared = [b for b in every if not b.is_bound] if len(abi) < len(every) else []
    writer = _Writer(program.buffers_by_name, abi, shared)
    writer.statements(program.body)
    return writer, writer.buffer_order()


_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


def uleb(value: int) -> bytes:
    """Returns unsigned LEB128 in its shortest form."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _string(value: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    if len(raw) > MAX_NAME_BYTES:
        raise InvalidProgram(f"a name has {len(raw)} bytes", fix=f"use at most {MAX_NAME_BYTES}.")
    return uleb(len(raw)) + raw


def _type(dtype: DataType) -> bytes:
    if isinstance(dtype, ScalarType):
        return bytes((_TAG_OF[dtype],))
    try:
        type_to_json(dtype)
    except ValueError as error:
        raise InvalidProgram(f"element type {dtype.name} cannot be written: {error}") from None
    arguments = zip(argument_kinds(dtype.name), dtype.args, strict=True)
    return bytes((dtype.tag,)) + b"".join(_argument(kind, argument) for kind, argument in arguments)


def _argument(kind: ArgKind, argument: Any) -> bytes:
    match kind:
        case ArgKind.INT:
            return uleb(argument)
        case ArgKind.TYPE:
            return _type(argument)
        case ArgKind.TEXT:
            return _string(argument)
        case ArgKind.DIMS:
            return uleb(len(argument)) + b"".join(map(uleb, argument))


def _check_buffers(program: Program) -> None:
    names, abi = program.buffers_by_name, program.abi_buffers
    if len(names) < len(program.buffers):
        raise InvalidProgram("two buffers have the same name", fix="give every buffer its own name.")
    if len({buffer.binding for buffer in abi}) < len(abi):
        raise InvalidProgram("two buffers have the same binding", fix="give every buffer its own binding.")
    for buffer in program.buffers:
        if buffer.like is not None and (not buffer.is_bound or buffer.like not in names):
            raise InvalidProgram(
                f"buffer `{buffer.name}` cannot be sized like `{buffer.like}`",
                fix="name a declared buffer, on a buffer of the interface.",
            )


# Reading ``value`` of an enum member costs more than writing the rest of a node.
_TAG_OF: Final[dict[Enum, int]] = {
    member: member.value
    for enum in (AtomicOp, SubgroupOp, Ordering, x.IdKind, Access, MemoryKind, ScalarType)
    for member in enum
}
_BINARY: Final = {op: w.BINARY + op.value for op in BinaryOp}
_UNARY: Final = {op: w.UNARY + op.value for op in UnaryOp}
_LITERALS: Final = {dtype: (opcode, dtype.size * dtype.is_float) for dtype, opcode in w.LITERAL.items()}
_CONVERSIONS: Final = {each.node: each.opcode for each in x.CONVERSIONS.values()}
_CLOSE: Final = object()
_ELSE: Final = object()
_DEFAULT: Final = object()


class _Declared(NamedTuple):
    """A local that a statement declares behind its body."""

    name: str


class _Writer:
    """Collects the statement stream, and everything that is numbered or named in it."""

    def __init__(self, by_name: Mapping[str, Buffer], abi: tuple[Buffer, ...], shared: list[Buffer]) -> None:
        self._by_name = by_name
        self._out = bytearray()
        self._numbers = {buffer.name: uleb(i) for i, buffer in enumerate(abi)}
        """The numbers of buffers by name, as they are written, in ascending order."""
        self._shared = shared
        self._visible: dict[str, int] = {}
        self._scopes: list[int] = []
        self._locals: list[str] = []
        self._tags: dict[str, int] = {}
        self._specs: dict[tuple[str, ScalarType, int], int] = {}
        self._called: dict[str, int] = {}
        self._blocks: list[tuple[str, str | None] | None] = []

    # Statements.

    def statements(self, body: s.Body) -> None:
        tasks: list[Any] = list(reversed(body))
        while tasks:
            task = tasks.pop()
            if task is _CLOSE:
                self._out.append(w.END)
                self._leave()
            elif task is _ELSE:
                self._out.append(w.ELSE)
                self._leave()
                self._enter()
            elif task is _DEFAULT:
                self._out.append(w.DEFAULT)
                self._leave()
                self._enter()
            elif type(task) is s.Arm:
                self._write_arm(task)
            elif type(task) is _Declared:
                self._declare(task.name)
            else:
                kind = type(task)
                for operand in s.OPERANDS[kind](task):
                    self._expression(operand)
                _WRITE[kind](self, task, tasks)

    # Writers of the fields that follow the operands of a statement.

    def _write_let(self, stmt: s.Let, _: list[Any]) -> None:
        self._out.append(w.LET)
        self._declare(stmt.name)

    def _write_assign(self, stmt: s.Assign, _: list[Any]) -> None:
        self._out.append(w.ASSIGN)
        self._out += uleb(self._slot(stmt.name))

    def _write_store(self, stmt: s.Store, _: list[Any]) -> None:
        self._out.append(w.STORE)
        self._out += self._buffer(stmt.buffer)

    def _write_if(self, stmt: s.If, tasks: list[Any]) -> None:
        self._open(w.IF, tasks, stmt.otherwise)
        if stmt.otherwise:
            tasks.append(_ELSE)
        tasks += reversed(stmt.then)

    def _write_switch(self, stmt: s.Switch, tasks: list[Any]) -> None:
        self._out.append(w.SWITCH)
        self._enter()
        tasks.append(_CLOSE)
        if stmt.default:
            tasks += reversed(stmt.default)
            tasks.append(_DEFAULT)
        for arm in reversed(stmt.arms):
            tasks += reversed(arm.body)
            tasks.append(arm)

    def _write_arm(self, arm: s.Arm) -> None:
        self._leave()
        self._enter()
        self._out.append(w.ARM)
        self._out += uleb(len(arm.labels))
        for label in arm.labels:
            self._emit_literal(label)

    def _write_loop(self, stmt: s.Loop, tasks: list[Any]) -> None:
        self._open(w.LOOP, tasks, stmt.body)
        self._declare(stmt.var)

    def _write_grid_loop(self, stmt: s.GridLoop, tasks: list[Any]) -> None:
        tasks.append(_Declared(stmt.name))
        self._open(w.GRID_LOOP, tasks, stmt.body)
        self._out += self._buffer(stmt.flag)

    def _write_block(self, stmt: s.Block, tasks: list[Any]) -> None:
        self._blocks.append(None)
        self._open(w.BLOCK, tasks, stmt.body)

    def _write_region(self, stmt: s.Region, tasks: list[Any]) -> None:
        self._blocks.append((stmt.generator, stmt.source))
        self._open(w.BLOCK, tasks, stmt.body)

    def _write_copy(self, stmt: s.AsyncLoad | s.AsyncStore, _: list[Any]) -> None:
        self._out.append(w.ASYNC_LOAD if isinstance(stmt, s.AsyncLoad) else w.ASYNC_STORE)
        self._out += self._buffer(stmt.source) + self._buffer(stmt.destination) + self._tag(stmt.tag)

    def _write_wait(self, stmt: s.AsyncWait, _: list[Any]) -> None:
        self._out.append(w.ASYNC_WAIT)
        self._out += self._tag(stmt.tag)

    def _write_trap(self, stmt: s.Trap, _: list[Any]) -> None:
        self._out.append(w.TRAP)
        self._out += _string(stmt.tag)

    def _write_barrier(self, stmt: s.Barrier, _: list[Any]) -> None:
        self._out += bytes((w.BARRIER, _TAG_OF[stmt.ordering]))

    def _write_indirect_dispatch(self, stmt: s.IndirectDispatch, _: list[Any]) -> None:
        self._out.append(w.INDIRECT_DISPATCH)
        self._out += self._buffer(stmt.buffer) + uleb(stmt.offset)

    def _open(self, opcode: int, tasks: list[Any], body: s.Body) -> None:
        self._out.append(opcode)
        self._scopes.append(len(self._visible))
        tasks.append(_CLOSE)
        tasks += reversed(body)

    def _enter(self) -> None:
        self._scopes.append(len(self._visible))

    def _leave(self) -> None:
        depth = self._scopes.pop()
        while len(self._visible) > depth:
            self._visible.popitem()

    def _declare(self, name: str) -> None:
        if name in self._visible:
            raise InvalidProgram(f"local `{name}` is declared where it is visible already", fix="rename one of them.")
        self._visible[name] = len(self._visible)
        self._locals.append(name)

    def _slot(self, name: str) -> int:
        slot = self._visible.get(name)
        if slot is None:
            raise InvalidProgram(f"no local `{name}` is visible", fix="declare it with let before its use.")
        return slot

    def _buffer(self, name: str) -> bytes:
        number = self._numbers.get(name)
        if number is None:
            if name not in self._by_name:
                raise InvalidProgram(f"no buffer is named `{name}`", fix="declare it.")
            number = self._numbers[name] = uleb(len(self._numbers))
        return number

    def _tag(self, tag: str) -> bytes:
        return uleb(self._tags.setdefault(tag, len(self._tags)))

    # Expressions: right-to-left preorder, reversed, is evaluation order.

    def _expression(self, root: Expr) -> None:
        order: list[Expr] = []
        stack = [root]
        while stack:
            node = stack.pop()
            order.append(node)
            kind = type(node)
            if kind not in LEAVES:
                stack += children(node) if kind is x.Atomic else CHILDREN[kind](node)
        out, numbers = self._out, self._numbers
        for node in reversed(order):  # most nodes are of the first few kinds, and written without a call
            if type(node) is x.Binary:
                out.append(_BINARY[node.op])
            elif type(node) is x.Var:
                out.append(w.VAR)
                out += uleb(self._slot(node.name))
            elif type(node) is x.Load:
                out.append(w.LOAD)
                out += numbers.get(node.buffer) or self._buffer(node.buffer)
            elif type(node) is x.LaunchId:
                out += bytes((w.LAUNCH_ID, _TAG_OF[node.kind], node.axis))
            else:
                _EMIT[type(node)](self, node)

    def _emit_literal(self, node: Literal) -> None:
        opcode, float_bytes = _LITERALS[node.dtype]
        self._out.append(opcode)
        self._out += node.bits.to_bytes(float_bytes, "little") if float_bytes else uleb(node.bits)

    def _emit_length(self, node: x.BufferLength) -> None:
        self._out.append(w.LENGTH)
        self._out += self._buffer(node.buffer)

    def _emit_unary(self, node: x.Unary) -> None:
        self._out.append(_UNARY[node.op])

    def _emit_operator(self, node: Any) -> None:
        self._out.append(_TAG_OF[node.op])

    def _emit_cast(self, node: x.Cast | x.Bitcast | x.Narrow | x.Pack | x.Unpack | x.WrapCast) -> None:
        self._out += bytes((_CONVERSIONS[type(node)], _TAG_OF[node.dtype]))

    def _emit_atomic(self, node: x.Atomic) -> None:
        self._out += bytes((w.ATOMIC, _TAG_OF[node.op], _TAG_OF[node.ordering]))
        self._out += self._buffer(node.buffer)

    def _emit_spec_const(self, node: x.SpecConst) -> None:
        known = len(self._specs)
        number = self._specs.setdefault((node.name, node.default.dtype, node.default.bits), known)
        self._out.append(w.SPEC_CONST)
        self._out += uleb(number)
        if number == known:
            self._out += _string(node.name)
            self._emit_literal(node.default)

    def _emit_call(self, node: x.Call) -> None:
        known = len(self._called)
        number = self._called.setdefault(node.op, known)
        self._out.append(w.CALL)
        self._out += uleb(number) + uleb(len(node.args))
        if number == known:
            self._out += _string(node.op)

    def _emit_native(self, node: x.Native) -> None:
        self._out += bytes((w.NATIVE, _TAG_OF[node.dtype])) + uleb(len(node.args))
        self._out += _string(node.language) + _string(node.text)

    # Sections.

    def buffer_order(self) -> list[Buffer]:
        """Returns the buffers by number; unused workgroup and private memory comes last, sorted by its record."""
        order = list(map(self._by_name.__getitem__, self._numbers))
        if len(order) < len(self._by_name):
            for buffer in sorted([b for b in self._shared if b.name not in self._numbers], key=self._record):
                self._numbers[buffer.name] = uleb(len(order))
                order.append(buffer)
        return order

    def body(self, program: Program, order: list[Buffer]) -> bytes:
        out = bytearray()
        for size in (*program.workgroup_size, len(order)):
            out += uleb(size)
        for buffer in order:
            out += self._record(buffer)
        out += self._out
        return bytes(out)

    def _record(self, buffer: Buffer) -> bytes:
        flags = buffer.is_output * w.IS_OUTPUT
        tail = b""
        if buffer.like is not None:
            flags |= w.HAS_LIKE
            tail += self._numbers[buffer.like]
        if buffer.output_range is not None:
            flags |= w.HAS_RANGE
            tail += b"".join(map(uleb, buffer.output_range))
        element, tag = buffer.element, _TAG_OF
        if not isinstance(element, ScalarType):
            head = bytes((tag[buffer.access], flags, tag[buffer.kind])) + _type(element)
        else:
            head = bytes((tag[buffer.access], flags, tag[buffer.kind], tag[element]))
        return head + uleb(buffer.count) + tail

    def names(self, program: Program, order: list[Buffer], table: LocationTable | None) -> bytes:
        place = {buffer.name: i for i, buffer in enumerate(program.buffers)}
        flags = (program.name is not None) * w.HAS_NAME | program.non_composable * w.NON_COMPOSABLE
        sizes = written_sizes(program.sizes, order)
        flags |= bool(sizes) * w.HAS_SIZES | (table is not None) * w.HAS_LOCATIONS
        out = bytearray((flags,))
        if program.name is not None:
            out += _string(program.name)
        for buffer in order:
            hints = buffer.hints
            axis = 0 if hints.coalesce_axis is None else hints.coalesce_axis + 1
            out += _string(buffer.name) + uleb(buffer.binding)
            out += uleb(axis) + uleb(hints.preferred_alignment) + bytes((hints.locality.value,))
            out += uleb(place[buffer.name])
        out += _list(map(_string, self._locals))
        out += _list(map(_string, self._tags))
        out += _list(map(_block, self._blocks))
        if sizes:
            number = {buffer.name: i for i, buffer in enumerate(order)}
            out += _list(uleb(number[name]) + uleb(number[array]) + uleb(-axis) for name, array, axis in sizes)
        if table is not None:
            out += _list(map(_string, table.strings))
            for rows in (table.places, table.nodes):
                out += _list(_list(map(uleb, row)) for row in rows)
        return bytes(out)


def _list(items: Iterable[bytes]) -> bytes:
    written = list(items)
    return uleb(len(written)) + b"".join(written)


def _block(label: tuple[str, str | None] | None) -> bytes:
    if label is None:
        return bytes((w.PLAIN_BLOCK,))
    generator, source = label
    if source is None:
        return bytes((w.REGION,)) + _string(generator)
    return bytes((w.SOURCED_REGION,)) + _string(generator) + _string(source)


def _opcode(value: int) -> Callable[..., None]:
    def write(writer: _Writer, *_: object) -> None:
        writer._out.append(value)

    return write


_WRITE: Final[dict[type[Node], Callable[[_Writer, Any, list[Any]], None]]] = {
    s.Let: _Writer._write_let,
    s.Assign: _Writer._write_assign,
    s.Store: _Writer._write_store,
    s.If: _Writer._write_if,
    s.Switch: _Writer._write_switch,
    s.Loop: _Writer._write_loop,
    s.GridLoop: _Writer._write_grid_loop,
    s.Break: _opcode(w.BREAK),
    s.Continue: _opcode(w.CONTINUE),
    s.Return: _opcode(w.RETURN),
    s.Block: _Writer._write_block,
    s.Region: _Writer._write_region,
    s.Barrier: _Writer._write_barrier,
    s.AsyncLoad: _Writer._write_copy,
    s.AsyncStore: _Writer._write_copy,
    s.AsyncWait: _Writer._write_wait,
    s.Trap: _Writer._write_trap,
    s.IndirectDispatch: _Writer._write_indirect_dispatch,
}


_EMIT: Final[dict[Callable[..., Any], Callable[[_Writer, Any], None]]] = {
    **{each.node: _opcode(each.opcode) for each in x.FUNCTIONS.values() if isinstance(each.node, type)},
    **{cls: _Writer._emit_operator for cls, form in FORMS.items() if form.operators},
    Literal: _Writer._emit_literal,
    x.BufferLength: _Writer._emit_length,
    x.Unary: _Writer._emit_unary,
    **dict.fromkeys(_CONVERSIONS, _Writer._emit_cast),
    x.Atomic: _Writer._emit_atomic,
    x.SpecConst: _Writer._emit_spec_const,
    x.Call: _Writer._emit_call,
    x.Native: _Writer._emit_native,
}

"""A decoder of the two sections of ``.vyrb`` (``wire_format`` describes them).

Any bytes give a program or ``MalformedWire``: nothing recurses, nothing is allocated from a length that was not
compared with the bytes present, and everything that is accepted is what the encoder writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vyre.domain.ir import expr as x
from vyre.domain.ir import stmt as s
from vyre.domain.ir import wire_format as w
from vyre.domain.ir.collector import collector_paused
from vyre.domain.ir.definition_nodes import DEFINITION_EXPRESSIONS
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.expr import Expr, IdKind, Literal
from vyre.domain.ir.forms import FORMS
from vyre.domain.ir.limits import (
    MAX_BUFFERS,
    MAX_EXPRESSION_DEPTH,
    MAX_NODES,
    MAX_PARAMETERS,
    MAX_STATEMENT_DEPTH,
    U64_MAX,
)
from vyre.domain.ir.location_table import with_table
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering, UnaryOp
from vyre.domain.ir.stmt import Stmt
from vyre.domain.ir.types import SCALAR_BY_TAG, ScalarType
from vyre.domain.ir.wire_declarations import Labels, LocalNames, by_value, member, read_record
from vyre.domain.ir.wire_reader import WireReader

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program


class Defined(NamedTuple):
    """Definitions, and the number of nodes that the body of their program may have."""

    definitions: tuple[Definition, ...]
    most_nodes: int


@collector_paused()
def decode_definitions(bodies: list[WireReader], names: WireReader) -> Defined:
    """Returns the definitions of their encodings, whose names come next in ``names``; raises ``MalformedWire``."""
    definitions: list[Definition] = []
    most_nodes = MAX_NODES
    for body in bodies:
        decoder = _DefinitionDecoder(body, LocalNames(names), most_nodes)
        definitions.append(decoder.definition())
        most_nodes = decoder.most_nodes
    return Defined(tuple(definitions), most_nodes)


@collector_paused()
def decode_sections(body: WireReader, names: WireReader, make: type[Program], defined: Defined) -> Program:
    """Returns the program of a body and its names, as an instance of ``make``; raises ``MalformedWire``."""
    size_x, size_y, size_z = body.uleb(), body.uleb(), body.uleb()
    count = body.uleb(MAX_BUFFERS)
    records = [read_record(body, count) for _ in range(count)]
    labels = Labels(names, records)
    decoder = _Decoder(body, labels, defined.most_nodes)
    statements = decoder.run()
    labels.finish()
    program = make(
        labels.declared(),
        (size_x, size_y, size_z),
        statements,
        name=labels.program_name,
        non_composable=labels.non_composable,
        definitions=defined.definitions,
        sizes=labels.sizes,
    )
    if labels.locations is None:
        return program
    try:
        return with_table(program, labels.locations)
    except ValueError as error:
        raise names.fail(str(error)) from None


_ID_KIND: Final = by_value(IdKind)
_ATOMIC: Final = by_value(AtomicOp)
_ORDERING: Final = by_value(Ordering)


class _Open(NamedTuple):
    """A statement whose body is being read.

    Its height is the number of levels of bodies in it, in which a link of ``else if`` is no level: ``outside`` is the
    greatest height of the statements before it in its body, ``inside`` its own as far as its bodies are complete.
    """

    opcode: int
    fields: tuple[Any, ...]
    outer: list[Stmt]
    visible: int
    outside: int
    then: tuple[Stmt, ...] | None = None
    inside: int = 0


class _Decoder:
    """Runs the stack machine over the statements of a body."""

    def __init__(self, reader: WireReader, labels: Labels, most_nodes: int) -> None:
        self._reader = reader
        self._labels = labels
        self._height = 0
        """The greatest height of the statements read so far in the open body."""
        self._values: list[Expr] = []
        self._heights: list[int] = []
        self._statements: list[Stmt] = []
        self._open: list[_Open] = []
        self._visible: list[str] = []
        self._visible_names: set[str] = set()
        self._used_tags = 0
        self.most_nodes: int = most_nodes
        """The number of nodes that may still be read."""
        self._specs: dict[tuple[str, ScalarType, int], x.SpecConst] = {}
        self._spec_list: list[x.SpecConst] = []
        self._called: list[str] = []
        shared = [i for i, record in enumerate(labels.records) if not record.is_bound]
        self._used_buffers = shared[0] if shared else len(labels.records)

    def run(self) -> tuple[Stmt, ...]:
        reader = self._reader
        self._read(_HANDLERS)
        if self._open or self._values:
            raise reader.fail("the body ends inside a statement")
        if self._used_tags != len(self._labels.tags):
            raise reader.fail("more async tags than the body uses")
        self._labels.require_sorted(self._used_buffers)
        return tuple(self._statements)

    def _read(self, handlers: tuple[_Handler | None, ...]) -> None:
        """Reads up to the end of the data."""
        reader = self._reader
        nodes = 0
        while not reader.at_end:
            opcode = reader.byte()
            handler = handlers[opcode]
            if handler is None:
                raise reader.fail(f"unknown opcode {opcode:#04x}")
            handler(self, opcode)
            nodes += opcode not in _NO_NODE
            if nodes > self.most_nodes:
                raise reader.fail(f"the program has more than {MAX_NODES} nodes")
        self.most_nodes -= nodes

    # Expressions.

    def _push(self, node: Expr) -> None:
        self._values.append(node)
        self._heights.append(0)

    def _pop(self, count: int) -> list[Expr]:
        """Returns the last ``count`` operands; their parent must be pushed with ``_replace``."""
        if count > len(self._values):
            raise self._reader.fail("an operator lacks operands")
        operands = self._values[-count:]
        del self._values[-count:]
        return operands

    def _replace(self, count: int, node: Expr) -> None:
        """Pushes the parent of ``count`` popped operands."""
        heights = self._heights
        height = heights[-1] + 1 if count == 1 else max(heights[-count:]) + 1
        if height > MAX_EXPRESSION_DEPTH:
            raise self._reader.fail(f"expressions are nested more than {MAX_EXPRESSION_DEPTH} deep")
        del heights[-count:]
        heights.append(height)
        self._values.append(node)

    def _literal(self, opcode: int) -> None:
        dtype = _LITERAL_TYPE[opcode]
        self._push(self._read_literal(dtype))

    def _read_literal(self, dtype: ScalarType) -> Literal:
        reader = self._reader
        if dtype.is_float:
            return Literal(dtype, int.from_bytes(reader.take(dtype.size), "little"))
        return Literal(dtype, reader.uleb(_LITERAL_MAX[dtype]))

    def _var(self, _: int) -> None:
        self._push(x.Var(self._local()))

    def _local(self) -> str:
        slot = self._reader.uleb()
        if slot >= len(self._visible):
            raise self._reader.fail("a local is not visible")
        return self._visible[slot]

    def _buffer(self) -> str:
        number = self._reader.uleb()
        if number >= self._used_buffers:
            if number > self._used_buffers or number >= len(self._labels.buffer_names):
                raise self._reader.fail("a buffer does not exist or is not numbered by first use")
            self._used_buffers += 1
        return self._labels.buffer_names[number]

    def _load(self, _: int) -> None:
        buffer = self._buffer()
        (index,) = self._pop(1)
        self._replace(1, x.Load(buffer, index))

    def _length(self, _: int) -> None:
        self._push(x.BufferLength(self._buffer()))

    def _launch_id(self, _: int) -> None:
        kind = member(self._reader, _ID_KIND, "launch id")
        axis = self._reader.byte()
        if axis > 2:
            raise self._reader.fail(f"unknown axis {axis}")
        self._push(x.LaunchId(kind, axis))

    def _binary(self, opcode: int) -> None:
        left, right = self._pop(2)
        self._replace(2, x.Binary(_BINARY_OP[opcode], left, right))

    def _unary(self, opcode: int) -> None:
        (operand,) = self._pop(1)
        self._replace(1, x.Unary(_UNARY_OP[opcode], operand))

    def _converted(self, opcode: int) -> None:
        dtype = member(self._reader, SCALAR_BY_TAG, "scalar type")
        (operand,) = self._pop(1)
        self._replace(1, _CONVERSIONS[opcode](dtype, operand))

    def _atomic(self, _: int) -> None:
        op = member(self._reader, _ATOMIC, "atomic operator")
        ordering = member(self._reader, _ORDERING, "ordering")
        buffer = self._buffer()
        if op is AtomicOp.COMPARE_EXCHANGE:
            index, expected, value = self._pop(3)
            self._replace(3, x.Atomic(op, buffer, index, expected, value, ordering))
        else:
            index, value = self._pop(2)
            self._replace(2, x.Atomic(op, buffer, index, None, value, ordering))

    def _spec_const(self, _: int) -> None:
        reader = self._reader
        number = reader.uleb()
        if number > len(self._spec_list):
            raise reader.fail("spec constants are not numbered by first use")
        if number == len(self._spec_list):
            name = reader.string()
            opcode = reader.byte()
            if opcode not in _LITERAL_TYPE:
                raise reader.fail("the default of a spec constant is no literal")
            default = self._read_literal(_LITERAL_TYPE[opcode])
            key = (name, default.dtype, default.bits)
            if key in self._specs:
                raise reader.fail("a spec constant is written twice")
            self._specs[key] = x.SpecConst(name, default)
            self._spec_list.append(self._specs[key])
        self._push(self._spec_list[number])

    def _call(self, _: int) -> None:
        reader = self._reader
        number, count = reader.uleb(), reader.uleb()
        if number > len(self._called):
            raise reader.fail("called operations are not numbered by first use")
        if number == len(self._called):
            name = reader.string()
            if name in self._called:
                raise reader.fail("the id of an operation is written twice")
            self._called.append(name)
        if not count:
            self._push(x.Call(self._called[number], ()))
        else:
            self._replace(count, x.Call(self._called[number], tuple(self._pop(count))))

    # Statements.

    def _operands(self, count: int) -> list[Expr]:
        """Returns the operands of a statement: exactly those on the stack."""
        if len(self._values) != count:
            raise self._reader.fail(f"a statement takes {count} operands, found {len(self._values)}")
        operands = self._values
        self._values, self._heights = [], []
        return operands

    def _declare(self, name: str) -> None:
        if name in self._visible_names:
            raise self._reader.fail("a local is declared where its name is visible")
        self._visible.append(name)
        self._visible_names.add(name)

    def _let(self, _: int) -> None:
        (value,) = self._operands(1)
        name = self._labels.next_local()
        self._declare(name)
        self._statements.append(s.Let(name, value))

    def _assign(self, _: int) -> None:
        (value,) = self._operands(1)
        self._statements.append(s.Assign(self._local(), value))

    def _store(self, _: int) -> None:
        index, value = self._operands(2)
        self._statements.append(s.Store(self._buffer(), index, value))

    def _simple(self, opcode: int) -> None:
        self._operands(0)
        self._statements.append(_SIMPLE[opcode]())

    def _barrier(self, _: int) -> None:
        self._operands(0)
        self._statements.append(s.Barrier(member(self._reader, _ORDERING, "ordering")))

    def _async(self, opcode: int) -> None:
        offset, size = self._operands(2)
        node = s.AsyncLoad if opcode == w.ASYNC_LOAD else s.AsyncStore
        source, destination = self._buffer(), self._buffer()
        self._statements.append(node(source, destination, offset, size, self._tag()))

    def _async_wait(self, _: int) -> None:
        self._operands(0)
        self._statements.append(s.AsyncWait(self._tag()))

    def _tag(self) -> str:
        number = self._reader.uleb()
        if number > self._used_tags or number >= len(self._labels.tags):
            raise self._reader.fail("async tags are not numbered by first use")
        self._used_tags = max(self._used_tags, number + 1)
        return self._labels.tags[number]

    def _trap(self, _: int) -> None:
        (address,) = self._operands(1)
        self._statements.append(s.Trap(address, self._reader.string()))

    def _indirect_dispatch(self, _: int) -> None:
        self._operands(0)
        self._statements.append(s.IndirectDispatch(self._buffer(), self._reader.uleb(U64_MAX)))

    # Bodies.

    def _begin(self, opcode: int) -> None:
        fields: tuple[Any, ...]
        if opcode == w.BLOCK:
            self._operands(0)
            fields = (self._labels.next_block(),)
        else:
            fields = tuple(self._operands(3 if opcode == w.LOOP else 1))
            if opcode == w.SWITCH:
                fields = (*fields, [])
        self._open.append(_Open(opcode, fields, self._statements, len(self._visible), self._height))
        self._statements, self._height = [], 0
        if opcode == w.LOOP:
            name = self._labels.next_local()
            self._declare(name)
            self._open[-1] = self._open[-1]._replace(fields=(name, *fields))
        elif opcode == w.GRID_LOOP:
            self._open[-1] = self._open[-1]._replace(fields=(*fields, self._buffer()))

    def _else(self, _: int) -> None:
        self._operands(0)
        if not self._open or self._open[-1].opcode != w.IF or self._open[-1].then is not None:
            raise self._reader.fail("an else belongs to no if")
        body, height = self._close_body()
        self._open[-1] = self._open[-1]._replace(then=body, inside=height)

    def _arm(self, opcode: int) -> None:
        self._operands(0)
        if not self._open or self._open[-1].opcode != w.SWITCH:
            raise self._reader.fail("an arm belongs to no switch")
        self._end_arm(is_last=False)
        labels = None
        if opcode == w.ARM:
            labels = tuple(self._label() for _ in range(self._reader.uleb()))
            self.most_nodes -= len(labels)
        self._open[-1].fields[1].append(labels)

    def _label(self) -> Literal:
        opcode = self._reader.byte()
        if opcode not in _LITERAL_TYPE:
            raise self._reader.fail("the label of an arm is no literal")
        return self._read_literal(_LITERAL_TYPE[opcode])

    def _end_arm(self, *, is_last: bool) -> s.Body:
        """Ends the open body of a switch; returns it if it is the default."""
        opened = self._open[-1]
        parts = opened.fields[1]
        body, height = self._close_body()
        self._open[-1] = opened._replace(inside=max(opened.inside, height))
        if not parts:
            if body:
                raise self._reader.fail("statements precede the arms of a switch")
            return ()
        labels = parts.pop()
        if labels is None:
            if not body or not is_last:
                raise self._reader.fail("the default of a switch is empty, or not its last part")
            return body
        parts.append(s.Arm(labels, body))
        return ()

    def _end(self, _: int) -> None:
        self._operands(0)
        if not self._open:
            raise self._reader.fail("an end closes nothing")
        if self._open[-1].opcode == w.SWITCH:
            self._end_switch()
            return
        body, height = self._close_body()
        opcode, fields, outer, _visible, outside, then, inside = self._open.pop()
        stmt: Stmt
        if opcode == w.LOOP:
            var, start, stop, step = fields
            stmt = s.Loop(var, start, stop, step, body)
        elif opcode == w.GRID_LOOP:
            limit, flag = fields
            name = self._labels.next_local()
            self._declare(name)
            stmt = s.GridLoop(name, limit, flag, body)
        elif opcode == w.IF:
            if then is not None and not body:
                raise self._reader.fail("an else is empty")
            stmt = s.If(fields[0], body) if then is None else s.If(fields[0], then, body)
        elif fields[0] is None:
            stmt = s.Block(body)
        else:
            generator, source = fields[0]
            stmt = s.Region(generator, body, source)
        outer.append(stmt)
        self._statements, self._height = outer, max(outside, inside, height)

    def _end_switch(self) -> None:
        default = self._end_arm(is_last=True)
        opened = self._open.pop()
        selector, arms = opened.fields
        opened.outer.append(s.Switch(selector, tuple(arms), default))
        self._statements, self._height = opened.outer, max(opened.outside, opened.inside)

    def _close_body(self) -> tuple[tuple[Stmt, ...], int]:
        """Returns the statements of the body that ends, and the height that it gives to its statement."""
        body = tuple(self._statements)
        height = 0
        if body:
            is_link = self._open[-1].then is not None and s.is_chained(body)
            height = self._height if is_link else self._height + 1
            if height > MAX_STATEMENT_DEPTH:
                raise self._reader.fail(f"statements are nested more than {MAX_STATEMENT_DEPTH} deep")
        self._height = 0
        first = self._open[-1].visible
        self._visible_names.difference_update(self._visible[first:])
        del self._visible[first:]
        self._statements = []
        return body, height


class _DefinitionDecoder(_Decoder):
    """Reads one definition."""

    def definition(self) -> Definition:
        """Returns the definition; raises ``MalformedWire``."""
        reader = self._reader
        name = reader.string()
        version = Version(reader.uleb(), reader.uleb(), reader.uleb())
        parameters = []
        for tag in [reader.byte() for _ in range(reader.uleb(MAX_PARAMETERS))]:
            parameter, dtype = self._labels.next_local(), SCALAR_BY_TAG.get(tag & ~w.IS_ATTRIBUTE)
            if dtype is None:
                raise reader.fail(f"unknown scalar type {tag:#04x}")
            self._declare(parameter)
            parameters.append(Parameter(parameter, dtype, tag >= w.IS_ATTRIBUTE))
        result_type = self._scalar()
        self._read(_DEFINITION_HANDLERS)
        if self._result is None:
            raise reader.fail("a definition has no result")
        self._labels.finish()
        return Definition(name, version, tuple(parameters), result_type, tuple(self._statements), self._result)

    _result: Expr | None = None

    def _scalar(self) -> ScalarType:
        return member(self._reader, SCALAR_BY_TAG, "scalar type")

    def _end_definition(self) -> None:
        (self._result,) = self._operands(1)
        if self._open or not self._reader.at_end:
            raise self._reader.fail("the result of a definition is not its end")


_NO_NODE: Final = (w.ELSE, w.END, w.DEFAULT, w.RESULT)
_Handler = Callable[[_Decoder, int], None]
_LITERAL_TYPE: Final = {opcode: dtype for dtype, opcode in w.LITERAL.items()}
_LITERAL_MAX: Final = {
    dtype: 1 if dtype is ScalarType.BOOL else (1 << dtype.bits) - 1 for dtype in w.LITERAL if not dtype.is_float
}
_BINARY_OP: Final = {w.BINARY + op.value: op for op in BinaryOp}
_UNARY_OP: Final = {w.UNARY + op.value: op for op in UnaryOp}
_CONVERSIONS: Final = {each.opcode: each.node for each in x.CONVERSIONS.values()}
_SIMPLE: Final[dict[int, Callable[[], Stmt]]] = {w.BREAK: s.Break, w.CONTINUE: s.Continue, w.RETURN: s.Return}


def _function(count: int, node: Callable[..., Expr]) -> _Handler:
    if not count:
        return lambda decoder, _: decoder._push(node())
    return lambda decoder, _: decoder._replace(count, node(*decoder._pop(count)))


_HANDLER_OF: Final[dict[int, _Handler]] = {
    **dict.fromkeys(_LITERAL_TYPE, _Decoder._literal),
    **dict.fromkeys(_BINARY_OP, _Decoder._binary),
    **dict.fromkeys(_UNARY_OP, _Decoder._unary),
    **dict.fromkeys(_SIMPLE, _Decoder._simple),
    w.VAR: _Decoder._var,
    w.LOAD: _Decoder._load,
    w.LENGTH: _Decoder._length,
    w.LAUNCH_ID: _Decoder._launch_id,
    **dict.fromkeys(_CONVERSIONS, _Decoder._converted),
    **{each.opcode: _function(each.arity, each.node) for each in x.FUNCTIONS.values()},
    w.ATOMIC: _Decoder._atomic,
    w.SPEC_CONST: _Decoder._spec_const,
    w.CALL: _Decoder._call,
    w.LET: _Decoder._let,
    w.ASSIGN: _Decoder._assign,
    w.STORE: _Decoder._store,
    w.IF: _Decoder._begin,
    w.ELSE: _Decoder._else,
    w.SWITCH: _Decoder._begin,
    w.ARM: _Decoder._arm,
    w.DEFAULT: _Decoder._arm,
    w.LOOP: _Decoder._begin,
    w.GRID_LOOP: _Decoder._begin,
    w.BLOCK: _Decoder._begin,
    w.END: _Decoder._end,
    w.BARRIER: _Decoder._barrier,
    w.ASYNC_LOAD: _Decoder._async,
    w.ASYNC_STORE: _Decoder._async,
    w.ASYNC_WAIT: _Decoder._async_wait,
    w.TRAP: _Decoder._trap,
    w.INDIRECT_DISPATCH: _Decoder._indirect_dispatch,
}
_HANDLERS: Final = tuple([_HANDLER_OF.get(opcode) for opcode in range(256)])
"""Handlers by opcode; None where an opcode has no meaning."""
_IN_DEFINITIONS: Final = frozenset(
    (
        *_LITERAL_TYPE,
        *_BINARY_OP,
        *_UNARY_OP,
        *(opcode for cls in DEFINITION_EXPRESSIONS if (opcode := FORMS[cls].opcode) is not None),
        *(w.LET, w.ASSIGN, w.IF, w.ELSE, w.SWITCH, w.ARM, w.DEFAULT, w.LOOP, w.END),
        *(w.BREAK, w.CONTINUE),
    )
)
"""The opcodes that a definition may have before its result."""


def _end_definition(decoder: _Decoder, _: int) -> None:
    assert isinstance(decoder, _DefinitionDecoder)
    decoder._end_definition()


_DEFINITION_HANDLERS: Final = tuple(
    _end_definition if opcode == w.RESULT else handler if opcode in _IN_DEFINITIONS else None
    for opcode, handler in enumerate(_HANDLERS)
)

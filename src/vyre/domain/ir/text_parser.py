"""A parser of ``.vyre`` text; docs/text-format.md has the grammar.

Bodies are kept on one explicit stack and expressions on another, so that no input recurses; nesting beyond the
structural limits is refused.  Names are not resolved, except scalar parameters: resolving them is the validator's
task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vyre.domain.ir import stmt as s
from vyre.domain.ir.buffers import DEFAULT_KIND, Access, Buffer, BufferHints, CacheLocality, MemoryKind
from vyre.domain.ir.collector import collector_paused
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.expr import Expr, Literal
from vyre.domain.ir.foreign_names import type_hint
from vyre.domain.ir.limits import (
    MAX_BUFFERS,
    MAX_DEFINITIONS,
    MAX_PARAMETERS,
    MAX_STATEMENT_DEPTH,
    MAX_TYPE_DEPTH,
    U64_MAX,
)
from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.size_parameters import SizeParameter, written_sizes
from vyre.domain.ir.stmt import Stmt
from vyre.domain.ir.text_cursor import Cursor
from vyre.domain.ir.text_expressions import ExpressionParser, literal, take_operation_id
from vyre.domain.ir.text_format import ACCESS_WORD
from vyre.domain.ir.text_lexer import END, NAME, NUMBER, STRING, tokenize
from vyre.domain.ir.type_forms import ArgKind, argument_kinds
from vyre.domain.ir.types import RESERVED_TAGS, SCALAR_BY_TEXT, DataType, ReservedType, ScalarType, TypeArg
from vyre.domain.source_location import SourceLocation

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program

_ACCESS: Final = {word: access for access, word in ACCESS_WORD.items()}
_KINDS: Final = {kind.name.lower(): kind for kind in MemoryKind}
_LOCALITIES: Final = {locality.name.lower(): locality for locality in CacheLocality}
_ORDERINGS: Final = {ordering.text: ordering for ordering in Ordering}
_TYPES: Final[dict[str, str]] = {name: name for name in (*SCALAR_BY_TEXT, *RESERVED_TAGS)}


@collector_paused()
def parse(text: str, filename: str, make: type[Program]) -> Program:
    """Returns the program of a text as an instance of ``make``, its nodes located in ``filename``; raises
    ``MalformedText``.
    """
    cursor = Cursor(tokenize(text, filename))
    name = cursor.take_name("the name of the program") if cursor.accept_word("program") else None
    non_composable = cursor.accept_word("non_composable")
    cursor.take_word("workgroup_size")
    size_x = cursor.take_integer("an axis of the workgroup size")
    cursor.take(",")
    size_y = cursor.take_integer("an axis of the workgroup size")
    cursor.take(",")
    size_z = cursor.take_integer("an axis of the workgroup size")
    buffers = _buffers(cursor)
    sizes = _sizes(cursor, buffers)
    definitions, nodes = _definitions(cursor)
    cursor.take_word("body")
    declared_first = {buffer.name: buffer for buffer in reversed(buffers)}
    params = frozenset(name for name, buffer in declared_first.items() if buffer.is_push)
    body = _BodyParser(cursor, params, nodes).parse()
    if cursor.kind != END:
        raise cursor.expected("the end of the text", "the body is closed already: check the braces.")
    size = size_x, size_y, size_z
    return make(buffers, size, body, name=name, non_composable=non_composable, definitions=definitions, sizes=sizes)


@collector_paused()
def parse_definition(text: str, filename: str, line: int = 1) -> Definition:
    """Returns the definition of a text whose first line is ``line`` of a file; raises ``MalformedText``."""
    cursor = Cursor(tokenize(text, filename, line))
    cursor.take_word("define")
    definition = _definition(cursor, cursor.loc(0), 0)[0]
    if cursor.kind != END:
        raise cursor.expected("the end of the text", "give one definition.")
    return definition


# Definitions.


def _definitions(cursor: Cursor) -> tuple[tuple[Definition, ...], int]:
    """Reads the definitions, and returns them and the number of their nodes."""
    definitions: list[Definition] = []
    nodes = 0
    while True:
        loc = cursor.loc()
        if not cursor.accept_word("define"):
            return tuple(definitions), nodes
        if len(definitions) == MAX_DEFINITIONS:
            raise cursor.error(f"more than {MAX_DEFINITIONS} definitions")
        definition, nodes = _definition(cursor, loc, nodes)
        definitions.append(definition)


def _definition(cursor: Cursor, loc: SourceLocation, nodes: int) -> tuple[Definition, int]:
    """Reads a definition behind its first word; ``nodes`` and the result count nodes of the text."""
    name = take_operation_id(cursor)
    cursor.take_word("version")
    version = _version(cursor)
    cursor.take("(")
    parameters: list[Parameter] = []
    while not cursor.accept(")"):
        if parameters:
            cursor.take(",")
        if len(parameters) == MAX_PARAMETERS:
            raise cursor.error(f"more than {MAX_PARAMETERS} parameters")
        place = cursor.loc()
        parameter = cursor.take_name("the name of a parameter")
        cursor.take(":")
        dtype = cursor.take_choice(SCALAR_BY_TEXT, "a scalar type")
        parameters.append(Parameter(parameter, dtype, cursor.accept_word("const"), loc=place))
    cursor.take("-")
    cursor.take(">")
    result_type = cursor.take_choice(SCALAR_BY_TEXT, "a scalar type")
    reader = _BodyParser(cursor, frozenset(), nodes)
    body, result = reader.parse_definition([parameter.name for parameter in parameters])
    return Definition(name, version, tuple(parameters), result_type, body, result, loc=loc), reader.nodes


def _version(cursor: Cursor) -> Version:
    """Reads ``1.2.0``, which is a number, a dot and a number for the lexer."""
    position, parts = cursor.position, []
    for kind in (NUMBER, ".", NUMBER):
        if cursor.kind != kind:
            raise cursor.expected("a version", "write three numbers, such as 1.2.0.")
        parts.append(cursor.text)
        cursor.position += 1
    try:
        return Version.of("".join(parts))
    except ValueError as error:
        raise cursor.error(str(error), position=position) from None


# Declarations.


def _buffers(cursor: Cursor) -> tuple[Buffer, ...]:
    buffers: list[Buffer] = []
    while True:
        loc = cursor.loc()
        if len(buffers) > MAX_BUFFERS:
            raise cursor.error(f"more than {MAX_BUFFERS} buffers")
        if cursor.accept_word("buffer"):
            buffers.append(_buffer(cursor, loc))
        elif cursor.accept_word("param"):
            buffers.append(_param(cursor, loc))
        else:
            return tuple(buffers)


def _param(cursor: Cursor, loc: SourceLocation) -> Buffer:
    name = cursor.take_name("the name of a parameter")
    cursor.take("@")
    binding = cursor.take_integer("a binding")
    return Buffer(name, binding, Access.UNIFORM, _type(cursor), 1, kind=MemoryKind.PUSH, loc=loc)


def _sizes(cursor: Cursor, buffers: tuple[Buffer, ...]) -> tuple[SizeParameter, ...]:
    sizes: list[SizeParameter] = []
    position = cursor.position
    while cursor.accept_word("size"):
        name = cursor.take_name("the name of a parameter")
        cursor.take_word("of")
        array = cursor.take_name("a buffer")
        cursor.take_word("axis")
        cursor.take("-")
        sizes.append((name, array, -cursor.take_integer("an axis, counted from the last one,")))
    if written_sizes(sizes, buffers) != tuple(sizes):
        raise cursor.error("a parameter holds no size of an axis", position=position)
    return tuple(sizes)


class _Options:
    """The options that may follow a buffer's element type, each once and in any order."""

    def __init__(self, access: Access) -> None:
        self.values: dict[str, Any] = {"output": access is Access.WRITE_ONLY, "kind": DEFAULT_KIND[access]}
        self.seen: set[str] = set()

    def read(self, cursor: Cursor) -> bool:
        """Reads one option, and returns whether there was one."""
        word = cursor.text
        reader = _OPTIONS.get(word) if cursor.kind == NAME else None
        if reader is None:
            return False
        key, take = reader
        if key in self.seen:
            raise cursor.error(f"`{word}` is given twice", "give every option once.")
        self.seen.add(key)
        cursor.position += 1
        self.values[key] = take(cursor)
        return True


def _range(cursor: Cursor) -> tuple[int, int]:
    start = cursor.take_integer("the start of a byte range", U64_MAX)
    cursor.take("..")
    return start, cursor.take_integer("the end of a byte range", U64_MAX)


_OPTIONS: Final[dict[str, tuple[str, Callable[[Cursor], Any]]]] = {
    "output": ("output", lambda cursor: True),
    "not_output": ("output", lambda cursor: False),
    "like": ("like", lambda cursor: cursor.take_name("a buffer")),
    "range": ("range", _range),
    "kind": ("kind", lambda cursor: cursor.take_choice(_KINDS, "a memory kind")),
    "axis": ("axis", lambda cursor: cursor.take_integer("the coalesce axis", 255)),
    "align": ("align", lambda cursor: cursor.take_integer("the preferred alignment")),
    "locality": ("locality", lambda cursor: cursor.take_choice(_LOCALITIES, "a cache locality")),
}


def _buffer(cursor: Cursor, loc: SourceLocation) -> Buffer:
    name = cursor.take_name("the name of a buffer")
    cursor.take("@")
    binding = 0 if cursor.accept("-") else cursor.take_integer("a binding")
    access = cursor.take_choice(_ACCESS, "an access")
    element = _type(cursor)
    cursor.take("[")
    count = 0 if cursor.accept_word("runtime") else cursor.take_integer("a count, or `runtime`,")
    cursor.take("]")
    options = _Options(access)
    while options.read(cursor):
        pass
    values = options.values
    return Buffer(
        name,
        binding,
        access,
        element,
        count,
        values["output"],
        values["kind"],
        values.get("like"),
        values.get("range"),
        BufferHints(values.get("axis"), values.get("align", 0), values.get("locality", CacheLocality.TEMPORAL)),
        loc=loc,
    )


def _type(cursor: Cursor, depth: int = 0) -> DataType:
    if depth > MAX_TYPE_DEPTH:
        raise cursor.error(f"element types are nested more than {MAX_TYPE_DEPTH} deep")
    if cursor.text not in _TYPES and (meant := type_hint(cursor.text)) is not None:
        raise cursor.expected("an element type", f"write {meant.removesuffix('_')}.")
    name = cursor.take_choice(_TYPES, "an element type")
    if name in SCALAR_BY_TEXT:
        return SCALAR_BY_TEXT[name]
    arguments: list[TypeArg] = []
    for i, kind in enumerate(argument_kinds(name)):
        cursor.take("," if i else "(")
        arguments.append(_type_argument(cursor, kind, depth))
    if arguments:
        cursor.take(")")
    return ReservedType(name, tuple(arguments))


def _type_argument(cursor: Cursor, kind: ArgKind, depth: int) -> TypeArg:
    match kind:
        case ArgKind.INT:
            return cursor.take_integer("an argument of a type")
        case ArgKind.TYPE:
            return _type(cursor, depth + 1)
        case ArgKind.TEXT:
            return cursor.take_string("an argument of a type")
        case ArgKind.DIMS:
            cursor.take("[")
            axes: list[int] = []
            while not cursor.accept("]"):
                if axes:
                    cursor.take(",")
                axes.append(cursor.take_integer("a dimension"))
            return tuple(axes)


# Statements.


class _Switch:
    """A ``switch`` being read: its selector and the arms so far."""

    def __init__(self, selector: Expr, loc: SourceLocation) -> None:
        self.selector = selector
        self.loc = loc
        self.arms: list[s.Arm] = []
        self.default: tuple[Stmt, ...] | None = None

    def statement(self) -> s.Switch:
        return s.Switch(self.selector, tuple(self.arms), self.default or (), loc=self.loc)


class _Open(NamedTuple):
    """A body being read; ``build`` turns its statements into the enclosing statement.

    ``is_chained`` marks the body of an ``else if``, which ends with its only statement.  The bodies of a ``switch``
    become parts of ``switch`` instead, and ``build`` gives None.  ``declares`` is a local whose scope begins behind the
    statement.
    """

    build: Callable[[tuple[Stmt, ...]], Stmt | None]
    condition: Expr | None
    outer: list[Stmt]
    declared: list[str]
    is_chained: bool
    loc: SourceLocation
    switch: _Switch | None
    declares: str | None


class _BodyParser:
    """Parses the statements between the braces of a program."""

    def __init__(self, cursor: Cursor, params: frozenset[str], nodes: int = 0) -> None:
        self._cursor = cursor
        self._visible: dict[str, int] = {}
        self._expressions = expressions = ExpressionParser(cursor, params, self._visible, nodes)
        self._expression, self._count_node = expressions.expression, expressions.count_node
        self._statements: list[Stmt] = []
        self._declared: list[str] = []
        self._open: list[_Open] = []
        self._depth = 0
        """The number of open bodies, in which those of an ``else if`` do not count."""

    @property
    def nodes(self) -> int:
        """Returns the number of nodes read so far, with those that were read before."""
        return self._expressions.nodes

    def parse_definition(self, parameters: list[str]) -> tuple[tuple[Stmt, ...], Expr]:
        """Reads the body of a definition, which ends with ``result``, and returns it and the result."""
        for name in parameters:
            self._declare(name)
        body = self.parse(ends_with_result=True)
        result = self._expression()
        self._cursor.take("}")
        return body, result

    def parse(self, *, ends_with_result: bool = False) -> tuple[Stmt, ...]:
        """Reads statements up to the closing brace, or to the ``result`` of a definition."""
        cursor = self._cursor
        cursor.take("{")
        while True:
            kind = cursor.kind
            if ends_with_result and not self._open and self._is_word("result"):
                cursor.position += 1
                return tuple(self._statements)
            if kind == "}":
                if ends_with_result and not self._open:
                    raise cursor.expected("`result`", "end a definition with its result, such as `result x + 1u`.")
                cursor.position += 1
                if not self._open:
                    return tuple(self._statements)
                self._close()
                continue
            if self._depth > MAX_STATEMENT_DEPTH:
                raise cursor.error(
                    f"statements are nested more than {MAX_STATEMENT_DEPTH} deep",
                    "flatten the nesting or split the program.",
                )
            loc = cursor.loc()
            if kind in (NAME, STRING):
                if self._is_word("switch"):
                    self._switch(loc)
                else:
                    self._add(self._assign_or_store(loc))
                continue
            parse = _STATEMENTS.get(kind)
            if parse is None:
                raise cursor.expected("a statement or `}`")
            cursor.position += 1
            stmt = parse(self, loc)
            if stmt is not None:
                self._add(stmt)

    def _is_word(self, word: str) -> bool:
        """Returns whether the current token is this word, which is not reserved, and begins no assignment or store."""
        cursor = self._cursor
        return cursor.kind == NAME and cursor.text == word and cursor.kinds[cursor.position + 1] not in (":=", "[")

    def _add(self, stmt: Stmt) -> None:
        """Appends a complete statement, and completes the chained bodies around it."""
        self._count_node()
        self._statements.append(stmt)
        while self._open and self._open[-1].is_chained:
            link = self._end_body()
            assert link is not None
            self._count_node()
            self._statements.append(link)

    def _begin(
        self,
        build: Callable[[tuple[Stmt, ...]], Stmt | None],
        loc: SourceLocation,
        condition: Expr | None = None,
        is_chained: bool = False,
        switch: _Switch | None = None,
        declares: str | None = None,
    ) -> None:
        self._open.append(_Open(build, condition, self._statements, self._declared, is_chained, loc, switch, declares))
        self._statements, self._declared = [], []
        self._depth += not is_chained

    def _end_body(self) -> Stmt | None:
        opened = self._open.pop()
        self._depth -= not opened.is_chained
        stmt = opened.build(tuple(self._statements))
        for name in self._declared:
            self._visible[name] -= 1
        self._statements, self._declared = opened.outer, opened.declared
        if opened.declares is not None:
            self._declare(opened.declares)
        return stmt

    def _close(self) -> None:
        """Completes a nested body after its closing brace."""
        cursor = self._cursor
        condition, loc, switch = self._open[-1].condition, self._open[-1].loc, self._open[-1].switch
        if switch is not None:
            self._end_body()
            self._next_arm(switch)
            return
        if condition is None or cursor.kind != "else":
            stmt = self._end_body()
            assert stmt is not None
            self._add(stmt)
            return
        cursor.position += 1
        then = tuple(self._statements)
        self._end_body()
        chained = cursor.kind == "if"
        if not chained:
            cursor.take("{")
        self._begin(lambda otherwise: s.If(condition, then, otherwise, loc=loc), loc, is_chained=chained)

    def _declare(self, name: str) -> None:
        self._visible[name] = self._visible.get(name, 0) + 1
        self._declared.append(name)

    # One method per statement, called after its first word; it returns None if a body follows.

    def _assign_or_store(self, loc: SourceLocation) -> Stmt:
        cursor = self._cursor
        name = cursor.take_name("a name")
        if cursor.accept(":="):
            return s.Assign(name, self._expression(), loc=loc)
        if not cursor.accept("["):
            raise cursor.expected("`:=` or `[`", "write `let x = e`, `x := e` or `buffer[index] = e`.")
        index = self._expression()
        cursor.take("]")
        cursor.take("=")
        return s.Store(name, index, self._expression(), loc=loc)

    def _let(self, loc: SourceLocation) -> Stmt | None:
        cursor = self._cursor
        name = cursor.take_name("the name of a local")
        cursor.take("=")
        if cursor.kind == NAME and cursor.text == "grid_loop" and cursor.kinds[cursor.position + 1] == "(":
            self._grid_loop(name, loc)
            return None
        value = self._expression()
        self._declare(name)
        return s.Let(name, value, loc=loc)

    def _grid_loop(self, name: str, loc: SourceLocation) -> None:
        cursor = self._cursor
        cursor.position += 2
        limit = self._expression()
        cursor.take(",")
        flag = cursor.take_name("the buffer of the flag")
        cursor.take(")")
        cursor.take("{")
        self._begin(lambda body: s.GridLoop(name, limit, flag, body, loc=loc), loc, declares=name)

    def _if(self, loc: SourceLocation) -> None:
        condition = self._expression()
        self._cursor.take("{")
        self._begin(lambda then: s.If(condition, then, loc=loc), loc, condition)

    def _switch(self, loc: SourceLocation) -> None:
        cursor = self._cursor
        cursor.position += 1
        switch = _Switch(self._expression(), loc)
        cursor.take("{")
        self._next_arm(switch)

    def _next_arm(self, switch: _Switch) -> None:
        """Opens the next body of a ``switch``, or completes it."""
        cursor = self._cursor
        loc = cursor.loc()
        if cursor.accept("}"):
            self._add(switch.statement())
            return
        if switch.default is not None:
            raise cursor.expected("`}`", "the `else` of a switch is its last part.")
        if cursor.accept("else"):

            def end(body: tuple[Stmt, ...]) -> None:
                switch.default = body

        else:
            if not cursor.accept_word("case"):
                raise cursor.expected("`case`, `else` or `}`")
            self._count_node()
            labels: list[Literal] = []
            while cursor.kind != "{":
                if labels:
                    cursor.take(",")
                labels.append(literal(cursor))
                self._count_node()

            def end(body: tuple[Stmt, ...]) -> None:
                switch.arms.append(s.Arm(tuple(labels), body, loc=loc))

        cursor.take("{")
        self._begin(end, loc, switch=switch)

    def _for(self, loc: SourceLocation) -> None:
        cursor = self._cursor
        var = cursor.take_name("the name of a loop variable")
        cursor.take_word("in")
        start = self._expression()
        cursor.take("..")
        stop = self._expression()
        if cursor.accept_word("step"):
            step = self._expression()
        else:
            step = Literal(ScalarType.U32, 1, loc=loc)
            self._count_node()
        cursor.take("{")
        self._begin(lambda body: s.Loop(var, start, stop, step, body, loc=loc), loc)
        self._declare(var)

    def _block(self, loc: SourceLocation) -> None:
        self._cursor.take("{")
        self._begin(lambda body: s.Block(body, loc=loc), loc)

    def _region(self, loc: SourceLocation) -> None:
        cursor = self._cursor
        generator = cursor.take_string("the generator of a region")
        source = cursor.take_string("the source of a region") if cursor.accept_word("from") else None
        cursor.take("{")
        self._begin(lambda body: s.Region(generator, body, source, loc=loc), loc)

    def _barrier(self, loc: SourceLocation) -> Stmt:
        cursor = self._cursor
        cursor.take("(")
        ordering = cursor.take_choice(_ORDERINGS, "a memory ordering")
        cursor.take(")")
        return s.Barrier(ordering, loc=loc)

    def _copy(self, node: Callable[..., Stmt], loc: SourceLocation) -> Stmt:
        cursor = self._cursor
        cursor.take("(")
        source = cursor.take_name("the source buffer")
        cursor.take(",")
        destination = cursor.take_name("the destination buffer")
        cursor.take(",")
        offset = self._expression()
        cursor.take(",")
        size = self._expression()
        cursor.take(",")
        tag = cursor.take_string("the tag of the copy")
        cursor.take(")")
        return node(source, destination, offset, size, tag, loc=loc)

    def _async_wait(self, loc: SourceLocation) -> Stmt:
        cursor = self._cursor
        cursor.take("(")
        tag = cursor.take_string("the tag of the copy")
        cursor.take(")")
        return s.AsyncWait(tag, loc=loc)

    def _trap(self, loc: SourceLocation) -> Stmt:
        cursor = self._cursor
        cursor.take("(")
        address = self._expression()
        cursor.take(",")
        tag = cursor.take_string("the tag of the trap")
        cursor.take(")")
        return s.Trap(address, tag, loc=loc)

    def _indirect_dispatch(self, loc: SourceLocation) -> Stmt:
        cursor = self._cursor
        cursor.take("(")
        buffer = cursor.take_name("a buffer")
        cursor.take(",")
        offset = cursor.take_integer("a byte offset", U64_MAX)
        cursor.take(")")
        return s.IndirectDispatch(buffer, offset, loc=loc)


_STATEMENTS: Final[dict[str, Callable[[_BodyParser, SourceLocation], Stmt | None]]] = {
    "let": _BodyParser._let,
    "if": _BodyParser._if,
    "for": _BodyParser._for,
    "block": _BodyParser._block,
    "region": _BodyParser._region,
    "barrier": _BodyParser._barrier,
    "break": lambda _, loc: s.Break(loc=loc),
    "continue": lambda _, loc: s.Continue(loc=loc),
    "return": lambda _, loc: s.Return(loc=loc),
    "async_load": lambda parser, loc: parser._copy(s.AsyncLoad, loc),
    "async_store": lambda parser, loc: parser._copy(s.AsyncStore, loc),
    "async_wait": _BodyParser._async_wait,
    "trap": _BodyParser._trap,
    "indirect_dispatch": _BodyParser._indirect_dispatch,
}

"""A printer of programs as ``.vyre`` text; docs/text-format.md has the grammar."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, assert_never

from vyre.domain.ir import expr as x
from vyre.domain.ir import stmt as s
from vyre.domain.ir.buffers import DEFAULT_KIND, NO_HINTS, Access, Buffer
from vyre.domain.ir.expr import Expr, Literal
from vyre.domain.ir.forms import FORMS
from vyre.domain.ir.limits import MAX_TEXT_CHARACTERS, check_writable, checked_name
from vyre.domain.ir.operators import ATOMIC_TEXT, BINARY, UNARY, Ordering
from vyre.domain.ir.size_parameters import written_sizes
from vyre.domain.ir.stmt import Stmt
from vyre.domain.ir.text_format import (
    ACCESS_WORD,
    AXES,
    COMPARISON,
    ID_WORD,
    LEVEL,
    literal_text,
    name_text,
    operation_text,
    operators_share_line,
    quoted,
)
from vyre.domain.ir.type_forms import type_to_json
from vyre.domain.ir.types import DataType, ReservedType, ScalarType
from vyre.domain.program_report import InvalidProgram
from vyre.domain.recursion import telling_of_depth

if TYPE_CHECKING:
    from vyre.domain.ir.definitions import Definition
    from vyre.domain.ir.program import Program

_INDENT: Final = "  "
_STEP_ONE: Final = Literal(ScalarType.U32, 1)
_INDEX_ZERO: Final = Literal(ScalarType.U32, 0)


@telling_of_depth
def print_program(program: Program) -> str:
    """Returns the program as text; ``parse_program`` reads it back as an equal program.

    Raises ``InvalidProgram`` beyond the structural limits.
    """
    check_writable(program)
    printer = _Printer({name for name, buffer in program.buffers_by_name.items() if buffer.is_push})
    lines = [] if program.name is None else [f"program {_name(program.name)}"]
    if program.non_composable:
        lines.append("non_composable")
    lines.append(f"workgroup_size {', '.join(map(str, program.workgroup_size))}")
    lines += map(_buffer, program.buffers)
    for name, array, axis in written_sizes(program.sizes, program.buffers):
        lines.append(f"size {_name(name)} of {_name(array)} axis {axis}")
    for definition in program.definitions:
        lines += definition_lines(definition)
    lines.append("body {")
    printer.body(program.body, 1)
    lines += (*printer.lines, "}", "")
    if sum(map(len, lines)) + len(lines) - 1 > MAX_TEXT_CHARACTERS:
        raise _too_long()
    return "\n".join(lines)


def expression_text(expr: Expr) -> str:
    """Returns an expression as text, in which reads of scalar parameters look like those of other buffers.

    Recurses over the expression, which must be within the structural limits.
    """
    return _Printer(set()).expression(expr)


def definition_lines(definition: Definition) -> list[str]:
    """Returns a definition as lines of text; raises ``InvalidProgram`` for names that are too long."""
    written = (f"{_name(each.name)}: {each.dtype.text}{' const' * each.is_attribute}" for each in definition.parameters)
    printer = _Printer(set())
    printer.body(definition.body, 1)
    return [
        f"define {_operation(definition.id)} version {definition.version} ({', '.join(written)}) -> "
        f"{definition.result_type.text} {{",
        *printer.lines,
        f"{_INDENT}result {printer.expression(definition.result)}",
        "}",
    ]


def _operation(name: str) -> str:
    return operation_text(checked_name(name))


def _too_long() -> InvalidProgram:
    return InvalidProgram(
        f"the program takes more than {MAX_TEXT_CHARACTERS} characters",
        fix="shorten its names, split the program, or write it as wire.",
    )


def _name(name: str) -> str:
    return name_text(checked_name(name))


def _quoted(text: str) -> str:
    return quoted(checked_name(text))


def is_plain_param(buffer: Buffer) -> bool:
    """Returns whether a scalar parameter consists of name, binding and type only."""
    return (
        buffer.is_push
        and (buffer.access, buffer.count, buffer.is_output) == (Access.UNIFORM, 1, False)
        and (buffer.like, buffer.output_range, buffer.hints) == (None, None, NO_HINTS)
    )


def _buffer(buffer: Buffer) -> str:
    name, element = _name(buffer.name), _type(buffer.element)
    if is_plain_param(buffer):
        return f"param {name} @{buffer.binding} {element}"
    binding = "-" if not buffer.is_bound and buffer.binding == 0 else buffer.binding
    words = [f"buffer {name} @{binding} {ACCESS_WORD[buffer.access]} {element}[{buffer.count or 'runtime'}]"]
    if buffer.is_output is not (buffer.access is Access.WRITE_ONLY):
        words.append("output" if buffer.is_output else "not_output")
    if buffer.like is not None:
        words.append(f"like {_name(buffer.like)}")
    if buffer.output_range is not None:
        words.append("range {}..{}".format(*buffer.output_range))
    if buffer.kind is not DEFAULT_KIND[buffer.access]:
        words.append(f"kind {buffer.kind.name.lower()}")
    hints = buffer.hints
    if hints.coalesce_axis is not None:
        words.append(f"axis {hints.coalesce_axis}")
    if hints.preferred_alignment != NO_HINTS.preferred_alignment:
        words.append(f"align {hints.preferred_alignment}")
    if hints.locality is not NO_HINTS.locality:
        words.append(f"locality {hints.locality.name.lower()}")
    return " ".join(words)


def _type(dtype: DataType) -> str:
    if isinstance(dtype, ScalarType):
        return dtype.text
    try:
        type_to_json(dtype)
    except ValueError as error:
        raise InvalidProgram(f"element type {dtype.name} cannot be written: {error}") from None
    return _checked_type(dtype)


def _checked_type(argument: Any) -> str:
    match argument:
        case ScalarType():
            return argument.text
        case ReservedType(name, ()):
            return name
        case ReservedType(name, args):
            return f"{name}({', '.join(map(_checked_type, args))})"
        case str():
            return _quoted(argument)
        case tuple():
            return f"[{', '.join(map(str, argument))}]"
        case _:
            return str(argument)


class _Printer:
    """Collects the lines of a body.  Recurses once per level of nesting, which ``check_writable`` bounds."""

    def __init__(self, params: set[str]) -> None:
        self.lines: list[str] = []
        self._characters = 0
        self._written: dict[str, str] = {}
        """The written form of each name."""
        self._params = params
        self._visible: Counter[str] = Counter()
        """The number of visible locals of each name."""

    def body(self, body: s.Body, depth: int) -> None:
        for stmt in body:
            self._statement(stmt, depth)
        self._visible.subtract(stmt.name for stmt in body if isinstance(stmt, s.Let | s.GridLoop))

    def _name(self, name: str) -> str:
        written = self._written.get(name)
        if written is None:
            written = self._written[name] = _name(name)
        return written

    def _line(self, depth: int, text: str) -> None:
        self.lines.append(_INDENT * depth + text)
        self._characters += len(text)
        if self._characters > MAX_TEXT_CHARACTERS:
            raise _too_long()

    def _statement(self, stmt: Stmt, depth: int) -> None:
        expr = self.expression
        match stmt:
            case s.Let(name, value):
                self._line(depth, f"let {self._name(name)} = {expr(value)}")
                self._visible[name] += 1
            case s.Assign(name, value):
                self._line(depth, f"{self._name(name)} := {expr(value)}")
            case s.Store(buffer, index, value):
                self._line(depth, f"{self._name(buffer)}[{expr(index)}] = {expr(value)}")
            case s.If():
                self._if(stmt, depth)
            case s.Switch():
                self._switch(stmt, depth)
            case s.Loop(var, start, stop, step, body):
                by = "" if step == _STEP_ONE else f" step {expr(step)}"
                self._line(depth, f"for {self._name(var)} in {expr(start)} .. {expr(stop)}{by} {{")
                self._visible[var] += 1
                self.body(body, depth + 1)
                self._visible[var] -= 1
                self._line(depth, "}")
            case s.GridLoop(name, limit, flag, body):
                self._nested(depth, f"let {self._name(name)} = grid_loop({expr(limit)}, {self._name(flag)})", body)
                self._visible[name] += 1
            case s.Block(body):
                self._nested(depth, "block", body)
            case s.Region(generator, body, source):
                origin = "" if source is None else f" from {_quoted(source)}"
                self._nested(depth, f"region {_quoted(generator)}{origin}", body)
            case s.Break():
                self._line(depth, "break")
            case s.Continue():
                self._line(depth, "continue")
            case s.Return():
                self._line(depth, "return")
            case s.Barrier(ordering):
                self._line(depth, f"barrier({ordering.text})")
            case s.AsyncLoad(source, destination, offset, size, tag):
                self._line(depth, f"async_load({self._copy(source, destination, offset, size, tag)})")
            case s.AsyncStore(source, destination, offset, size, tag):
                self._line(depth, f"async_store({self._copy(source, destination, offset, size, tag)})")
            case s.AsyncWait(tag):
                self._line(depth, f"async_wait({_quoted(tag)})")
            case s.Trap(address, tag):
                self._line(depth, f"trap({expr(address)}, {_quoted(tag)})")
            case s.IndirectDispatch(buffer, offset):
                self._line(depth, f"indirect_dispatch({self._name(buffer)}, {offset})")
            case _:
                assert_never(stmt)

    def _copy(self, source: str, destination: str, offset: Expr, size: Expr, tag: str) -> str:
        expr = self.expression
        return f"{self._name(source)}, {self._name(destination)}, {expr(offset)}, {expr(size)}, {_quoted(tag)}"

    def _nested(self, depth: int, head: str, body: s.Body) -> None:
        self._line(depth, head + " {")
        self.body(body, depth + 1)
        self._line(depth, "}")

    def _if(self, stmt: s.If, depth: int) -> None:
        """Prints a chain of ``else if`` on one level of indentation."""
        head = "if"
        while True:
            self._line(depth, f"{head} {self.expression(stmt.condition)} {{")
            self.body(stmt.then, depth + 1)
            match stmt.otherwise:
                case (s.If() as following,):
                    head, stmt = "} else if", following
                case ():
                    break
                case otherwise:
                    self._line(depth, "} else {")
                    self.body(otherwise, depth + 1)
                    break
        self._line(depth, "}")

    def _switch(self, stmt: s.Switch, depth: int) -> None:
        self._line(depth, f"switch {self.expression(stmt.selector)} {{")
        for arm in stmt.arms:
            labels = ", ".join(literal_text(label.dtype, label.bits) for label in arm.labels)
            self._nested(depth + 1, f"case {labels}".rstrip(), arm.body)
        if stmt.default:
            self._nested(depth + 1, "else", stmt.default)
        self._line(depth, "}")

    def expression(self, node: Expr) -> str:
        match node:
            case Literal(dtype, bits):
                return literal_text(dtype, bits)
            case x.Var(name):
                hidden = name in self._params and not self._visible[name]
                return f"local({self._name(name)})" if hidden else self._name(name)
            case x.Load(buffer, index):
                if buffer in self._params and index == _INDEX_ZERO and not self._visible[buffer]:
                    return self._name(buffer)
                return f"{self._name(buffer)}[{self.expression(index)}]"
            case x.Binary(op, left, right):
                row = BINARY[op]
                if not row.infix:
                    return f"{row.text}({self.expression(left)}, {self.expression(right)})"
                return f"{self._operand(left, row.text, True)} {row.text} {self._operand(right, row.text, False)}"
            case x.Unary(op, operand):
                return self._call(UNARY[op].text, operand)
            case x.BufferLength(buffer):
                return f"len({self._name(buffer)})"
            case x.LaunchId(kind, axis):
                return f"{ID_WORD[kind]}.{AXES[axis]}"
            case x.Atomic(op, buffer, index, expected, value, ordering):
                order = "" if ordering is Ordering.SEQ_CST else f".{ordering.text}"
                operands = (index, value) if expected is None else (index, expected, value)
                written = ", ".join(map(self.expression, operands))
                return f"{ATOMIC_TEXT[op]}{order}({self._name(buffer)}, {written})"
            case x.SpecConst(name, default):
                return f"spec({self._name(name)}, {literal_text(default.dtype, default.bits)})"
            case x.Call(op, args):
                written = _operation(op)
                return self._call(f"call {written}" if written[0] == '"' else written, *args)
            case x.Native(dtype, language, text, args):
                return self._call(f"native<{dtype.text}, {quoted(language)}, {quoted(text)}>", *args)
            case _:
                word, target = FORMS[type(node)].word_of(node), getattr(node, "dtype", None)
                return self._call(f"{word}<{target.text}>" if target else f"{word}", *x.children(node))

    def _call(self, function: str, *operands: Expr) -> str:
        return f"{function}({', '.join(map(self.expression, operands))})"

    def _operand(self, node: Expr, parent: str, is_left: bool) -> str:
        written = self.expression(node)
        if not isinstance(node, x.Binary) or not BINARY[node.op].infix:
            return written
        child = BINARY[node.op].text
        chained = is_left and LEVEL[child] == LEVEL[parent] != COMPARISON
        return written if chained or operators_share_line(parent, child) else f"({written})"

"""A parser of expressions: operator precedence with an explicit stack, so that no input recurses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from vyre.domain.errors import MalformedText
from vyre.domain.ir import expr as x
from vyre.domain.ir.bits import integer_range
from vyre.domain.ir.expr import Expr, Literal
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH, MAX_NODES, is_name_too_long
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering
from vyre.domain.ir.text_cursor import Cursor
from vyre.domain.ir.text_format import (
    ATOMIC_FUNCTION,
    AXES,
    BINARY_FUNCTION,
    COMPARISON,
    ID_WORD,
    INFIX,
    LEVEL,
    SUFFIX,
    TYPE_OF_SUFFIX,
    UNARY_FUNCTION,
    float_bits,
)
from vyre.domain.ir.text_lexer import NAME, NUMBER, STRING
from vyre.domain.ir.types import SCALAR_BY_TEXT, ScalarType
from vyre.domain.source_location import SourceLocation

_ID_KIND: Final = {word: kind for kind, word in ID_WORD.items()}
_ORDERINGS: Final = {ordering.text: ordering for ordering in Ordering}
_AXIS: Final = {axis: i for i, axis in enumerate(AXES)}
_INTEGER_RANGE: Final = {dtype: integer_range(dtype) for dtype in TYPE_OF_SUFFIX.values() if dtype.is_integer}
_BY_BITS: Final = {dtype.text: dtype for dtype in (ScalarType.F32, ScalarType.F64)}
_LITERAL_START: Final = (NUMBER, "-", "true", "false")
_LITERAL_FORMS: Final = "write 5u, -3i, 7u64, -7i64, 1.5f, 1.5f64, true or f32(0x7fc00000)."

_Build = Callable[..., Expr]


_ANY: Final = -1
"""The arity of a call of a definition, which takes any number of arguments."""


class _Open(NamedTuple):
    """A parenthesis, call or index that waits for its closing token; the ``arity`` of a parenthesis is None."""

    close: str
    arity: int | None
    build: _Build
    first: int
    """The number of operands on the stack when it opened."""
    position: int


class _Infix(NamedTuple):
    """An operator that waits for its right operand."""

    op: BinaryOp
    level: int
    position: int


def _function_table() -> dict[str, tuple[int, _Build]]:
    table: dict[str, tuple[int, _Build]] = {word: (each.arity, each.node) for word, each in x.FUNCTIONS.items()}
    for word, unary in UNARY_FUNCTION.items():
        table[word] = (1, _partial(x.Unary, unary))
    for word, binary in BINARY_FUNCTION.items():
        table[word] = (2, _partial(x.Binary, binary))
    return table


def _partial(node: Callable[..., Expr], first: Any) -> _Build:
    return lambda *operands, loc: node(first, *operands, loc=loc)


_FUNCTIONS: Final = _function_table()


class ExpressionParser:
    """Parses expressions at a cursor.

    ``params`` are scalar parameters, to which bare names can refer; ``visible`` counts the declarations of each local
    in scope, which hide them.  ``nodes`` counts what has been read.
    """

    def __init__(self, cursor: Cursor, params: frozenset[str], visible: dict[str, int], nodes: int = 0) -> None:
        self._cursor = cursor
        self._loc, self._text = cursor.tokens.loc, cursor.tokens.text
        self._params = params
        self._visible = visible
        self._operands: list[Expr] = []
        self._heights: list[int] = []
        self._pending: list[_Open | _Infix] = []
        self.nodes: int = nodes

    def count_node(self) -> None:
        """Counts a node that is no part of an expression read here; raises ``MalformedText`` beyond ``MAX_NODES``."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self._too_large()

    def expression(self) -> Expr:
        """Reads the longest expression at the cursor; raises ``MalformedText``."""
        cursor = self._cursor
        kinds = cursor.kinds
        pending = self._pending = []
        self._operands, self._heights = [], []
        while True:
            if self._operand():
                continue
            while True:  # after an operand
                kind = kinds[cursor.position]
                level = LEVEL.get(kind)
                if level is not None:
                    if pending:
                        self._reduce(level)
                        if level == COMPARISON and pending and _is_comparison(pending[-1]):
                            raise cursor.error("comparisons do not chain", "use parentheses, or join two with `and`.")
                    pending.append(_Infix(INFIX[kind], level, cursor.position))
                    cursor.position += 1
                    break
                if pending:
                    self._reduce(-1)
                if not pending:
                    return self._operands[0]
                opened = pending[-1]
                assert isinstance(opened, _Open)
                if kind == "," and opened.arity is not None and opened.close == ")":
                    cursor.position += 1
                    break
                if kind != opened.close:
                    raise cursor.expected(f"an operator or `{opened.close}`")
                cursor.position += 1
                pending.pop()
                self._close(opened)

    def _reduce(self, level: int) -> None:
        """Builds the pending operators that bind their right operand more tightly than an operator of ``level``."""
        pending, operands, heights = self._pending, self._operands, self._heights
        while pending:
            top = pending[-1]
            if not isinstance(top, _Infix) or top.level < level or (top.level == level == COMPARISON):
                return
            pending.pop()
            right = operands.pop()
            operands[-1] = x.Binary(top.op, operands[-1], right, loc=self._loc(top.position))
            height = heights.pop()
            if height > heights[-1]:
                heights[-1] = height
            self._grow(top.position)

    def _close(self, opened: _Open) -> None:
        """Builds the node that ends with the closing token before the cursor."""
        if opened.arity is None:
            return
        operands, heights, first = self._operands, self._heights, opened.first
        count = len(operands) - first
        if count != opened.arity != _ANY:
            raise self._cursor.error(
                f"{opened.arity} arguments are expected here, found {count}", position=opened.position
            )
        operands[first:] = [opened.build(*operands[first:], loc=self._loc(opened.position))]
        if not count:
            self._count_leaf()
            return
        heights[first:] = [max(heights[first:])]
        self._grow(opened.position)

    def _grow(self, position: int) -> None:
        """Counts the last operand as the parent of what has its height yet."""
        self.nodes += 1
        height = self._heights[-1] = self._heights[-1] + 1
        if height > MAX_EXPRESSION_DEPTH:
            raise self._cursor.error(
                f"an expression is more than {MAX_EXPRESSION_DEPTH} operators deep",
                "name parts of it with let.",
                position,
            )

    def _count_leaf(self) -> None:
        """Counts the last operand, which has no operands.  The number of leaves bounds the number of parents."""
        self._heights.append(0)
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self._too_large()

    def _too_large(self) -> MalformedText:
        return self._cursor.error(f"the program has more than {MAX_NODES} nodes", "split the program.")

    # Operands.  Each method returns True if it opened something and an operand is still expected.

    def _operand(self) -> bool:
        cursor = self._cursor
        position = cursor.position
        kind = cursor.kinds[position]
        if kind == NAME:
            following = cursor.kinds[position + 1]
            if following == "(":
                return self._call(self._text(position))
            if following == "<" and self._is_typed_call(position):
                return self._typed_call(self._text(position), position)
            if following == ".":
                return self._dotted(self._text(position))
            if following == STRING and self._text(position) == "call":
                cursor.position += 1
                return self._operation(cursor.take_string("the id of an operation"), position)
            return self._named(cursor.take_name("a name"), position)
        if kind in _LITERAL_START:
            return self._leaf(literal(cursor))
        if kind == "(":
            return self._open(")", None, x.Var)
        if kind == STRING:
            return self._named(cursor.take_name("a name"), position)
        if kind in x.CONVERSIONS:  # those of which the name is a reserved word
            return self._typed_call(kind, position)
        raise cursor.expected("an expression")

    def _is_typed_call(self, position: int) -> bool:
        """Returns whether the name at a position is a function with a type, as in ``narrow<f16>(x)``.

        No comparison reads like that, because comparisons do not chain.
        """
        kinds = self._cursor.kinds
        return self._text(position) in x.CONVERSIONS and kinds[position + 2 : position + 5] == [NAME, ">", "("]

    def _typed_call(self, word: str, position: int) -> bool:
        cursor = self._cursor
        cursor.position += 1
        cursor.take("<")
        dtype = cursor.take_choice(SCALAR_BY_TEXT, "a scalar type")
        cursor.take(">")
        if cursor.kind != "(":
            raise cursor.expected("`(`")
        return self._open(")", 1, _partial(x.CONVERSIONS[word].node, dtype), position)

    def _leaf(self, node: Expr) -> bool:
        self._operands.append(node)
        self._count_leaf()
        return False

    def _open(self, close: str, arity: int | None, build: _Build, position: int | None = None) -> bool:
        """Consumes the opening token."""
        cursor = self._cursor
        start = cursor.position if position is None else position
        cursor.position += 1
        opened = _Open(close, arity, build, len(self._operands), start)
        if arity == 0 or (arity == _ANY and cursor.kind == close):
            cursor.take(close)
            self._close(opened)
            return False
        self._pending.append(opened)
        return True

    def _named(self, name: str, position: int) -> bool:
        """Reads the rest of an operand that begins with the name before the cursor."""
        cursor = self._cursor
        if cursor.kinds[cursor.position] == "[":
            return self._open("]", 1, _partial(x.Load, name), position)
        loc = self._loc(position)
        if name in self._params and not self._visible.get(name):
            self.nodes += 1
            return self._leaf(x.Load(name, Literal(ScalarType.U32, 0, loc=loc), loc=loc))
        return self._leaf(x.Var(name, loc=loc))

    def _dotted(self, word: str) -> bool:
        """Reads a launch id and its axis, or an atomic and its ordering; the cursor is at the word before the dot."""
        cursor = self._cursor
        position = cursor.position
        if word in ATOMIC_FUNCTION:
            cursor.position += 2
            return self._atomic(ATOMIC_FUNCTION[word], cursor.take_choice(_ORDERINGS, "a memory ordering"), position)
        if word not in _ID_KIND and self._is_operation(position):
            return self._operation(take_operation_id(cursor), position)
        kind = cursor.take_choice(_ID_KIND, "a launch id or an atomic")
        cursor.position += 1
        axis = cursor.take_choice(_AXIS, "an axis")
        return self._leaf(x.LaunchId(kind, axis, loc=self._loc(position)))

    def _is_operation(self, position: int) -> bool:
        """Returns whether names joined by dots stand at a position, and an opening parenthesis behind them."""
        kinds = self._cursor.kinds
        while kinds[position] == NAME and kinds[position + 1] == ".":
            position += 2
        return kinds[position] == NAME and kinds[position + 1] == "("

    def _operation(self, name: str, position: int) -> bool:
        """Reads the arguments of a call of a definition; the cursor is behind its id."""
        if self._cursor.kind != "(":
            raise self._cursor.expected("`(`")
        return self._open(")", _ANY, lambda *arguments, loc: x.Call(name, arguments, loc=loc), position)

    def _call(self, word: str) -> bool:
        cursor = self._cursor
        position = cursor.position
        if word in _BY_BITS:
            return self._leaf(literal(cursor))
        function = _FUNCTIONS.get(word)
        if function is not None:
            cursor.position += 1
            return self._open(")", *function, position)
        special = _SPECIAL.get(word)
        if special is not None:
            cursor.position += 2
            node = special(cursor, cursor.loc(position))
            cursor.take(")")
            return self._leaf(node)
        if word in ATOMIC_FUNCTION:
            cursor.position += 1
            return self._atomic(ATOMIC_FUNCTION[word], Ordering.SEQ_CST, position)
        raise cursor.error(f"unknown function `{word[:40]}`", "docs/text-format.md lists the functions.")

    def _atomic(self, op: AtomicOp, ordering: Ordering, position: int) -> bool:
        """Reads the operands of an atomic; the cursor is at the opening parenthesis."""
        cursor = self._cursor
        cursor.take("(")
        buffer = cursor.take_name("a buffer")
        if cursor.kind != ",":
            raise cursor.expected("`,`")
        if op is AtomicOp.COMPARE_EXCHANGE:
            return self._open(
                ")",
                3,
                lambda index, expected, value, loc: x.Atomic(op, buffer, index, expected, value, ordering, loc=loc),
                position,
            )
        return self._open(
            ")", 2, lambda index, value, loc: x.Atomic(op, buffer, index, None, value, ordering, loc=loc), position
        )


def take_operation_id(cursor: Cursor) -> str:
    """Reads the id of an operation: a quoted one, or identifiers joined by dots."""
    if cursor.kind == STRING:
        return cursor.take_string("the id of an operation")
    parts = [cursor.take_name("the id of an operation")]
    while cursor.accept("."):
        parts.append(cursor.take_name("a part of the id of an operation"))
    name = ".".join(parts)
    if is_name_too_long(name):
        raise cursor.error("the id of an operation is too long", "shorten it.")
    return name


def _is_comparison(pending: _Open | _Infix) -> bool:
    return isinstance(pending, _Infix) and pending.level == COMPARISON


def literal(cursor: Cursor) -> Literal:
    """Reads a literal; raises ``MalformedText``."""
    loc = cursor.loc()
    kind = cursor.kind
    if kind == NUMBER:
        return _number(cursor, "", loc)
    if kind in ("true", "false"):
        cursor.position += 1
        return Literal(ScalarType.BOOL, int(kind == "true"), loc=loc)
    if kind == NAME and (dtype := _BY_BITS.get(cursor.text)) is not None:
        cursor.position += 1
        cursor.take("(")
        bits = cursor.take_integer("a bit pattern", (1 << dtype.bits) - 1)
        cursor.take(")")
        return Literal(dtype, bits, loc=loc)
    if not cursor.accept("-"):
        raise cursor.expected("a literal", _LITERAL_FORMS)
    if cursor.kind != NUMBER:
        raise cursor.expected("a number", "write neg(x).")
    return _number(cursor, "-", loc)


def _number(cursor: Cursor, sign: str, loc: SourceLocation) -> Literal:
    token = cursor.text
    is_hexadecimal = token[:2] in ("0x", "0X")
    # No suffix ends in another one: the last character identifies the short ones, the last three the others.
    dtype = TYPE_OF_SUFFIX.get(token[-1]) or TYPE_OF_SUFFIX.get(token[-3:])
    if dtype is None or (is_hexadecimal and dtype is ScalarType.F32):
        raise cursor.error(f"number {sign}{token[:40]} has no type", _LITERAL_FORMS)
    digits = sign + token[: -len(SUFFIX[dtype])]
    if dtype.is_float and not is_hexadecimal:
        bits = float_bits(dtype, digits)
    else:
        if dtype.is_float or not (is_hexadecimal or digits.lstrip("-").isdigit()):
            raise cursor.error(f"{token[:40]} is no number of type {dtype.text}", _LITERAL_FORMS)
        value = int(digits, 16 if is_hexadecimal else 10)
        low, high = _INTEGER_RANGE[dtype]
        if not low <= value <= high:
            raise cursor.error(f"{sign}{token[:40]} does not fit {dtype.text}", f"use a value in {low}..{high}.")
        bits = value if value >= 0 else value + (1 << dtype.bits)
    cursor.position += 1
    return Literal(dtype, bits, loc=loc)


def _length(cursor: Cursor, loc: SourceLocation) -> Expr:
    return x.BufferLength(cursor.take_name("a buffer"), loc=loc)


def _local(cursor: Cursor, loc: SourceLocation) -> Expr:
    return x.Var(cursor.take_name("a local"), loc=loc)


def _spec(cursor: Cursor, loc: SourceLocation) -> Expr:
    name = cursor.take_name("the name of a spec constant")
    cursor.take(",")
    return x.SpecConst(name, literal(cursor), loc=loc)


_SPECIAL: Final[dict[str, Callable[[Cursor, SourceLocation], Expr]]] = {"len": _length, "local": _local, "spec": _spec}

"""Types and shapes: statements to a graph of nodes, each with its element type, its shape and its place in the text.

Nothing converts by itself: both operands of an operator have one type, and a bare number takes that of the other one.
Shapes broadcast as NumPy's do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from array_compiler.problems import ShapeError
from array_compiler.syntax import Statement, Term
from vyre.ir import Literal, ScalarType, SourceLocation, bool_, f32, f64, i32, u32

Shape: TypeAlias = tuple[int, ...]
Types: TypeAlias = frozenset[ScalarType]
TYPES: Final[dict[str, ScalarType]] = {"f32": f32, "f64": f64, "i32": i32, "u32": u32, "bool": bool_}
FLOATS: Final[Types] = frozenset({f32, f64})
INTEGERS: Final[Types] = frozenset({i32, u32})
NUMBERS: Final[Types] = FLOATS | INTEGERS
COMPARISONS: Final = ("<", "<=", ">", ">=", "==", "!=")
REDUCTIONS: Final = ("sum", "least", "greatest")
ELEMENTWISE: Final[dict[str, Types]] = {
    **dict.fromkeys(("+", "-", "*", "min", "max", "<", "<=", ">", ">=", "abs"), NUMBERS),
    **dict.fromkeys(("/", "sqrt", "floor"), FLOATS),
    **dict.fromkeys(("%", "<<", ">>"), INTEGERS),
    **dict.fromkeys(("&", "|", "^", "~"), INTEGERS | {bool_}),
    **dict.fromkeys(("==", "!=", "where"), NUMBERS | {bool_}),
}
"""Functions of the elements at one index, with the element types that they are for."""
MOST_AXES: Final = 3
MOST_ELEMENTS: Final = 2**31 - 1


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """A value.  ``op``: an operator, a function, ``literal``, or ``source``: the array ``name``.

    ``numbers``: the axis of a reduction, none for all axes, or the offsets of a shift.
    """

    op: str
    inputs: tuple[Node, ...]
    dtype: ScalarType
    shape: Shape
    place: SourceLocation
    numbers: tuple[int, ...] = ()
    name: str = ""
    literal: Literal | None = None

    def __post_init__(self) -> None:
        if self.size > MOST_ELEMENTS:
            raise ShapeError(f"{self} has more than {MOST_ELEMENTS} elements", self.place)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return self.dtype.text + (str(list(self.shape)) if self.shape else "")


class Checked:
    """A program whose types fit, or a ``ShapeError``: its arrays by name, and the values that are returned and kept."""

    def __init__(self, statements: list[Statement], file: str) -> None:
        self.inputs, self.states = dict[str, Node](), dict[str, Node]()
        self.outputs, self.following = dict[str, Node](), dict[str, Node]()
        known = dict[str, Node]()
        for statement in statements:
            name, place = statement.name, statement.place
            if statement.value is None:
                if statement.dtype not in TYPES or len(statement.shape) > MOST_AXES:
                    raise ShapeError(f"the types are {', '.join(TYPES)}, with at most {MOST_AXES} axes", place)
                node = Node("source", (), TYPES[statement.dtype], statement.shape, place, name=name)
                (self.inputs if statement.kind == "in" else self.states)[name] = node
            else:
                node = _Terms(known).node(statement.value)
                if statement.kind == "next":
                    state = self.states.get(name)
                    if state is None or name in self.following:
                        raise ShapeError(f"`{name}` " + ("has a next already" if state else "is no state"), place)
                    if (state.dtype, state.shape) != (node.dtype, node.shape):
                        raise ShapeError(f"the state `{name}` is {state}, and its next is {node}", place)
                    self.following[name] = node
                    continue
                if statement.kind == "out":
                    self.outputs[name] = node
            if name in known:
                raise ShapeError(f"`{name}` is defined twice", place)
            known[name] = node
        if not self.outputs and not self.following:
            place = statements[-1].place if statements else SourceLocation(file, 1, 1)
            raise ShapeError("the program has neither `out` nor `next`", place)


@dataclass(frozen=True, slots=True)
class _Terms:
    """Terms to nodes, with the names that are defined above."""

    known: dict[str, Node]

    def node(self, term: Term, expected: ScalarType | None = None) -> Node:
        """The node of a term; a bare number has the type ``expected``, or without it i32 or f32."""
        text, place, arguments = term.text, term.place, term.arguments
        if term.kind == "name":
            if text not in self.known:
                raise ShapeError(f"`{text}` is not defined above", place)
            return self.known[text]
        if term.kind == "number":
            return _literal(text, expected, place)
        if text in TYPES:
            operands = self._operands(term, arguments, None, 1)
            return Node("cast", (*operands,), TYPES[text], operands[0].shape, place)
        return self._elementwise(term, expected) if text in ELEMENTWISE else self._of_many(term)

    def _operands(self, term: Term, arguments: tuple[Term, ...], expected: ScalarType | None, count: int) -> list[Node]:
        """The nodes of so many arguments, of which bare numbers take the type of the first that is none."""
        if len(arguments) != count:
            raise ShapeError(f"`{term.text}` takes {count} operand(s) here, and has {len(arguments)}", term.place)
        typed = {index: self.node(each, expected) for index, each in enumerate(arguments) if not _is_bare(each)}
        beside = next((node.dtype for node in typed.values()), expected)
        return [typed.get(index) or self.node(each, beside) for index, each in enumerate(arguments)]

    def _elementwise(self, term: Term, expected: ScalarType | None) -> Node:
        text, place, arguments = term.text, term.place, term.arguments
        conditions = tuple(map(self.node, arguments[:1])) if text == "where" else ()
        is_unary = text in ("~", "abs", "sqrt", "floor") or (text == "-" and len(arguments) == 1)
        expected = None if text in COMPARISONS else expected
        operands = self._operands(term, arguments[len(conditions) :], expected, 1 if is_unary else 2)
        dtype = operands[0].dtype
        if any(each.dtype is not dtype for each in operands):
            raise ShapeError(f"`{text}` mixes {' and '.join(map(str, operands))}: convert one of them", place)
        _check_type(term, operands[0], ELEMENTWISE[text])
        for condition in conditions:
            _check_type(term, condition, frozenset({bool_}))
        shape = _broadcast((*conditions, *operands), place)
        op, result = "neg" if is_unary and text == "-" else text, bool_ if text in COMPARISONS else dtype
        return Node(op, (*conditions, *operands), result, shape, place)

    def _of_many(self, term: Term) -> Node:
        """The node of what looks at more than one element: ``sum(x)``, ``sum(x, 0)``, ``a @ b``, ``shift(x, 1, 0)``."""
        text, place = term.text, term.place
        if text not in ("@", "shift", "transpose", "scan", "histogram", *REDUCTIONS):
            raise ShapeError(f"there is no function `{text}`", place)
        operands = [self.node(each) for each in term.arguments[: 2 if text == "@" else 1]]
        x, axes, extra = operands[0], len(operands[0].shape), len(term.arguments) - len(operands)
        if text in REDUCTIONS and extra <= 1:
            _check_type(term, x, NUMBERS)
            numbers = (_whole(term, 1, 0, axes - 1),) if extra else ()
            kept = tuple(size for axis, size in enumerate(x.shape) if numbers and axis != numbers[0])
            return Node(text, (x,), x.dtype, kept, place, numbers)
        if text == "shift" and axes and extra == axes:
            offsets = tuple(_whole(term, 1 + axis, -size, size) for axis, size in enumerate(x.shape))
            return Node(text, (x,), x.dtype, x.shape, place, offsets)
        if text == "transpose" and axes == 2 and not extra:
            return Node(text, (x,), x.dtype, x.shape[::-1], place)
        if (text == "scan" and axes and not extra) or (text == "histogram" and extra == 1):
            _check_type(term, x, INTEGERS)
            if text == "scan":
                return Node(text, (x,), x.dtype, x.shape, place)
            return Node(text, (x,), u32, (_whole(term, 1, 1, MOST_ELEMENTS),), place)
        if text == "@":
            a, b = operands
            _check_type(term, a, NUMBERS)
            if a.dtype is not b.dtype or (axes, len(b.shape)) != (2, 2) or a.shape[1] != b.shape[0]:
                raise ShapeError(f"`@` cannot multiply {a} and {b}", place)
            return Node(text, (a, b), a.dtype, (a.shape[0], b.shape[1]), place)
        raise ShapeError(f"`{text}` does not fit {x} with {extra} numbers behind it", place)


def _literal(text: str, expected: ScalarType | None, place: SourceLocation) -> Node:
    digits = text.removesuffix("u")
    is_whole = digits.removeprefix("-").isdecimal()
    dtype = u32 if text.endswith("u") else expected if expected and expected in NUMBERS else i32 if is_whole else f32
    if dtype in INTEGERS and not is_whole:
        raise ShapeError(f"`{text}` is no {dtype.text}: it has a fraction", place)
    try:
        literal = Literal.of(dtype, int(digits) if dtype in INTEGERS else float(digits), loc=place)
    except ValueError:
        raise ShapeError(f"`{text}` is no {dtype.text}: it is out of range", place) from None
    return Node("literal", (), dtype, (), place, literal=literal)


def _is_bare(term: Term) -> bool:
    """Whether a term is made of numbers alone, so that its type is that of what stands beside it."""
    if term.kind == "number":
        return not term.text.endswith("u")
    return term.text in ("-", "+", "*", "/") and all(map(_is_bare, term.arguments))


def _broadcast(operands: tuple[Node, ...], place: SourceLocation) -> Shape:
    try:
        return np.broadcast_shapes(*(each.shape for each in operands))
    except ValueError:
        raise ShapeError(f"{' and '.join(map(str, operands))} do not broadcast", place) from None


def _check_type(term: Term, operand: Node, legal: Types) -> None:
    if operand.dtype not in legal:
        names = ", ".join(name for name, dtype in TYPES.items() if dtype in legal)
        raise ShapeError(f"`{term.text}` is not for {operand.dtype.text}: it is for {names}", term.place)


def _whole(term: Term, index: int, least: int, most: int) -> int:
    """The argument that is a whole number in the text, not a value."""
    number = term.arguments[index]
    if number.kind != "number" or not number.text.removeprefix("-").isdecimal():
        raise ShapeError(f"`{term.text}` needs a whole number here", number.place)
    if not least <= int(number.text) <= most:
        raise ShapeError(f"{number.text} is not in {least}..{most}", number.place)
    return int(number.text)

"""Sizes of outputs as text: ``Out[f32, "len(x) - 2"]``, ``Out[f32, 2, "x.shape[1], x.shape[0]"]``.

The text is a small language of its own, not Python that is run: whole numbers, parameters of the kernel that are whole
numbers, ``len(x)`` and ``x.shape[0]`` of array parameters, ``+ - * // %`` with Python's meaning, ``min`` and ``max``,
and commas between the axes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

Shape: TypeAlias = tuple[int, ...]
Known: TypeAlias = tuple[Mapping[str, Shape], Mapping[str, int]]
"""The shapes of the array parameters, and the values of the parameters that are whole numbers, by name."""
Term: TypeAlias = Callable[[Known], int]

MAX_TEXT: Final = 1000
"""The most characters of an expression, so that reading one is never deep."""
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_FOLDS: Final[Mapping[str, Callable[[list[int]], int]]] = {"min": min, "max": max}


class RefusedSize(Exception):
    """A text that is no expression of sizes; the message says what is wrong with it."""


class SizeExpression:
    """The sizes of the axes of an output, as expressions of the arguments of a call."""

    __slots__ = ("_terms", "text")

    def __init__(self, text: str, arrays: Mapping[str, int], numbers: frozenset[str]) -> None:
        """``arrays``: how many axes each array parameter has.  ``numbers``: parameters that are whole numbers.

        Raises ``RefusedSize``.
        """
        self.text: Final = text
        if len(text) > MAX_TEXT:
            raise RefusedSize(f"it is longer than {MAX_TEXT} characters")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise RefusedSize("it is no expression") from None
        reader = _Reader(arrays, numbers)
        self._terms: Final = tuple(map(reader.read, tree.elts if isinstance(tree, ast.Tuple) else [tree]))

    @property
    def axes(self) -> int:
        """Returns the number of axes."""
        return len(self._terms)

    def shape(self, shapes: Mapping[str, Shape], numbers: Mapping[str, int]) -> Shape:
        """Returns the sizes for a call, which may be negative.  Raises ``ZeroDivisionError``."""
        known = shapes, numbers
        return tuple([term(known) for term in self._terms])


class _Reader:
    """Makes functions of the nodes of one expression."""

    def __init__(self, arrays: Mapping[str, int], numbers: frozenset[str]) -> None:
        self._arrays = arrays
        self._numbers = numbers

    def read(self, node: ast.expr) -> Term:
        """Returns the function that evaluates ``node``."""
        match node:
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                return lambda known: value
            case ast.Name(id=name):
                return self._number(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.read(operand)
                return lambda known: -inner(known)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                apply, first, second = _OPERATORS[type(op)], self.read(left), self.read(right)
                return lambda known: apply(first(known), second(known))
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]):
                self._axes(name)
                return lambda known: known[0][name][0]
            case ast.Call(func=ast.Name(id=("min" | "max") as name), args=args, keywords=[]) if len(args) > 1:
                fold, terms = _FOLDS[name], [self.read(argument) for argument in args]
                return lambda known: fold([term(known) for term in terms])
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=index):
                return self._size(name, index)
        raise RefusedSize(f"`{ast.unparse(node)}` is none of what sizes are made of")

    def _number(self, name: str) -> Term:
        if name in self._arrays:
            raise RefusedSize(f"`{name}` is an array, and no number")
        if name not in self._numbers:
            raise RefusedSize(f"`{name}` is no parameter that is a whole number")
        return lambda known: known[1][name]

    def _axes(self, name: str) -> int:
        if name not in self._arrays:
            raise RefusedSize(f"`{name}` is no array that is passed")
        return self._arrays[name]

    def _size(self, name: str, index: ast.expr) -> Term:
        axes = self._axes(name)
        match index:
            case ast.Constant(value=int(axis)) if not isinstance(axis, bool) and axis < axes:
                return lambda known: known[0][name][axis]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(back))) if 1 <= back <= axes:
                return lambda known: known[0][name][-back]
        raise RefusedSize(f"`{name}` has {axes} axes, and `{ast.unparse(index)}` is none of them")

"""Laws that a dialect states of its own operations, as texts: ``acme.square(neg(x)) == acme.square(x)``.

Both sides are expressions of ``.vyre`` text, joined by ``==``.  A name is a hole: where it is an argument of a call
it has the type of that parameter, everywhere else the type T of the law, and so have numbers without suffix; T is
each type for which both sides fit.  Calls are replaced by what the definitions compute, so that a law is one on the
operators of the language, which the checker, the prover and the optimizer read like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from vyre.domain.dialects.laws.law import Law, typed_words
from vyre.domain.errors import InvalidField, MalformedText
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.expr import Binary, Call, Expr, Select, Var, walk
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import Assign, Body, If, Let, if_chain
from vyre.domain.ir.text_cursor import Cursor
from vyre.domain.ir.text_expressions import ExpressionParser
from vyre.domain.ir.text_lexer import END, tokenize
from vyre.domain.ir.text_printer import expression_text
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import measure
from vyre.domain.validation.findings import Findings
from vyre.domain.validation.typing import ExpressionTyper, Local

MAX_LAW_CHARACTERS: Final = 4096
MAX_SIDE_NODES: Final = 2000
"""The largest size of a side whose calls are replaced, written out as a tree."""
_FIX: Final = "write two expressions of the same type, such as acme.f(x, y) == acme.f(y, x)."
_TYPES: Final = tuple(sorted((t for t in ScalarType if t.is_executable), key=lambda t: t.tag))


class Inexpressible(Exception):
    """A body has statements whose result is no expression; the message names the first."""


class StatedLaw(NamedTuple):
    """A law as its dialect states it.

    ``laws`` are its forms without calls, one for each type; empty, with the reason in ``unchecked``, where a body is no
    expression, so that nothing can check the law and nothing uses it.
    """

    name: str
    operation: str
    text: str
    laws: tuple[Law, ...]
    unchecked: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


def stated_law(
    text: str, operation: str, number: int, definitions: Sequence[Definition], undefined: Collection[str] = frozenset()
) -> StatedLaw:
    """Returns the law that a text states of an operation, the ``number``-th of it.

    ``definitions`` are those of the operation and of all that the text calls; ``undefined`` are operations that have
    none.  Raises ``MalformedText`` for a text that is no equation, or has no type.
    """
    name = f"dialect.{operation.lower()}.{number}"
    known = {each.id: each for each in definitions}
    if len(text) > MAX_LAW_CHARACTERS:
        raise MalformedText(f"a law of `{operation}` has {len(text)} characters", fix="keep it within 4096.")
    laws: dict[Any, Law] = {}
    problems: dict[ScalarType, str] = {}
    for dtype in _TYPES:
        try:
            law = _at(text, name, dtype, known, undefined)
        except Inexpressible as problem:
            return StatedLaw(name, operation, text, (), str(problem))
        if isinstance(law, str):
            problems[dtype] = f"for {dtype.text}: {law}"
        else:  # a law in which nothing has the type T is the same for all: one of its holes' types stands for it
            holes = law.hole_types(dtype)
            key = law.before, law.after, tuple(holes.items())
            if key not in laws or dtype in holes.values():
                laws[key] = law
    if not laws:
        own = next((each.result_type for each in definitions if each.id == operation), None)
        told = problems[own] if own in problems else next(iter(problems.values()))
        raise MalformedText(f"law {text}: the operands have no type that fits; {told}", fix=_FIX)
    return StatedLaw(name, operation, text, tuple(laws.values()))


def _at(
    text: str, name: str, dtype: ScalarType, known: Mapping[str, Definition], undefined: Collection[str]
) -> Law | str:
    """Returns the law for one type, or why it has none for it."""
    place = f"law {text}"
    try:
        words = " ".join(typed_words(tokenize(text, place), dtype))
    except MalformedText as error:
        if "number" in error.message:
            return error.message
        raise
    cursor = Cursor(tokenize(words, place))
    whole = ExpressionParser(cursor, frozenset(), {}).expression()
    if cursor.kind != END:
        raise cursor.expected("the end of the law", _FIX)
    if type(whole) is not Binary or whole.op is not BinaryOp.EQ:
        raise MalformedText(f"{place}: it is no equation", fix=f"{_FIX} Put a side with `and` or `or` in parentheses.")
    for node in walk(whole):
        if type(node) is Call and node.op in undefined:
            raise Inexpressible(f"`{node.op}` has no definition")
        if type(node) is Call and node.op not in known:
            raise MalformedText(f"{place}: `{node.op}` has no definition here", fix="call operations that are defined.")
    holes = _holes(whole, dtype, known)
    if isinstance(holes, str):
        return holes
    findings = Findings()
    typer = ExpressionTyper({}, findings, known)
    for hole, hole_type in holes.items():
        typer.locals.declare(hole, Local(hole_type))
    types = [typer.type_of(side) for side in (whole.left, whole.right)]
    errors = findings.report(order_sensitive=False).errors
    if errors or None in types:
        return errors[0].message if errors else "a side has no type"
    if types[0] is not types[1]:
        return "the sides have different types"
    sides = [expression_text(without_calls_in(side, known)) for side in (whole.left, whole.right)]
    try:
        law = Law(name, sides[0], sides[1], frozenset({dtype}), {h: t for h, t in holes.items() if t is not dtype})
    except InvalidField:
        raise MalformedText(f"{place}: a hole has no name in lower case", fix="name the operands x, y and z.") from None
    law.validate()
    return law


def _holes(whole: Expr, dtype: ScalarType, known: Mapping[str, Definition]) -> dict[str, ScalarType] | str:
    """Returns the type of each hole, or what contradicts: an argument of two calls may have two types."""
    types: dict[str, ScalarType] = {}
    for node in walk(whole):
        if type(node) is not Call:
            continue
        for argument, parameter in zip(node.args, known[node.op].parameters, strict=False):
            if type(argument) is Var and types.setdefault(argument.name, parameter.dtype) is not parameter.dtype:
                return (
                    f"`{argument.name}` is an argument of type {types[argument.name].text} and {parameter.dtype.text}"
                )
    return {node.name: types.get(node.name, dtype) for node in walk(whole) if type(node) is Var}


# ------------------------------------------------------------------------------ bodies as expressions


def without_calls_in(expr: Expr, known: Mapping[str, Definition]) -> Expr:
    """Returns a well-typed expression with its calls replaced by what the definitions compute.

    Raises ``Inexpressible`` for bodies with loops and switches, and for more than 2000 nodes or 128 levels.
    """
    sizes: dict[int, tuple[int, int]] = {}

    def changed(node: Any) -> Any:
        if type(node) is not Call:
            return node
        return _Body(known, known[node.op], sizes).result(node.args)

    plain = rebuilt(expr, changed)
    _check_size(plain, sizes, "the law")
    return plain


def _check_size(expr: Expr, sizes: dict[int, tuple[int, int]], what: str) -> None:
    height, size = measure(expr, sizes, MAX_SIDE_NODES + 1)
    if height > MAX_EXPRESSION_DEPTH or size > MAX_SIDE_NODES:
        raise Inexpressible(
            f"{what} is an expression of more than {MAX_SIDE_NODES} nodes or {MAX_EXPRESSION_DEPTH} levels"
        )


class _Body:
    """One call: its body as values of its locals, in which a branch becomes a ``select`` of what both sides assign."""

    def __init__(self, known: Mapping[str, Definition], definition: Definition, sizes: dict[int, tuple[int, int]]):
        self._known, self._definition, self._sizes = known, definition, sizes

    def result(self, arguments: Iterable[Expr]) -> Expr:
        parameters = self._definition.parameters
        values = {parameter.name: value for parameter, value in zip(parameters, arguments, strict=True)}
        self._run(self._definition.body, values)
        return self._value(self._definition.result, values)

    def _value(self, expr: Expr, values: Mapping[str, Expr]) -> Expr:
        value = without_calls_in(
            rebuilt(expr, lambda node: values[node.name] if type(node) is Var else node), self._known
        )
        _check_size(value, self._sizes, f"the body of `{self._definition.id}`")
        return value

    def _run(self, body: Body, values: dict[str, Expr]) -> None:
        for stmt in body:
            if isinstance(stmt, Let | Assign):
                values[stmt.name] = self._value(stmt.value, values)
            elif isinstance(stmt, If):
                self._branch(stmt, values)
            else:
                kind = type(stmt).__name__.lower()
                raise Inexpressible(f"the body of `{self._definition.id}` has a {kind}, so its value is no expression")

    def _branch(self, first: If, values: dict[str, Expr]) -> None:
        links, last = if_chain(first)
        conditions = [self._value(link.condition, values) for link in links]
        otherwise = dict(values)
        self._run(last, otherwise)
        for link, condition in zip(reversed(links), reversed(conditions), strict=True):
            then = dict(values)
            self._run(link.then, then)
            for name in values:
                if then[name] is not otherwise[name]:
                    otherwise[name] = Select(condition, then[name], otherwise[name])
                    _check_size(otherwise[name], self._sizes, f"the body of `{self._definition.id}`")
        values.update({name: otherwise[name] for name in values})

"""Laws: equations between two expressions, which hold for all types that they name, and tables of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from blake3 import blake3

from vyre.domain.dialects.laws.evaluation import PURE_NODES, SCALARS, evaluated
from vyre.domain.errors import InvalidField, MalformedText
from vyre.domain.ir.expr import CHILDREN, Expr, Literal, Var, walk
from vyre.domain.ir.node import Node
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.text_cursor import Cursor
from vyre.domain.ir.text_expressions import ExpressionParser
from vyre.domain.ir.text_format import SUFFIX, TYPE_OF_SUFFIX, float_bits, literal_text
from vyre.domain.ir.text_lexer import END, NAME, NUMBER, STRING, Tokens, tokenize
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.constants import FOLD, folded
from vyre.domain.numerics.scalar import ValueType, float_format
from vyre.domain.validation.findings import Findings
from vyre.domain.validation.typing import ExpressionTyper, Local, static_type

_S = ScalarType
_RELATED: Final[dict[str, dict[ScalarType, ScalarType]]] = {
    "U": {t: _S.U32 if t.bits == 32 else _S.U64 for t in (_S.U32, _S.I32, _S.F32, _S.U64, _S.I64, _S.F64)},
    "S": {t: _S.I32 if t.bits == 32 else _S.I64 for t in (_S.U32, _S.I32, _S.F32, _S.U64, _S.I64, _S.F64)},
    "F": {t: _S.F32 if t.bits == 32 else _S.F64 for t in (_S.U32, _S.I32, _S.F32, _S.U64, _S.I64, _S.F64)},
}
"""The types that a text can name beside ``T``: unsigned, signed and float of the width of the law's type."""
HoleType: TypeAlias = ScalarType | str
"""The type of a hole that is not of the law's type: a type, or ``U``, ``S`` or ``F`` for one of the same width."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*\Z")
_HOLE: Final = re.compile(r"[a-z][a-z0-9_]*\Z")
_FLOATS_BY_BITS: Final = ("f32", "f64")
"""Words before the bits of a float, as in ``f32(0x7fc00000)``."""
_OPERAND_ENDS: Final = frozenset({NAME, NUMBER, STRING, ")", "]", "true", "false"})


class _Constant(NamedTuple):
    """A constant that a text names: its type, and its bits for the width that computes with the law's type."""

    dtype: Callable[[ScalarType], ScalarType]
    bits: Callable[[ValueType], int]


def _own(dtype: ScalarType) -> ScalarType:
    return dtype


CONSTANTS: Final[dict[str, _Constant]] = {
    "MIN": _Constant(_own, lambda t: 1 << (t.bits - 1) if t.is_signed else 0),
    "MAX": _Constant(_own, lambda t: (1 << (t.bits - t.is_signed)) - 1),
    "WIDTH": _Constant(_own, lambda t: t.bits),
    "WIDTH_U32": _Constant(lambda t: _S.U32, lambda t: t.bits),
    "INF": _Constant(_own, lambda t: float_format(t).infinity),
    "NAN": _Constant(_own, lambda t: float_format(t).quiet_nan),
    "SIGN_BIT": _Constant(lambda t: _RELATED["U"][t], lambda t: 1 << (t.bits - 1)),
    "FRACTION": _Constant(lambda t: _RELATED["U"][t], lambda t: (1 << float_format(t).fraction) - 1),
}
"""Constants of the law's type by the names that texts have for them: bounds and width of an integer type, infinity
and NaN, and as integers of the unsigned type of the same width the masks of the sign and of a float's fraction.
"""


class OperandUse(NamedTuple):
    """The use that a law makes of its operands when ``before`` becomes ``after``; each a set of holes.

    ``dropped`` stand less often in ``after``, ``copied`` more often; ``repeated`` stand in ``before`` more than once,
    so that a match needs two evaluations to be equal; ``reordered`` are evaluated in another order.
    """

    dropped: frozenset[str]
    copied: frozenset[str]
    repeated: frozenset[str]
    reordered: frozenset[str]

    @property
    def pure(self) -> frozenset[str]:
        """Returns the holes whose operands must be free of atomics and subgroup operations."""
        return self.dropped | self.copied | self.repeated | self.reordered


@dataclass(frozen=True, eq=False)
class Law:
    """``before`` equals ``after``: the same bits or both NaN, for all values of the holes that satisfy ``where``.

    The three are expressions of ``.vyre`` text in which free names in lower case are holes.  Those in ``holes`` have
    the type given there, all others the law's type T, which runs over ``types``.  A number without suffix is of type
    T, integers modulo 2^width (``-1`` has all bits set), floats with a point.  ``cast<T>``, ``cast<U>``, ``cast<S>``
    and ``cast<F>`` name T and the unsigned, the signed and the float type of its width; ``CONSTANTS`` has further
    names.

    Holes in ``where``, a condition, match literals only; what ``after`` computes of literals alone is to be folded.
    ``both_ways`` is True if rewriting ``after`` to ``before`` may be of use, too; the equation always holds both ways.

    Construction raises ``InvalidField`` for malformed fields; texts are read by ``at``, and all at once by
    ``validate``.
    """

    NODES: ClassVar[frozenset[type[Node]]] = PURE_NODES
    """The expressions of which a law may be made."""
    name: str
    before: str
    after: str
    types: frozenset[ScalarType]
    holes: Mapping[str, HoleType] = field(default_factory=lambda: MappingProxyType({}))
    where: str | None = None
    both_ways: bool = False
    _read: dict[tuple[str, ScalarType], Expr] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.match(self.name):
            raise self._unfit("name", "a name such as `add.commute`")
        for text in ("before", "after", "where"):
            if not isinstance(getattr(self, text), str) and (text != "where" or self.where is not None):
                raise self._unfit(text, "an expression of .vyre text")
        types = frozenset(self.types)
        if not types or not all(isinstance(t, ScalarType) and t.is_executable for t in types):
            raise self._unfit("types", "a set of executable types that is not empty")
        for hole, dtype in self.holes.items():
            executable = isinstance(dtype, ScalarType) and dtype.is_executable
            if not _HOLE.match(hole) or not (executable or dtype in _RELATED):
                raise self._unfit("holes", 'a mapping of names in lower case to executable types, "U", "S" or "F"')
        object.__setattr__(self, "types", types)

    def _unfit(self, name: str, expected: str) -> InvalidField:
        return InvalidField(record="Law", field=name, value=getattr(self, name), expected=expected)

    def __str__(self) -> str:
        condition = f" where {self.where}" if self.where else ""
        return f"{self.name}: {self.before} = {self.after}{condition}"

    def at(self, dtype: ScalarType) -> tuple[Expr, Expr]:
        """Returns both sides for one type, in which ``Var(name)`` is a hole, and constant parts are one literal.

        Raises ``MalformedText`` for texts that do not parse or have no common type, and ``InvalidField`` for a type
        that is not among ``types``.
        """
        return self._folded("before", dtype), self._folded("after", dtype)

    def condition_at(self, dtype: ScalarType) -> Expr | None:
        """Returns the condition on the constant holes for one type, a bool; None if there is none."""
        return None if self.where is None else self._folded("where", dtype)

    def sides(self, dtype: ScalarType) -> tuple[Expr, Expr]:
        """Returns what ``at`` returns before named constants are replaced: ``Var("WIDTH")`` is such a constant."""
        return self._side("before", dtype), self._side("after", dtype)

    def condition_side(self, dtype: ScalarType) -> Expr | None:
        """Returns the condition before named constants are replaced."""
        return None if self.where is None else self._side("where", dtype)

    @property
    def constant_holes(self) -> frozenset[str]:
        """Returns the holes that match literals only."""
        return frozenset() if self.where is None else frozenset(_names(self._side("where", min(self.types, key=_tag))))

    def hole_types(self, dtype: ScalarType) -> dict[str, ScalarType]:
        """Returns the type of each hole for one type, in the order of the first appearances in ``before``."""
        return {name: self._hole_type(name, dtype) for name in dict.fromkeys(_names(self._side("before", dtype)))}

    def holds_for(self, dtype: ScalarType, constants: Mapping[str, int]) -> bool:
        """Returns whether bit patterns of the constant holes satisfy the condition."""
        condition = self.condition_at(dtype)
        if condition is None:
            return True
        types = {name: self._hole_type(name, dtype) for name in constants}
        return bool(evaluated(condition, types, constants, SCALARS))

    @property
    def use(self) -> OperandUse:
        """Returns what the law does with its operands, which is the same for all types."""
        dtype = min(self.types, key=_tag)
        before, after = (list(_names(side)) for side in self.sides(dtype))
        constant = self.constant_holes
        was, now = Counter(before), Counter(after)
        free = [name for name in was if name not in constant]
        kept = {name for name in free if was[name] == now[name] == 1}
        old, new = ([name for name in side if name in kept] for side in (before, after))
        return OperandUse(
            frozenset(name for name in free if now[name] < was[name]),
            frozenset(name for name in free if now[name] > was[name]),
            frozenset(name for name in free if was[name] > 1),
            frozenset() if old == new else frozenset(kept),
        )

    @property
    def digest(self) -> str:
        """Returns a hexadecimal digest of all that the law says, its name and its direction left out."""
        holes = sorted(f"{name}: {t if isinstance(t, str) else t.text}" for name, t in self.holes.items())
        types = sorted(dtype.text for dtype in self.types)
        parts = (self.before, self.after, self.where or "", *holes, "", *types)
        return blake3("\0".join(("vyre.law.v1", *parts)).encode()).hexdigest(16)

    def validate(self) -> None:
        """Reads every text for every type; raises what ``at`` raises."""
        for dtype in sorted(self.types, key=_tag):
            self.at(dtype)
            self.condition_at(dtype)
            self._check_names(dtype)

    def _check_names(self, dtype: ScalarType) -> None:
        known = self.hole_types(dtype)
        if self.both_ways and set(known) != set(_names(self._side("after", dtype))):
            problem = "it holds both ways, but does not bind every hole of `before`"
            raise self._malformed("after", problem, "rewrite from `before` to `after` only.")
        for text in ("after", "where"):
            if text == "where" and self.where is None:
                continue
            for name in _names(self._side(text, dtype)):
                if name not in known:
                    raise self._malformed(text, f"`{name}` is no hole of `before`", "use holes that `before` binds.")

    def _hole_type(self, name: str, dtype: ScalarType) -> ScalarType:
        kind = self.holes.get(name, dtype)
        return kind if isinstance(kind, ScalarType) else _RELATED[kind][dtype]

    def _folded(self, text: str, dtype: ScalarType) -> Expr:
        key = (f"{text} folded", dtype)
        if key not in self._read:
            self._read[key] = rebuilt(self._side(text, dtype), lambda node: _fold(node, dtype))
        return self._read[key]

    def _side(self, text: str, dtype: ScalarType) -> Expr:
        key = (text, dtype)
        if key not in self._read:
            if dtype not in self.types:
                raise InvalidField(
                    record="Law", field="types", value=dtype, expected=f"a type of the law `{self.name}`"
                )
            self._read[key] = self._parsed(text, dtype)
            if text == "after":
                self._same_type(dtype)
        return self._read[key]

    def _parsed(self, text: str, dtype: ScalarType) -> Expr:
        words = " ".join(typed_words(tokenize(getattr(self, text), self._place(text)), dtype))
        cursor = Cursor(tokenize(words, self._place(text)))
        expr = ExpressionParser(cursor, frozenset(), {}).expression()
        if cursor.kind != END:
            raise cursor.expected("the end of the expression", "write one expression.")
        for node in walk(expr):
            if type(node) not in self.NODES:
                raise self._malformed(text, f"`{type(node).__name__}` is no operator on values", "use operators.")
            if type(node) is Var and node.name not in CONSTANTS and not _HOLE.match(node.name):
                known = ", ".join(CONSTANTS)
                raise self._malformed(text, f"unknown constant `{node.name}`", f"use one of {known}, or lower case.")
        result, errors = self._typed(expr, dtype)
        if result is None or errors:
            first = errors[0] if errors else f"a variable of {dtype.text} has no type"
            raise self._malformed(text, f"operands do not fit for {dtype.text}: {first}", "see docs/semantics.md.")
        if text == "where" and result is not ScalarType.BOOL:
            raise self._malformed(text, f"the condition is {result.text}, not bool", "write a comparison.")
        return expr

    def _typed(self, expr: Expr, dtype: ScalarType) -> tuple[ScalarType | None, list[str]]:
        """Returns the type of an expression, and the rules of typing that it breaks."""
        findings = Findings()
        typer = ExpressionTyper({}, findings)
        for name in _all_names(expr):
            known = CONSTANTS.get(name)
            local = self._hole_type(name, dtype) if known is None else known.dtype(dtype)
            typer.locals.declare(name, Local(local))
        result = typer.type_of(expr)
        return result, [each.message for each in findings.report(order_sensitive=False).errors]

    def _same_type(self, dtype: ScalarType) -> None:
        first, second = (self._typed(self._side(text, dtype), dtype)[0] for text in ("before", "after"))
        if first is not second and first is not None and second is not None:
            raise self._malformed("after", f"{second.text}, where `before` is {first.text}", "write a cast.")

    def _place(self, text: str) -> str:
        return f"law {self.name}, {text}"

    def _malformed(self, text: str, problem: str, fix: str) -> MalformedText:
        return MalformedText(f"{self._place(text)}: {problem}", fix=fix)


def _tag(dtype: ScalarType) -> int:
    return dtype.tag


def _all_names(expr: Expr) -> list[str]:
    return [node.name for node in walk(expr) if type(node) is Var]


def _names(expr: Expr) -> Iterable[str]:
    return (name for name in _all_names(expr) if name not in CONSTANTS)


def _fold(node: Any, dtype: ScalarType) -> Any:
    """Returns the literal of a named constant, or of an operator on literals; any other node as it is."""
    if type(node) is Var:
        constant = CONSTANTS.get(node.name)
        return node if constant is None else Literal(constant.dtype(dtype), constant.bits(dtype), loc=node.loc)
    kind = type(node)
    if kind not in FOLD or {*map(type, CHILDREN[kind](node))} != {Literal}:
        return node
    result_type = static_type(node, {}, {})
    assert result_type is not None
    return Literal(result_type, folded(node), loc=node.loc)


# ------------------------------------------------------------------------------ texts of one type


def typed_words(tokens: Tokens, dtype: ScalarType) -> Iterable[str]:
    """Yields the words of a text for one type: numbers with suffixes, and types by their names.

    Raises ``MalformedText`` for a number of a form that the type does not have.
    """
    kinds, sign = tokens.kinds, False
    for i, kind in enumerate(kinds[:-1]):
        word, last = tokens.text(i), kinds[i - 1] if i else END
        if kind == "-" and kinds[i + 1] == NUMBER and last not in _OPERAND_ENDS:
            sign = True
        elif kind == NUMBER and last == "(" and i > 1 and tokens.text(i - 2) in _FLOATS_BY_BITS:
            yield word
        elif kind == NUMBER:
            yield _number(f"-{word}" if sign else word, dtype, tokens, i)
            sign = False
        elif kind == NAME and last == "<" and kinds[i + 1] == ">":
            yield _type_word(word, dtype)
        else:
            yield word


def _type_word(word: str, dtype: ScalarType) -> str:
    if word == "T":
        return dtype.text
    return _RELATED[word][dtype].text if word in _RELATED and dtype in _RELATED[word] else word


def _number(word: str, dtype: ScalarType, tokens: Tokens, position: int) -> str:
    """Returns a number with its suffix; raises ``MalformedText`` for a form that the type does not have."""
    digits = word.lower()
    if any(digits.endswith(suffix) for suffix in TYPE_OF_SUFFIX) and not digits.lstrip("-").startswith("0x"):
        return word
    if digits.lstrip("-").startswith("0x") and digits.endswith(("u", "i", "u64", "i64")):
        return word
    if dtype not in SUFFIX:
        raise MalformedText(f"a number of type {dtype.text}", fix="write a suffix.", loc=tokens.loc(position))
    is_float = not digits.lstrip("-").startswith("0x") and not digits.lstrip("-").isdigit()
    if is_float is not dtype.is_float:
        fix = "write floats with a point." if dtype.is_float else "write whole numbers."
        raise MalformedText(f"{word} is no number of type {dtype.text}", fix=fix, loc=tokens.loc(position))
    if is_float:
        return literal_text(dtype, float_bits(dtype, digits))
    return literal_text(dtype, int(digits, 0) & ((1 << dtype.bits) - 1))


ScalarTypes = frozenset[ScalarType]


def laws(types: ScalarTypes, rows: str, *, holes: Mapping[str, HoleType] | None = None) -> Iterator[Law]:
    """Yields the laws of a table, one a line: ``name: before = after`` or ``name: before <=> after``, and perhaps
    ``if condition``.

    ``=`` stands between sides that are rewritten from left to right only, ``<=>`` between those for which both ways
    may be of use.  ``holes`` are the types of holes that are not of the law's type, where they occur.
    """
    for row in filter(None, map(str.strip, rows.splitlines())):
        name, _, rest = row.partition(": ")
        sides, _, condition = rest.partition(" if ")
        before, sign, after = sides.partition(" <=> ")
        if not sign:
            before, _, after = sides.partition(" = ")
        words = set(_words(before))
        used = {hole: dtype for hole, dtype in (holes or {}).items() if hole in words}
        yield Law(name, before, after, types, used, condition or None, bool(sign))


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()

"""Declarations of the forms of the language: what is said once of a class of nodes, for all who treat nodes alike.

``@node`` declares a statement, or another part of a program, and ``@expression`` an expression.  From the annotations
follow operands, parts and how a node is built with others of them; from the declaration of an expression whose fields
are its operands alone, or a type and one operand, also its forms as text, wire and JSON.  What a form means stays with
the validator, the oracle and the engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, dataclass_transform

from vyre.domain.frozen import frozen
from vyre.domain.ir.node import Node, fields_getter
from vyre.domain.ir.operators import SubgroupOp, SubgroupRow
from vyre.domain.ir.types import ScalarType

_N = TypeVar("_N", bound=Node)


class Effect(Enum):
    """The effect of an expression: on what it depends, or what it changes, besides its operands and locals."""

    NONE = "nothing"
    DISPATCH = "a value that all lanes of a dispatch share"
    LANE = "the place of the lane"
    READS = "memory, which it reads"
    EXCHANGES = "the values of other lanes of the subgroup"
    ATOMIC = "memory, which it reads and writes in one step"


class Form(NamedTuple):
    """The declaration of an expression.

    ``word``, ``opcode`` and ``tag`` name it in text, wire and JSON, None where it has several names or none.
    ``result`` is its type, the number of the operand that has its type, or the attribute of the node that tells the
    type; None where buffers, locals or definitions tell it.  Of an expression with ``operators`` each operator has
    names of its own.
    """

    word: str | None
    opcode: int | None
    tag: str | None
    effect: Effect
    result: ScalarType | int | str | None
    operators: Mapping[SubgroupOp, SubgroupRow] | None

    def word_of(self, node: Any) -> str | None:
        """Returns the name in text of an expression of this form."""
        return self.word if self.operators is None else self.operators[node.op].text


class Parts(NamedTuple):
    """Some fields of a class of nodes: their names, their values in a node, and a node with other values of them.

    A field that holds any number of operands stands for these operands.
    """

    names: tuple[str, ...]
    of: Callable[[Any], tuple[Any, ...]]
    replaced: Callable[..., Any]


NO_PARTS: Final = Parts((), lambda _: (), lambda node: node)
FORMS: Final[dict[type[Node], Form]] = {}
"""The declarations of the expressions."""
OPERANDS: Final[dict[type[Node], Parts]] = {}
"""The fields of nodes that hold expressions, in evaluation order."""
BODIES: Final[dict[type[Node], Parts]] = {}
"""The fields that hold statements, in program order, without those in arms."""
PARTS: Final[dict[type[Node], Parts]] = {}
"""The fields of which a rewriter replaces what is in them: operands, bodies and arms."""
_ANY_NUMBER: Final = "tuple[Expr, ...]"
_OPERAND_TYPES: Final = frozenset({"Expr", "Expr | None", _ANY_NUMBER})
_BODY_TYPES: Final = frozenset({"Body", "tuple[Stmt, ...]"})
_PART_TYPES: Final = _OPERAND_TYPES | _BODY_TYPES | {"tuple[Arm, ...]"}
_FROZEN: Final = frozen(eq=False, repr=False)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def node(cls: type[_N]) -> type[_N]:
    """Returns the frozen, slotted class of a node that is no expression."""
    declared = _FROZEN(cls)
    for table, types in ((OPERANDS, _OPERAND_TYPES), (BODIES, _BODY_TYPES), (PARTS, _PART_TYPES)):
        table[declared] = _parts(declared, types)
    return declared


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def expression(
    word: str | None,
    opcode: int | None,
    tag: str | None,
    *,
    effect: Effect = Effect.NONE,
    result: ScalarType | int | str | None = None,
    operators: Mapping[SubgroupOp, SubgroupRow] | None = None,
) -> Callable[[type[_N]], type[_N]]:
    """Returns a decorator for the frozen, slotted class of an expression."""

    def declared(cls: type[_N]) -> type[_N]:
        node_class = node(cls)
        FORMS[node_class] = Form(word, opcode, tag, effect, result, operators)
        return node_class

    return declared


def _parts(cls: Any, types: frozenset[str]) -> Parts:
    names = tuple([name for name in cls.__match_args__ if cls.__annotations__[name] in types])
    if not names:
        return NO_PARTS
    if [cls.__annotations__[name] for name in names] == [_ANY_NUMBER]:
        of: Callable[[Any], tuple[Any, ...]] = attrgetter(*names)
        parameters = f"*{names[0]}"
    else:
        of, parameters = fields_getter(names), ", ".join(names)
    values = [name if name in names else f"node.{name}" for name in cls.__match_args__]
    source = f"lambda node, {parameters}: cls({', '.join((*values, 'loc=node.loc'))})"
    return Parts(names, of, eval(source, {"cls": cls}))


_Classes: TypeAlias = frozenset[type[Node]]


def with_effects(*effects: Effect) -> _Classes:
    """Returns the expressions that have one of these effects."""
    return frozenset([cls for cls, form in FORMS.items() if form.effect in effects])


def distinction(cls: type[Node]) -> Callable[[Any], Any]:
    """Returns a function from an operation to what tells it from others of its class and operands: its operator, type
    or name; None where nothing does.
    """
    names = [name for name in cls.__match_args__ if name not in OPERANDS[cls].names]
    return attrgetter(*names) if names else lambda _: None


class Function(NamedTuple):
    """An expression that is written as a word, an opcode, or a tag, and its operands; ``node`` makes it of these."""

    word: str
    opcode: int
    tag: str | None
    arity: int
    node: Callable[..., Any]


def functions(*before: str) -> Iterator[Function]:
    """Yields the expressions that have the fields ``before`` and their operands, and no others; without ``before`` also
    those of each operator that has names of its own.
    """
    for cls, form in FORMS.items():
        names = OPERANDS[cls].names
        make: Callable[..., Any] = cls
        for op, row in ({} if before or form.operators is None else form.operators).items():
            yield Function(row.text, op.value, row.tag, len(names), partial(make, op))
        if form.word is not None and form.opcode is not None and cls.__match_args__ == (*before, *names):
            yield Function(form.word, form.opcode, form.tag, len(names), make)

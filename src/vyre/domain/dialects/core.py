"""``core_dialect``: the operators of the language as operations, from the tables that give them their meaning."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.laws.law import Law
from vyre.domain.dialects.operations import Category, Dialect, Operation, Signature, TypedName
from vyre.domain.ir.definitions import Version
from vyre.domain.ir.expr import (
    EXCHANGING,
    Binary,
    Bitcast,
    Cast,
    Fma,
    Load,
    Narrow,
    Pack,
    Select,
    SubgroupBallot,
    SubgroupLane,
    SubgroupShuffle,
    SubgroupSize,
    Unary,
    Unpack,
    WrapCast,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import (
    ANY_TYPE,
    ATOMIC_ELEMENTS,
    ATOMIC_MEANING,
    BINARY,
    FLOATS,
    INTEGERS,
    SUBGROUP,
    UNARY,
    AtomicOp,
    BinaryOp,
    Result,
    RightOperand,
    SubgroupOp,
    UnaryOp,
)
from vyre.domain.ir.types import NARROW_TYPES, ScalarType
from vyre.domain.optimize.egraph.heads import CYCLE, OPERATORS, Head, cost_of

CORE: Final = "core"
Operator: TypeAlias = "BinaryOp | UnaryOp | AtomicOp | SubgroupOp | type[Node]"
_Types: TypeAlias = frozenset[ScalarType]
_BOOL: Final = frozenset({ScalarType.BOOL})
_U32: Final = frozenset({ScalarType.U32})
_WIDENED: Final = frozenset(dtype.widened for dtype in NARROW_TYPES)
_BITS: Final = ANY_TYPE - _BOOL


class _Form(NamedTuple):
    """An operator with a node of its own: its name, its operands, and the types of its result."""

    name: str
    inputs: tuple[TypedName, ...]
    result: _Types


FORMS: Final[Mapping[type[Node], _Form]] = {
    Select: _Form(
        "select",
        (TypedName("condition", _BOOL), TypedName("on_true", ANY_TYPE), TypedName("on_false", ANY_TYPE)),
        ANY_TYPE,
    ),
    Fma: _Form("fma", (TypedName("a", FLOATS), TypedName("b", FLOATS), TypedName("c", FLOATS)), FLOATS),
    Cast: _Form("cast", (TypedName("x", ANY_TYPE),), ANY_TYPE),
    Bitcast: _Form("bitcast", (TypedName("x", _BITS),), _BITS),
    WrapCast: _Form("wrap_cast", (TypedName("x", FLOATS),), INTEGERS),
    Narrow: _Form("narrow", (TypedName("x", _WIDENED),), _WIDENED),
    Pack: _Form("pack", (TypedName("x", _WIDENED),), _U32),
    Unpack: _Form("unpack", (TypedName("x", _U32),), _WIDENED),
    SubgroupLane: _Form("subgroup_lane", (), _U32),
    SubgroupSize: _Form("subgroup_size", (), _U32),
    SubgroupBallot: _Form("subgroup_ballot", (TypedName("condition", _BOOL),), _U32),
    SubgroupShuffle: _Form("subgroup_shuffle", (TypedName("x", ANY_TYPE), TypedName("lane", _U32)), ANY_TYPE),
}
"""The operators that are neither binary, unary, atomic nor over lanes.  Where operands may have several types, how they
depend on each other is said by the meaning, as it is for the other operators."""


_PREFIX: Final = {AtomicOp: "atomic_", SubgroupOp: "subgroup_"}


def operator_id(op: Operator) -> str:
    """Returns the id of an operator of the language, such as ``core.add``, ``core.fma`` or ``core.atomic_add``."""
    if isinstance(op, type):
        return f"{CORE}.{FORMS[op].name}"
    name = op.name.lower()
    return f"{CORE}.{_PREFIX.get(type(op), '')}{name}"


def meaning_of(node: type[Node]) -> str:
    """Returns the first paragraph of a node's docstring, in Markdown; empty where Python keeps no docstrings."""
    return " ".join((inspect.getdoc(node) or "").split("\n\n")[0].split()).replace("``", "`")


@cache
def core_dialect() -> Dialect:
    """Returns the operators of the language, with the laws whose left side begins with them."""
    laws = _laws_by_operator()
    rows = []
    for op, row in BINARY.items():
        right = row.operands | _U32 if row.right is RightOperand.SHIFT else row.operands
        result = _BOOL if row.result is Result.BOOL else row.operands
        operands: tuple[TypedName, ...] = (TypedName("a", row.operands), TypedName("b", right))
        rows.append(_operation(op, row.meaning, operands, result, laws[op], _cost(Binary, op, row.operands)))
    for unary, line in UNARY.items():
        result = _BOOL if line.result is Result.BOOL else line.operands
        operands = (TypedName("x", line.operands),)
        rows.append(_operation(unary, line.meaning, operands, result, laws[unary], _cost(Unary, unary, line.operands)))
    for node, form in FORMS.items():
        cost = _cost(node, None, form.inputs[0].types if form.inputs else _U32)
        rows.append(_operation(node, meaning_of(node), form.inputs, form.result, laws[node], cost))
    for subgroup, over in SUBGROUP.items():
        operands = (TypedName("value", over.operands),)
        rows.append(_operation(subgroup, over.meaning, operands, over.operands, [], _OUTSIDE))
    elements = frozenset(ATOMIC_ELEMENTS)
    for atomic, meaning in ATOMIC_MEANING.items():
        operands = (TypedName("value", elements),)
        if atomic is AtomicOp.COMPARE_EXCHANGE:
            operands = (TypedName("expected", elements), *operands)
        rows.append(_operation(atomic, meaning, operands, elements, [], _OUTSIDE))
    return Dialect(CORE, Version(1), tuple(rows))


def _operation(
    op: Operator, meaning: str, inputs: tuple[TypedName, ...], result: _Types, laws: list[Law], cost: int
) -> Operation:
    return Operation(
        id=operator_id(op),
        signature=Signature(inputs, TypedName("result", result)),
        category=Category.INTRINSIC,
        laws=tuple(laws),
        cost=cost,
        summary=meaning,
    )


def _laws_by_operator() -> dict[object, list[Law]]:
    by_operator: dict[object, list[Law]] = defaultdict(list)
    for law in LAWS:
        before, _ = law.at(min(law.types, key=lambda dtype: dtype.value))
        by_operator[before.op if isinstance(before, Binary | Unary) else type(before)].append(law)
    return by_operator


# ---------------------------------------------------------------- costs
def _cost(node: type[Node], payload: Any, operands: _Types) -> int:
    """Returns the cost of an operator in additions, for the first type of its operands, from the optimizer's table."""
    if node in EXCHANGING:
        return _OUTSIDE
    first = min(operands, key=lambda dtype: dtype.tag)
    operand = first if node in OPERATORS else None
    return max(1, cost_of(Head(node, payload, first, operand)) // CYCLE)


_OUTSIDE: Final = cost_of(Head(Load, "", ScalarType.U32)) // CYCLE
"""The cost of what reaches other lanes or memory: that of a load."""

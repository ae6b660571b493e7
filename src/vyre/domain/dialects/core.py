"""``core_dialect``: the operators of the language as operations, from the tables that give them their meaning."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Final

from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.laws.law import Law
from vyre.domain.dialects.operations import Category, Dialect, Operation, Signature, Slot
from vyre.domain.ir.definitions import Version
from vyre.domain.ir.expr import Binary, Unary
from vyre.domain.ir.operators import (
    ATOMIC_ELEMENTS,
    ATOMIC_MEANING,
    BINARY,
    UNARY,
    AtomicOp,
    BinaryOp,
    BinaryRow,
    Result,
    RightOperand,
    UnaryOp,
)
from vyre.domain.ir.types import ScalarType

CORE: Final = "core"
_BOOL: Final = frozenset({ScalarType.BOOL})
_U32: Final = frozenset({ScalarType.U32})
_COSTLY: Final = {
    BinaryOp.DIV: 8,
    BinaryOp.MOD: 8,
    UnaryOp.SQRT: 8,
    UnaryOp.INVERSE_SQRT: 16,
    UnaryOp.RECIPROCAL: 8,
}
"""The costs of operators that take longer than an addition, in additions."""
_FUNCTION_COST: Final = 32
_FUNCTIONS: Final = frozenset(
    {
        *(UnaryOp.COS, UnaryOp.SIN, UnaryOp.TAN, UnaryOp.ACOS, UnaryOp.ASIN, UnaryOp.ATAN, UnaryOp.TANH),
        *(UnaryOp.SINH, UnaryOp.COSH, UnaryOp.EXP, UnaryOp.EXP2, UnaryOp.LOG, UnaryOp.LOG2),
    }
)


def operator_id(op: BinaryOp | UnaryOp | AtomicOp) -> str:
    """Returns the id of an operator of the language, such as ``core.add`` or ``core.atomic_add``."""
    name = op.name.lower()
    return f"{CORE}.{name}" if not isinstance(op, AtomicOp) else f"{CORE}.atomic_{name}"


@cache
def core_dialect() -> Dialect:
    """Returns the operators of the language, with the laws whose left side begins with them."""
    laws = _laws_by_operator()
    found = [_binary(op, row, tuple(laws[op])) for op, row in BINARY.items()]
    for unary, line in UNARY.items():
        result = _BOOL if line.result is Result.BOOL else line.operands
        found.append(_operation(unary, line.meaning, (Slot("x", line.operands),), result, tuple(laws[unary])))
    elements = frozenset(ATOMIC_ELEMENTS)
    for atomic, meaning in ATOMIC_MEANING.items():
        slots: tuple[Slot, ...] = (Slot("value", elements),)
        if atomic is AtomicOp.COMPARE_EXCHANGE:
            slots = (Slot("expected", elements), *slots)
        found.append(_operation(atomic, meaning, slots, elements, ()))
    return Dialect(CORE, Version(1), tuple(found))


def _binary(op: BinaryOp, row: BinaryRow, laws: tuple[Law, ...]) -> Operation:
    right = row.operands | _U32 if row.right is RightOperand.SHIFT else row.operands
    result = _BOOL if row.result is Result.BOOL else row.operands
    return _operation(op, row.meaning, (Slot("a", row.operands), Slot("b", right)), result, laws)


def _operation(
    op: BinaryOp | UnaryOp | AtomicOp,
    meaning: str,
    inputs: tuple[Slot, ...],
    result: frozenset[ScalarType],
    laws: tuple[Law, ...],
) -> Operation:
    cost = 1
    if not isinstance(op, AtomicOp):
        cost = _FUNCTION_COST if op in _FUNCTIONS else _COSTLY.get(op, 1)
    return Operation(
        id=operator_id(op),
        signature=Signature(inputs, Slot("result", result)),
        category=Category.INTRINSIC,
        laws=laws,
        cost=cost,
        summary=meaning,
    )


def _laws_by_operator() -> dict[BinaryOp | UnaryOp, list[Law]]:
    found: dict[BinaryOp | UnaryOp, list[Law]] = defaultdict(list)
    for law in LAWS:
        before, _ = law.at(min(law.types, key=lambda dtype: dtype.value))
        if isinstance(before, Binary | Unary):
            found[before.op].append(law)
    return found

"""Operation ids: the operations that a program needs and a backend offers, compared before anything is compiled.

An id is ``vyre.node.<statement>``, ``vyre.<expression>`` or, for literals, ``vyre.lit_<type>``: the spelling of
vyre-driver, the Rust system whose ids vyre shares, extended to the node kinds that only exist in vyre.
"""

from __future__ import annotations

import re
from typing import Final

from vyre.domain.ir.expr import EXPR_TYPES, Call, Expr, Literal, Native
from vyre.domain.ir.node import Node
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import OpId, Program, kept_with_program
from vyre.domain.ir.stmt import STMT_TYPES, IndirectDispatch, Stmt
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType
from vyre.domain.ir.walk import unique_expressions

_SPELLING: Final = {"binary": "bin_op", "unary": "un_op", "subgroup_reduce": "subgroup_add"}


def _snake(node_type: type[Node]) -> str:
    name = re.sub(r"(?<!^)([A-Z])", r"_\1", node_type.__name__).lower()
    return _SPELLING.get(name, name)


def _literal_id(dtype: ScalarType) -> OpId:
    return OpId(f"vyre.lit_{dtype.text}")


_IDS: Final[dict[type[Node], OpId]] = {
    **{t: OpId(f"vyre.node.{_snake(t)}") for t in STMT_TYPES},
    **{t: OpId(f"vyre.{_snake(t)}") for t in EXPR_TYPES if t not in (Literal, Call, Native)},
}

_LITERAL_IDS: Final = {dtype: _literal_id(dtype) for dtype in ScalarType}

ALL_OPS: Final[frozenset[OpId]] = frozenset(_IDS.values()) | {_literal_id(t) for t in EXECUTABLE_TYPES}
INDIRECT_DISPATCH: Final = _IDS[IndirectDispatch]
INDIRECT_FIX: Final = "leave the statement out, and launch the program with grid=vyre.Indirect(counts, most)."
"""The fix of a program with that statement, which no backend runs."""
USUAL_OPS: Final = ALL_OPS - {INDIRECT_DISPATCH}
"""The operations of a backend that lists none: all that need no launch of its own."""


def native_op(language: str) -> OpId:
    """Returns the id that a backend lists if it takes the native text of operations in a language, such as ``ptx``."""
    return OpId(f"vyre.native_{language}")


@kept_with_program("required_ops")
def required_ops(program: Program) -> frozenset[OpId]:
    """Returns the ids of every statement and expression of ``program``; cached on it.

    Calls need what the bodies of their definitions need.  A program with calls must be valid.
    """
    facts = node_facts(program)
    if Call in facts.types:
        from vyre.domain.dialects.expansion import expanded  # few programs have calls

        facts = node_facts(expanded(program))
    ids = set(map(_LITERAL_IDS.__getitem__, facts.literals))
    ids.update(map(_IDS.__getitem__, facts.types - {Literal, Native}))
    if Native in facts.types:
        ids.update(native_op(node.language) for node in unique_expressions(program) if isinstance(node, Native))
    return frozenset(ids)


def op_of(node: Stmt | Expr) -> OpId | None:
    """Returns the id of the operation of a statement or an expression; None for a call, which stands for others."""
    if isinstance(node, Native):
        return native_op(node.language)
    return _LITERAL_IDS[node.dtype] if isinstance(node, Literal) else _IDS.get(type(node))

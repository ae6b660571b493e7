"""Operation ids: what a program needs against what a backend offers, compared before anything is compiled.

An id is ``vyre.node.<statement>``, ``vyre.<expression>`` or, for literals, ``vyre.lit_<type>``: the
spelling of the reference system, extended to the node kinds that only exist here.
"""

from __future__ import annotations

import re
from typing import Final

from vyre.domain.ir.expr import EXPR_TYPES, Expr, Literal, children
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import OpId, Program
from vyre.domain.ir.stmt import STMT_TYPES, operands, walk_statements
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType

_SPELLING: Final = {"binary": "bin_op", "unary": "un_op"}


def _snake(node_type: type[Node]) -> str:
    name = re.sub(r"(?<!^)([A-Z])", r"_\1", node_type.__name__).lower()
    return _SPELLING.get(name, name)


def _literal_id(dtype: ScalarType) -> OpId:
    return OpId(f"vyre.lit_{dtype.text}")


_IDS: Final[dict[type[Node], OpId]] = {
    **{t: OpId(f"vyre.node.{_snake(t)}") for t in STMT_TYPES},
    **{t: OpId(f"vyre.{_snake(t)}") for t in EXPR_TYPES if t is not Literal},
}

ALL_OPS: Final[frozenset[OpId]] = frozenset(_IDS.values()) | {_literal_id(t) for t in EXECUTABLE_TYPES}


def required_ops(program: Program) -> frozenset[OpId]:
    """Ids of every statement and expression of ``program``; each shared sub-expression is visited once."""
    found: set[OpId] = set()
    seen: set[int] = set()
    for stmt in walk_statements(program.body):
        found.add(_IDS[type(stmt)])
        stack: list[Expr] = list(operands(stmt))
        while stack:
            expr = stack.pop()
            if id(expr) in seen:
                continue
            seen.add(id(expr))
            found.add(_literal_id(expr.dtype) if isinstance(expr, Literal) else _IDS[type(expr)])
            stack.extend(children(expr))
    return frozenset(found)

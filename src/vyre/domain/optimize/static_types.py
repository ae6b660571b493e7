"""``StaticTypes``: the type of an expression of a valid program, found without typing the whole program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.forms import FORMS
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BINARY, UNARY, Result
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.types import ScalarType


def _stated(result: ScalarType | str) -> Callable[[Any], ScalarType]:
    return attrgetter(result) if isinstance(result, str) else lambda _: result


_FIXED: Final = {cls: _stated(form.result) for cls, form in FORMS.items() if isinstance(form.result, ScalarType | str)}
"""The types of expressions that state them."""
_SAME: Final[dict[type[Node], Callable[[Any], Any]]] = {
    cls: attrgetter(ir.CHILD_FIELDS[cls][form.result]) for cls, form in FORMS.items() if isinstance(form.result, int)
}
"""The operands whose type other expressions have."""
_BOOL: Final[frozenset[object]] = frozenset(
    [op for op, row in BINARY.items() if row.result is Result.BOOL]
    + [op for op, row in UNARY.items() if row.result is Result.BOOL]
)


def type_or_operand(node: ir.Expr, buffers: Mapping[str, Buffer]) -> tuple[ScalarType | None, ir.Expr | None]:
    """Returns the type of an expression that is neither a local nor a call, or the operand that has the same type."""
    kind = type(node)
    if kind in _FIXED:
        return _FIXED[kind](node), None
    if type(node) is ir.Load or type(node) is ir.Atomic:
        return element_of(buffers[node.buffer]).widened, None
    if (type(node) is ir.Binary or type(node) is ir.Unary) and node.op in _BOOL:
        return ScalarType.BOOL, None
    return None, _SAME[kind](node)


class StaticTypes:
    """Types of expressions of a valid program in which every local has a name of its own.

    ``declare`` tells the type of a local before the expressions that read it.  A type costs as many steps as the left
    spine of an expression is deep, once for each node of it.
    """

    def __init__(self, program: Program) -> None:
        self._buffers: Mapping[str, Buffer] = program.buffers_by_name
        self._results = {definition.id: definition.result_type for definition in program.definitions}
        self._locals: dict[str, ScalarType] = {}
        self._known: dict[int, tuple[ir.Expr, ScalarType]] = {}

    def declare(self, name: str, dtype: ScalarType) -> None:
        """Sets the type of a local."""
        self._locals[name] = dtype

    def declare_all(self, statements: Iterable[object]) -> None:
        """Sets the types of the locals that statements declare; they come in the order of the program."""
        for stmt in statements:
            if type(stmt) is ir.Let:
                self.declare(stmt.name, self.of(stmt.value))
            elif type(stmt) is ir.Loop:
                self.declare(stmt.var, self.of(stmt.start))
            elif type(stmt) is ir.GridLoop:
                self.declare(stmt.name, ScalarType.U32)

    def of(self, expr: ir.Expr) -> ScalarType:
        """Returns the type of an expression; does not recurse."""
        passed: list[ir.Expr] = []
        node = expr
        while True:
            kind = type(node)
            if kind in _FIXED:
                static = _FIXED[kind](node)
                break
            known = self._known.get(id(node))
            if known is not None:
                static = known[1]
                break
            passed.append(node)
            if type(node) is ir.Var:
                static = self._locals[node.name]
                break
            if type(node) is ir.Call:
                static = self._results[node.op]
                break
            dtype, operand = type_or_operand(node, self._buffers)
            if dtype is not None:
                static = dtype
                break
            assert operand is not None
            node = operand
        for above in passed:
            self._known[id(above)] = (above, static)
        return static

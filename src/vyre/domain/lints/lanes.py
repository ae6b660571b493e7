"""The lanes of a workgroup that reach a statement, and the values that differ between them.

Both err on one side, so that a race is reported only where several lanes certainly reach it: a condition that is not
recognised may let one lane pass, and a value that is not recognised may differ or agree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vyre.domain.frozen import frozen
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.operators import OPPOSITE, BinaryOp, UnaryOp
from vyre.domain.ir.program import Dim3, Program

UNKNOWN: Final = 8
"""The bit, besides one for each axis (1, 2, 4), for differences or conditions that are not analysed."""
ALL: Final = 15
_PLENTY: Final = 2
"""The number of lanes assumed to pass a bound that is known at run time only."""
_MIRRORED: Final = {
    BinaryOp.LT: BinaryOp.GT,
    BinaryOp.GT: BinaryOp.LT,
    BinaryOp.LE: BinaryOp.GE,
    BinaryOp.GE: BinaryOp.LE,
}


@frozen
class Reach:
    """The lanes that certainly reach a statement: ``first`` up to ``end`` along each axis.

    ``narrowed`` has the bits of the axes along which possibly only one lane reaches it; ``bounded`` those whose end
    is known at run time only.
    """

    first: Dim3
    end: Dim3
    narrowed: int = 0
    bounded: int = 0

    def lanes(self, axis: int) -> int:
        """Returns the number of adjacent lanes along an axis that reach the statement together; 1 if nothing is
        known.
        """
        if self.narrowed & (1 << axis | UNKNOWN):
            return 1
        count = max(self.end[axis] - self.first[axis], 1)
        return min(count, _PLENTY) if self.bounded & 1 << axis else count

    def narrow(self, bits: int) -> Reach:
        """Returns the reach behind a condition that may let one lane pass along the axes of ``bits``."""
        return replace(self, narrowed=self.narrowed | bits)

    def ending(self, axis: int, end: int) -> Reach:
        """Returns the lanes below ``end`` along an axis."""
        return replace(self, end=_with(self.end, axis, min(self.end[axis], end)))

    def starting(self, axis: int, first: int) -> Reach:
        """Returns the lanes from ``first`` on along an axis."""
        return replace(self, first=_with(self.first, axis, max(self.first[axis], first)))


def _with(sizes: Dim3, axis: int, size: int) -> Dim3:
    x, y, z = (size if index == axis else old for index, old in enumerate(sizes))
    return x, y, z


class Lanes:
    """Follows the locals of one program; the traversal that uses it declares and assigns them in order."""

    def __init__(self, program: Program) -> None:
        self._buffers = program.buffers_by_name
        self._sizes = program.workgroup_size
        statements = list(ir.walk_statements(program.body))
        self._assigned = {stmt.name for stmt in statements if isinstance(stmt, ir.Assign)}
        self._written = {use.buffer for stmt in statements for use in accesses(stmt) if use.touch is not Touch.READ}
        self._differs: dict[str, int] = {}
        self._ids: dict[str, ir.LaunchId] = {}
        self._known: dict[int, int] = {}

    def everywhere(self) -> Reach:
        """Returns all lanes of a workgroup."""
        x, y, z = self._sizes
        return Reach((0, 0, 0), (x, y, z))

    # ---- locals
    def declare(self, name: str, value: ir.Expr) -> None:
        """Notes the value of a new local."""
        bits = self.differs(value)
        if name in self._assigned:
            bits |= UNKNOWN
        self._set(name, bits)
        launch_id = self._id(value)
        if launch_id is None or name in self._assigned:
            self._ids.pop(name, None)
        else:
            self._ids[name] = launch_id

    def declare_counter(self, name: str, start: ir.Expr, step: ir.Expr) -> None:
        """Notes the variable of a loop: lanes in the same round agree on it where they agree on its start and step."""
        self._ids.pop(name, None)
        self._set(name, self.differs(start) | self.differs(step))

    def assign(self, name: str, value: ir.Expr) -> None:
        """Notes another value of a local."""
        self._set(name, self._differs.get(name, 0) | self.differs(value) | UNKNOWN)

    def _set(self, name: str, bits: int) -> None:
        if self._differs.get(name, bits) != bits:
            self._known = {}
        self._differs[name] = bits

    # ---- values
    def differs(self, expr: ir.Expr) -> int:
        """Returns the axes along which the lanes of a workgroup may disagree about a value, with ``UNKNOWN`` for
        other reasons.
        """
        key = id(expr)
        axes = self._known.get(key)
        if axes is None:
            axes = self._known[key] = self._find(expr)
        return axes

    def _find(self, expr: ir.Expr) -> int:
        if type(expr) in ir.OF_LANES:
            return UNKNOWN
        match expr:
            case ir.Var(name):
                return self._differs.get(name, ALL)
            case ir.LaunchId(kind, axis):
                in_workgroup = kind in (ir.IdKind.LOCAL, ir.IdKind.GLOBAL) and self._sizes[axis] > 1
                return 1 << axis if in_workgroup else 0
            case ir.Load(buffer, index):
                return self.differs(index) | (UNKNOWN if buffer in self._written else 0)
        bits = 0
        for child in ir.children(expr):
            bits |= self.differs(child)
        return bits

    def _id(self, expr: ir.Expr) -> ir.LaunchId | None:
        """Returns the local or global id that an expression is, or None."""
        if isinstance(expr, ir.Var):
            return self._ids.get(expr.name)
        if isinstance(expr, ir.LaunchId) and expr.kind in (ir.IdKind.LOCAL, ir.IdKind.GLOBAL):
            return expr if self._sizes[expr.axis] > 1 else None
        return None

    # ---- conditions
    def behind(self, reach: Reach, condition: ir.Expr, holds: bool) -> Reach:
        """Returns the lanes of ``reach`` for which a condition holds, or fails."""
        if self.differs(condition) == 0:
            return reach
        if isinstance(condition, ir.Unary) and condition.op is UnaryOp.LOGICAL_NOT:
            return self.behind(reach, condition.operand, not holds)
        if isinstance(condition, ir.Binary):
            if condition.op is (BinaryOp.AND if holds else BinaryOp.OR):
                return self.behind(self.behind(reach, condition.left, holds), condition.right, holds)
            compared = self._compared(reach, condition, holds)
            if compared is not None:
                return compared
        differs = self.differs(condition)
        return reach.narrow(ALL if differs & UNKNOWN else differs)

    def _compared(self, reach: Reach, condition: ir.Binary, holds: bool) -> Reach | None:
        """Returns the lanes behind a comparison of an id with a bound on which they agree, or None."""
        if condition.op not in OPPOSITE:
            return None
        op = condition.op if holds else OPPOSITE[condition.op]
        left, right = condition.left, condition.right
        launch_id = self._id(left)
        if launch_id is None:
            launch_id, right, op = self._id(right), left, _MIRRORED.get(op, op)
        if launch_id is None or self.differs(right) != 0:
            return None
        axis, bound = launch_id.axis, self._constant(right)
        match op:
            case BinaryOp.LT if bound is None:
                return replace(reach, bounded=reach.bounded | 1 << axis)
            case BinaryOp.LE if bound is None:
                return replace(reach, bounded=reach.bounded | 1 << axis)
            case BinaryOp.LT if bound is not None:
                return reach.ending(axis, bound)
            case BinaryOp.LE if bound is not None:
                return reach.ending(axis, bound + 1)
            case BinaryOp.GE if bound is not None:
                return reach.starting(axis, bound)
            case BinaryOp.GT if bound is not None:
                return reach.starting(axis, bound + 1)
            case BinaryOp.NE if bound == 0:
                return reach.starting(axis, 1)
        return None

    def _constant(self, expr: ir.Expr) -> int | None:
        if isinstance(expr, ir.Literal):
            return int(expr.value)
        if isinstance(expr, ir.BufferLength):
            return self._buffers[expr.buffer].count or None
        return None

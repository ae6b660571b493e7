"""Arithmetic of i32, u64 and i64 done in u32, where only its low 32 bits matter or ranges show that it fits.

Compilers compute indices in signed or wide types and cast them at every access.  Sums, products and the like have the
same low bits in every type, so that a cast to u32 of such a value may as well be done on the operands; where the value
lies in 0..2**32-1, divisions, comparisons, indices and wider casts may use u32 too.  The values that are computed from
each other form *groups*: connected locals and expressions.  A group is narrowed if all of it can be without new casts.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from vyre.domain.ir.expr import Binary, Cast, Expr, LaunchId, Literal, Load, Select, Unary, Var, children
from vyre.domain.ir.operators import COMPARISONS, BinaryOp, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import with_children, with_operands
from vyre.domain.ir.stmt import Assign, Body, Let, Loop, Stmt, Store, operands, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.value_table import Value, ValueTable, value_table
from vyre.domain.optimize.walking import Rewriter, is_misplaced_store, walking_pass

_U32: Final = ScalarType.U32
_I32: Final = ScalarType.I32
_BOOL: Final = ScalarType.BOOL
_WIDE: Final = frozenset({ScalarType.I32, ScalarType.U64, ScalarType.I64})
_TOP: Final = 0xFFFF_FFFF
_RING: Final = frozenset(
    {BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.BIT_AND, BinaryOp.BIT_OR, BinaryOp.BIT_XOR}
)
"""Operators of whose results the low bits follow from the low bits of the operands."""
_FITTING: Final = frozenset({BinaryOp.DIV, BinaryOp.MOD, BinaryOp.MIN, BinaryOp.MAX})
"""Operators with the same results in u32 if both operands fit; those of a division by zero differ."""
_SHIFTS: Final = frozenset({BinaryOp.SHL, BinaryOp.SHR})
_RING_UNARY: Final = frozenset({UnaryOp.NEGATE, UnaryOp.BIT_NOT})

_Parts: TypeAlias = tuple[tuple[Expr, bool], ...]
"""Operands, and of each whether only its low 32 bits are wanted, as a u32."""


def _fits(value: Value) -> bool:
    return value.low >= 0 and value.high <= _TOP


def _unwritten(literal: Expr) -> Cast:
    """Returns the value of a u32 literal by an expression, where the rules of the language refuse the literal."""
    return Cast(_U32, literal, loc=literal.loc)


class _Groups:
    """Connected expressions and locals (by identity and by name); groups that cannot or need not be narrowed."""

    def __init__(self) -> None:
        self._parents: dict[int | str, int | str] = {}
        self._bad: set[int | str] = set()
        self._gains: set[int | str] = set()
        self._verdicts: dict[int | str, bool] = {}

    def _root(self, key: int | str) -> int | str:
        parents = self._parents
        parent = parents.setdefault(key, key)
        while parent != key:
            parents[key] = above = parents[parent]
            key, parent = above, parents[above]
        return key

    def join(self, one: int | str, other: int | str) -> None:
        one, other = self._root(one), self._root(other)
        if one != other:
            self._parents[other] = one

    def refuse(self, key: int | str) -> None:
        self._bad.add(key)

    def gain(self, key: int | str) -> None:
        self._gains.add(key)

    def settle(self) -> bool:
        """Decides about all groups; returns whether one of them is narrowed."""
        bad, gains = set(map(self._root, self._bad)), set(map(self._root, self._gains))
        self._verdicts = dict.fromkeys(gains - bad, True)
        return bool(self._verdicts)

    def are_narrowed(self, key: int | str) -> bool:
        return key in self._parents and self._root(key) in self._verdicts


class _Narrowing(Rewriter):
    """Two walks: the first finds the groups as if all could be narrowed, the second writes those that can."""

    def __init__(self, program: Program, counts: Counts) -> None:
        super().__init__(program, counts)
        self._table: ValueTable = value_table(program)
        self._groups = _Groups()
        self._memo: dict[tuple[int, bool], Expr] = {}
        self._seen: set[tuple[int, bool]] = set()
        self._is_settled = False
        self._sources: dict[str, Expr] = {}
        """The u32 values of locals that only convert an id or another local."""
        for stmt in walk_statements(program.body):
            self._examine(stmt)
        self._is_useful = self._groups.settle()
        self._is_settled = True

    def body(self, body: Body) -> Body:
        return super().body(body) if self._is_useful else body

    # ---- the first walk
    def _examine(self, stmt: Stmt) -> None:
        kind = type(stmt)
        if kind is Let:
            self._note_source(stmt)  # type: ignore[arg-type]
        if kind is Let or kind is Assign:
            self._visit_parts(((stmt.value, self._is_wide_local(stmt.name)),))  # type: ignore[union-attr]
            if self._is_wide_local(stmt.name):  # type: ignore[union-attr]
                self._groups.join(id(stmt.value), stmt.name)  # type: ignore[union-attr]
        elif kind is Loop and self._is_wide_local(stmt.var):  # type: ignore[union-attr]
            self._examine_counter(stmt)  # type: ignore[arg-type]
        elif kind is Store:
            self._visit_parts(((stmt.index, self._is_index(stmt.index)), (stmt.value, False)))  # type: ignore[union-attr]
        else:
            self._visit_parts(tuple((operand, False) for operand in operands(stmt)))

    def _examine_counter(self, stmt: Loop) -> None:
        bounds = (stmt.start, stmt.stop, stmt.step)
        values = [self._table.of(bound) for bound in bounds]
        if not all(map(_fits, values)) or values[2].low < 1:
            self._groups.refuse(self._local(stmt.var))
        for bound in bounds:
            self._groups.join(id(bound), stmt.var)
        self._visit_parts(tuple((bound, True) for bound in bounds))

    def _note_source(self, stmt: Let) -> None:
        value = stmt.value
        if type(value) is not Cast or value.dtype not in _WIDE or stmt.name in self._table.assigned:
            return
        source = value.operand
        is_name = type(source) is Var and source.name not in self._table.assigned
        if (is_name or type(source) is LaunchId) and self._table.of(source).dtype is _U32:
            self._sources[stmt.name] = source

    def _is_wide_local(self, name: str) -> bool:
        return name not in self._sources and self._table.locals[name].dtype in _WIDE

    def _local(self, name: str) -> str:
        self._groups.join(name, name)
        return name

    def _visit_parts(self, parts: _Parts) -> None:
        stack = list(parts)
        seen, groups = self._seen, self._groups
        while stack:
            expr, is_low = stack.pop()
            key = (id(expr), is_low)
            if key in seen:
                continue
            seen.add(key)
            if type(expr) is Var:
                self._visit_local(expr, is_low)
                continue
            parts_below = self._low_parts(expr) if is_low else self._parts(expr)
            if parts_below is None:
                groups.join(id(expr), id(expr))
                groups.refuse(id(expr))
                stack.append((expr, False))
                continue
            if is_low:
                groups.join(id(expr), id(expr))
                for part, is_low_part in parts_below:
                    if is_low_part:
                        groups.join(id(expr), id(part))
                self._note_gain(expr)
            stack += parts_below

    def _visit_local(self, expr: Var, is_low: bool) -> None:
        if expr.name in self._sources:
            self._groups.join(id(expr), id(expr))
            self._groups.gain(id(expr))
        elif self._table.locals[expr.name].dtype in _WIDE:
            self._groups.join(id(expr), expr.name)
            if not is_low:
                self._groups.refuse(expr.name)

    def _note_gain(self, expr: Expr) -> None:
        dtype = self._table.of(expr).dtype
        if dtype is not _I32 or type(expr) is Cast:
            self._groups.gain(id(expr))

    # ---- which operands are wanted how; the first walk asks as if every group were narrowed
    def _wants_low(self, expr: Expr) -> bool:
        return not self._is_settled or self._groups.are_narrowed(id(expr))

    def _is_index(self, index: Expr) -> bool:
        value = self._table.of(index)
        return value.dtype in _WIDE and _fits(value) and self._wants_low(index)

    def _parts(self, expr: Expr) -> _Parts:
        """Returns the operands of an expression that keeps its type."""
        kind = type(expr)
        if kind is Cast:
            operand = expr.operand  # type: ignore[union-attr]
            return ((operand, self._is_cast_low(expr.dtype, operand)),)  # type: ignore[union-attr]
        if kind is Binary and expr.op in COMPARISONS:  # type: ignore[union-attr, operator]
            left, right = expr.left, expr.right  # type: ignore[union-attr]
            is_low = self._are_compared_low(left, right)
            return ((left, is_low), (right, is_low))
        if kind is Load:
            return ((expr.index, self._is_index(expr.index)),)  # type: ignore[union-attr]
        return tuple([(operand, False) for operand in children(expr)])

    def _is_cast_low(self, dtype: ScalarType, operand: Expr) -> bool:
        value = self._table.of(operand)
        if value.dtype not in _WIDE or not self._wants_low(operand):
            return False
        if dtype is _U32 or (dtype is _I32 and value.dtype is not _I32):
            return True
        return dtype is not value.dtype and _fits(value)

    def _are_compared_low(self, left: Expr, right: Expr) -> bool:
        one, other = self._table.of(left), self._table.of(right)
        if one.dtype not in _WIDE or not (_fits(one) and _fits(other)):
            return False
        if not self._is_settled:
            self._groups.join(id(left), id(right))
        return self._wants_low(left)

    def _low_parts(self, expr: Expr) -> _Parts | None:
        """Returns the operands of an expression of a wide type whose low bits are wanted; None if they take a cast."""
        match expr:
            case Literal():
                return ()
            case Cast(_, operand):
                dtype = self._table.of(operand).dtype
                return None if dtype.is_float else ((operand, dtype in _WIDE),)
            case Binary(op, left, right) if op in _RING:
                return ((left, True), (right, True))
            case Binary(op, left, right) if op in _FITTING:
                one, other = self._table.of(left), self._table.of(right)
                least = 1 if op is BinaryOp.DIV else 0
                if _fits(one) and _fits(other) and other.low >= least:
                    return ((left, True), (right, True))
            case Binary(op, left, right) if op in _SHIFTS:
                return self._shift_parts(op, left, right)
            case Unary(op, operand) if op in _RING_UNARY:
                return ((operand, True),)
            case Select(condition, on_true, on_false):
                return ((condition, False), (on_true, True), (on_false, True))
        return None

    def _shift_parts(self, op: BinaryOp, left: Expr, right: Expr) -> _Parts | None:
        value, count = self._table.of(left), self._table.of(right)
        if op is BinaryOp.SHR and not _fits(value):
            return None
        if type(right) is Literal:
            bits = right.bits & (value.dtype.bits - 1)
            return ((left, True),) if bits < 32 else None
        return ((left, True), (right, False)) if value.dtype is _I32 and count.dtype is _U32 else None

    # ---- the second walk
    def expression(self, expr: Expr) -> Expr:
        return self._rewritten(expr, False)

    def _rewritten(self, root: Expr, wants_low: bool) -> Expr:
        rewritten = self._memo
        stack = [(root, wants_low)]
        while stack:
            expr, is_low = stack[-1]
            key = (id(expr), is_low)
            if key in rewritten:
                stack.pop()
                continue
            parts: _Parts | None = () if type(expr) is Var else self._low_parts(expr) if is_low else self._parts(expr)
            assert parts is not None, "a group that is narrowed has only expressions that can be"
            waiting = [part for part in parts if (id(part[0]), part[1]) not in rewritten]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            new = [rewritten[id(part), is_low_part] for part, is_low_part in parts]
            rewritten[key] = self._narrowed(expr, new) if is_low else self._kept(expr, parts, new)
        return rewritten[id(root), wants_low]

    def _kept(self, expr: Any, parts: _Parts, new: list[Expr]) -> Expr:
        """Returns an expression of its own type with new operands."""
        if type(expr) is Cast and parts[0][1]:
            if expr.dtype is _U32:
                self.counts["casts dropped"] += 1
                return new[0]
            return Cast(expr.dtype, new[0], loc=expr.loc)
        return with_children(expr, new)

    def _narrowed(self, expr: Expr, new: list[Expr]) -> Expr:
        """Returns the low bits of an expression of a wide type, as a u32."""
        match expr:
            case Literal(_, bits):
                return Literal(_U32, bits & _TOP, loc=expr.loc)
            case Cast(_, operand):
                if self._table.of(operand).dtype is _BOOL:
                    return Cast(_U32, new[0], loc=expr.loc)
                self.counts["casts dropped"] += 1
                return new[0]
            case Binary(op, _, right) if op in _SHIFTS and type(right) is Literal:
                count = Literal(_U32, right.bits & 31, loc=right.loc)
                return Binary(op, new[0], count, loc=expr.loc)
            case Binary():
                self.counts["narrowed"] += 1
                return Binary(expr.op, new[0], new[1], loc=expr.loc)
            case Var():
                return self._source_of(expr)
        narrowed: Expr = with_operands(expr, new)
        return narrowed

    def _source_of(self, local: Var) -> Expr:
        source = self._sources.get(local.name)
        if source is None:
            return local
        self.counts["casts dropped"] += 1
        return source

    def plain(self, stmt: Stmt) -> None:
        rewritten: Any = stmt
        if type(stmt) is Store:
            index = self._rewritten(stmt.index, self._is_index(stmt.index))
            value = self.expression(stmt.value)
            if index is not stmt.index or value is not stmt.value:
                rewritten = Store(stmt.buffer, index, value, loc=stmt.loc)
                if is_misplaced_store(rewritten, self.source):
                    rewritten = Store(stmt.buffer, _unwritten(index), value, loc=stmt.loc)
        elif type(stmt) is Let or type(stmt) is Assign:
            value = self._rewritten(stmt.value, self._groups.are_narrowed(stmt.name))
            if value is not stmt.value:
                rewritten = type(stmt)(stmt.name, value, loc=stmt.loc)
        else:
            rewritten = self.operands(stmt)
        self.out.append(rewritten)

    def visit_let(self, stmt: Let) -> None:
        self.plain(stmt)

    def visit_assign(self, stmt: Assign) -> None:
        self.plain(stmt)

    def visit_loop(self, stmt: Loop) -> None:
        is_low = self._groups.are_narrowed(stmt.var)
        start, stop, step = (self._rewritten(bound, is_low) for bound in operands(stmt))
        body = self.body(stmt.body)
        if not (body is stmt.body and start is stmt.start and stop is stmt.stop and step is stmt.step):
            if type(step) is Literal and step.bits == 0:
                step = _unwritten(step)
            stmt = Loop(stmt.var, start, stop, step, body, loc=stmt.loc)
        self.out.append(stmt)


NARROWING: Final = walking_pass("narrowing", 1, _Narrowing)
"""Does arithmetic of wider and of signed types in u32."""

"""Products of a loop's variable become locals to which each round adds.

``i * c + d``, where ``c`` and ``d`` do not change in the loop, is ``start * c + d`` in the first round, and in each
further one ``step * c`` more: integers are modular, so that this is exact.  A loop gets a local for a product that
every round computes at the top of its body; powers of two stay, since a shift costs as much as a sum.

A product stays where it, or one that is written like it, is part of an index.  The indices of neighbouring lanes and
rounds are compared as sums of products, by passes and by backends that load vectors, and nothing is known about the
distance of two values of a local that is assigned.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final, NamedTuple

from vyre.domain.ir.expr import (
    LEAVES,
    Atomic,
    Binary,
    BufferLength,
    Expr,
    LaunchId,
    Literal,
    Load,
    SpecConst,
    Var,
    children,
)
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import (
    Assign,
    AsyncLoad,
    AsyncStore,
    Block,
    Body,
    GridLoop,
    Let,
    Loop,
    Region,
    Stmt,
    Store,
    bodies,
    operands,
    walk_statements,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.optimize.loop_rounds import rounds_of
from vyre.domain.optimize.passes import Counts, Pass
from vyre.domain.optimize.rebuilding import rewritten_from
from vyre.domain.optimize.sizes import has_room
from vyre.domain.optimize.static_types import StaticTypes
from vyre.domain.optimize.walking import Rewriter, rewritten_by

_MOST: Final = 4
"""The locals that a loop may get; each of them takes a register for as long as the loop runs."""
_Key = tuple[object, ...]
"""What two leaves have in common that have the same value in all rounds of a loop."""
_ADDITIVE: Final = frozenset({BinaryOp.ADD, BinaryOp.SUB})
_FIRST: Final = Literal(ScalarType.U32, 0)


class _Product(NamedTuple):
    """A product of the variable of a loop: its key without the other factor's node, and that node."""

    loop: str
    factor: _Key
    by: Expr


class _Sum(NamedTuple):
    """What a product is added to, or subtracted from; the operator's operands keep their sides."""

    op: BinaryOp
    is_left: bool
    key: _Key
    addend: Expr


class _Found:
    """The occurrences of one product in a program."""

    __slots__ = ("by", "is_in_every_round", "loc", "sums", "uses")

    def __init__(self, product: _Product, expr: Expr) -> None:
        self.by: Expr = product.by
        self.loc = expr.loc
        self.uses: int = 0
        self.is_in_every_round: bool = False
        self.sums: dict[tuple[BinaryOp, bool, _Key], tuple[_Sum, int]] = {}
        """The sums of which it is an operand, by what they add, with their numbers."""

    @property
    def sum(self) -> _Sum | None:
        """The sum that every occurrence is an operand of, None if there are several or others."""
        if len(self.sums) != 1:
            return None
        ((found, count),) = self.sums.values()
        return found if count == self.uses else None


class _Products:
    """The products of loop variables in a program whose locals have names of their own.  Linear in distinct nodes."""

    def __init__(self, program: Program) -> None:
        self.of_loop: dict[str, dict[_Key, _Found]] = {}
        self._parameters = {buffer.name for buffer in program.buffers if buffer.is_push}
        self._clock = 0
        self._spans: dict[str, tuple[int, int]] = {}
        """When the walk over the body of a loop began and ended, by its variable."""
        self._changes: dict[str, list[int]] = {}
        """When the walk met the declaration and the assignments of a local, in order."""
        self._seen: set[int] = set()
        self._waiting: list[tuple[_Product, Expr, Expr | None, str]] = []
        self._examine(program.body)
        for product, expr, above, every in self._waiting:
            self._take(product, expr, above, every)
        for product in self._in_indices(program):
            self.of_loop.get(product.loop, {}).pop(product.factor, None)

    # ---- collecting
    def _examine(self, body: Body) -> None:
        """Walks over a program in its order; does not recurse, since branches may be chained without a limit."""
        pending: list[tuple[Stmt | str, str]] = [(stmt, "") for stmt in reversed(body)]
        while pending:
            stmt, every = pending.pop()  # ``every``: the variable of the loop of which each round runs the statement
            self._clock += 1
            if isinstance(stmt, str):
                self._spans[stmt] = (self._spans[stmt][0], self._clock)
                continue
            for root in operands(stmt):
                self._collect(root, every)
            inner = every if isinstance(stmt, Block | Region) else ""
            if isinstance(stmt, Let | Assign | GridLoop):
                self._changes.setdefault(stmt.name, []).append(self._clock)
            elif isinstance(stmt, Loop):
                inner = stmt.var
                self._spans[inner] = (self._clock, self._clock)
                self._changes.setdefault(inner, []).append(self._clock)
                pending.append((inner, ""))
            for nested in bodies(stmt):
                pending += [(below, inner) for below in reversed(nested)]

    def _collect(self, root: Expr, every: str) -> None:
        pending: list[tuple[Expr, Expr | None]] = [(root, None)]
        while pending:
            node, above = pending.pop()
            product = self.product(node)
            if product is not None:
                self._waiting.append((product, node, above, every))
            if type(node) not in LEAVES and id(node) not in self._seen:
                self._seen.add(id(node))
                pending += [(operand, node) for operand in children(node)]

    def product(self, node: Expr) -> _Product | None:
        """Returns an expression as a product of the variable of an open loop and a leaf, None if it is none."""
        if type(node) is not Binary or node.op is not BinaryOp.MUL:
            return None
        for variable, by in ((node.left, node.right), (node.right, node.left)):
            if type(variable) is Var and variable.name in self._spans:
                key = self.key(by)
                if key is not None and not (type(by) is Literal and by.bits & (by.bits - 1) == 0):
                    return _Product(variable.name, key, by)
        return None

    def key(self, leaf: Expr) -> _Key | None:
        """Returns what tells the value of a leaf within a round; None for other expressions."""
        if type(leaf) is Literal:
            return (Literal, leaf.dtype, leaf.bits)
        if type(leaf) is Var:
            return (Var, leaf.name)
        if type(leaf) is LaunchId:
            return (LaunchId, leaf.kind, leaf.axis)
        if type(leaf) is SpecConst:
            return (SpecConst, leaf.name)
        if type(leaf) is BufferLength:
            return (BufferLength, leaf.buffer)
        if type(leaf) is Load and leaf.buffer in self._parameters and leaf.index == _FIRST:
            return (Load, leaf.buffer)
        return None

    def _take(self, product: _Product, expr: Expr, above: Expr | None, every: str) -> None:
        if not self._is_invariant(product.factor, product.loop):
            return
        table = self.of_loop.setdefault(product.loop, {})
        found = table.get(product.factor)
        if found is None:
            found = table[product.factor] = _Found(product, expr)
        found.uses += 1
        found.is_in_every_round |= every == product.loop
        added = self.sum_of(above, expr)
        if added is not None and self._is_invariant(added.key, product.loop):
            kind = (added.op, added.is_left, added.key)
            found.sums[kind] = (added, found.sums.get(kind, (added, 0))[1] + 1)

    def sum_of(self, node: Expr | None, operand: Expr) -> _Sum | None:
        """Returns a sum or difference of an operand and a leaf; None if it is none."""
        if type(node) is not Binary or node.op not in _ADDITIVE:
            return None
        is_left = node.left is operand
        addend = node.right if is_left else node.left
        key = self.key(addend)
        return None if key is None else _Sum(node.op, is_left, key, addend)

    def _is_invariant(self, key: _Key, loop: str) -> bool:
        if key[0] is not Var:
            return True
        begun, ended = self._spans[loop]
        changes = self._changes[str(key[1])]
        at = bisect_left(changes, begun)
        return changes[0] < begun and (at == len(changes) or changes[at] > ended)

    # ---- indices
    def _in_indices(self, program: Program) -> list[_Product]:
        """Returns the products on which an index depends, through locals, too."""
        values: dict[str, list[Expr]] = {}
        pending: list[Expr] = []
        seen: set[int] = set()
        for stmt in walk_statements(program.body):
            if isinstance(stmt, Let | Assign):
                values.setdefault(stmt.name, []).append(stmt.value)
            elif isinstance(stmt, Loop):
                values.setdefault(stmt.var, []).extend((stmt.start, stmt.step))
            elif isinstance(stmt, Store):
                pending.append(stmt.index)
            elif isinstance(stmt, AsyncLoad | AsyncStore):
                pending += [stmt.offset, stmt.size]
            roots = list(operands(stmt))
            while roots:
                node = roots.pop()
                if id(node) in seen:
                    continue
                seen.add(id(node))
                if isinstance(node, Load | Atomic):
                    pending.append(node.index)
                roots += children(node)
        return [product for node in self._below(pending, values) if (product := self.product(node)) is not None]

    def _below(self, pending: list[Expr], values: dict[str, list[Expr]]) -> list[Expr]:
        found: list[Expr] = []
        seen: set[int] = set()
        while pending:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            found.append(node)
            pending += values.pop(node.name, []) if type(node) is Var else children(node)
        return found


class _Induction(Rewriter):
    def __init__(self, program: Program, counts: Counts) -> None:
        super().__init__(program, counts)
        self._products = _Products(program) if has_room(program) else None
        self._types = StaticTypes(program)
        self._stands_for: dict[tuple[str, _Key], tuple[str, _Sum | None]] = {}
        """The local of a product in the current round, and the sum that it includes."""
        self._made: dict[int, Expr] = {}
        self._names = UniqueNames()
        for stmt in walk_statements(program.body):
            if isinstance(stmt, Let | GridLoop):
                self._names.reserve(stmt.name)
            elif isinstance(stmt, Loop):
                self._names.reserve(stmt.var)
        for buffer in program.buffers:
            self._names.reserve(buffer.name)

    def expression(self, expr: Expr) -> Expr:
        return rewritten_from(expr, self._replaced, self._made) if self._stands_for else expr

    def _replaced(self, old: Any, new: Any) -> Expr:
        if type(old) is not Binary:
            return new  # type: ignore[no-any-return]
        assert self._products is not None
        if old.op in _ADDITIVE:
            for operand in (old.left, old.right):
                local, added = self._local_of(operand)
                if local and added is not None:
                    return self._read(local, old)
            return new  # type: ignore[no-any-return]
        local, added = self._local_of(old)
        return self._read(local, old) if local and added is None else new

    def _local_of(self, node: Expr) -> tuple[str, _Sum | None]:
        assert self._products is not None
        product = self._products.product(node)
        return ("", None) if product is None else self._stands_for.get((product.loop, product.factor), ("", None))

    def _read(self, local: str, old: Expr) -> Expr:
        self.counts["products"] += 1
        return Var(local, loc=old.loc)

    def visit_let(self, stmt: Let) -> None:
        self._types.declare(stmt.name, self._types.of(stmt.value))
        self.plain(stmt)

    def visit_grid_loop(self, stmt: GridLoop) -> None:
        self._types.declare(stmt.name, ScalarType.U32)
        super().visit_grid_loop(stmt)

    def visit_loop(self, stmt: Loop) -> None:
        dtype = self._types.of(stmt.start)
        self._types.declare(stmt.var, dtype)
        made: Any = self.legal(stmt, self.operands(stmt))
        chosen = self._chosen(stmt)
        first: list[Stmt] = []
        start = made.start
        if chosen and type(start) not in LEAVES:
            name = self._names.unique("first")
            self.out.append(Let(name, start, loc=start.loc))
            start = Var(name, loc=start.loc)
        for factor, found in chosen:
            first += self._added_to(stmt, dtype, start, factor, found)
        self._made = {}
        body = self.body(stmt.body)
        self._made = {}
        if body is stmt.body and not first:
            self.out.append(made)
            return
        self.out.append(Loop(made.var, start, made.stop, made.step, (*first, *body), loc=made.loc))

    def _chosen(self, stmt: Loop) -> list[tuple[_Key, _Found]]:
        rounds = rounds_of(stmt)
        if self._products is None or (rounds is not None and rounds < 2) or type(stmt.step) not in LEAVES:
            return []
        table = self._products.of_loop.get(stmt.var, {})
        return [(factor, found) for factor, found in table.items() if found.is_in_every_round][:_MOST]

    def _added_to(self, loop: Loop, dtype: ScalarType, start: Expr, factor: _Key, found: _Found) -> list[Stmt]:
        """Declares the local of a product before a loop; returns the statements with which each round begins."""
        self.counts["variables"] += 1
        name, now = self._names.unique("induction"), self._names.unique("product")
        added, loc = found.sum, found.loc
        value = _product(dtype, start, found.by)
        if added is not None:
            left, right = (value, added.addend) if added.is_left else (added.addend, value)
            value = Binary(added.op, left, right, loc=loc)
        self.out.append(Let(name, value, loc=loc))
        by = _product(dtype, loop.step, found.by)
        if type(by) is not Literal:
            changed = self._names.unique("change")
            self.out.append(Let(changed, by, loc=loc))
            by = Var(changed, loc=loc)
        is_subtracted = added is not None and added.op is BinaryOp.SUB and not added.is_left
        op = BinaryOp.SUB if is_subtracted else BinaryOp.ADD
        self._stands_for[loop.var, factor] = (now, added)
        following = Binary(op, Var(name, loc=loc), by, loc=loc)
        return [Let(now, Var(name, loc=loc), loc=loc), Assign(name, following, loc=loc)]


def _product(dtype: ScalarType, left: Expr, right: Expr) -> Expr:
    """Returns a product, which is a literal if both factors are."""
    if type(left) is Literal and type(right) is Literal:
        return Literal(dtype, left.bits * right.bits & (1 << dtype.bits) - 1, loc=right.loc)
    return Binary(BinaryOp.MUL, left, right, loc=right.loc)


def _run(program: Program, counts: Counts) -> Program:
    return rewritten_by(_Induction, program, counts)


INDUCTION: Final = Pass("induction", 1, _run)
"""Adds to a local in each round of a loop where a product of the loop's variable was computed."""

"""Whether the results of a step program can depend on the order in which a queue hands out its items.

The place of an item in a queue, and the places that a lane reserves, differ from run to run on a device whose lanes
run in any order.  They may decide where an item lies in the queue, and nothing else.  The old value of an atomic on
other memory may be tested: it says who came first, such as which of two lanes has reached a node.  It is not a value
to keep.  What the tests cannot see is left to the program: that all lanes which may come first store the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from vyre.domain.ir.buffers import Access
from vyre.domain.ir.expr import Atomic, Binary, BufferLength, Expr, Literal, Load, SpecConst, Var, children
from vyre.domain.ir.operators import MERGEABLE, AtomicOp, BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Assign, Body, If, Let, Loop, Stmt, Store, Switch, bodies, operands, walk_statements
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.work_queues.roles import CannotDrain, QueueRoles, is_item_number, item_numbers

_COMPARISONS: Final = (BinaryOp.LT, BinaryOp.GT, BinaryOp.LE, BinaryOp.GE)
_JUNCTIONS: Final = (BinaryOp.AND, BinaryOp.OR)
_UNORDERED: Final = MERGEABLE | {AtomicOp.EXCHANGE, AtomicOp.COMPARE_EXCHANGE}
_KEEP: Final = "let the result depend on the values of the items alone, not on their places in the queue."


def order_obstacle(program: Program, roles: QueueRoles) -> CannotDrain | None:
    """Returns why results would depend on the order of the items, or None where nothing shows that.

    The program fulfils ``obstacle``.  O(nodes times locals) at most.
    """
    return next(_Order(program, roles).found(), None)


def written_loads(program: Program, roles: QueueRoles) -> CannotDrain | None:
    """Returns a load that would show which items of a ring ran before, or None.

    Any two items of a ring may run in either order, and side by side, so memory that the program writes may only be
    updated, by stores and by atomics, and not be loaded.
    """
    queue = (roles.items, roles.pushed, roles.count)
    written = {buffer.name for buffer in program.buffers if buffer.access is Access.READ_WRITE} - {*queue}
    for stmt in walk_statements(program.body):
        for node in unique_nodes(operands(stmt)):
            if isinstance(node, Load) and node.buffer in written:
                return CannotDrain(
                    f"it loads `{node.buffer}`, which it also writes: results would depend on which items ran before",
                    'give the item what it needs, or use the queue in phases (discipline="phased"), where an item '
                    "sees what earlier phases have stored.",
                )
    return None


@dataclass(slots=True)
class _Locals:
    """The locals whose values are made from places in the queue, from old values of atomics, or from the item."""

    places: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)
    items: set[str] = field(default_factory=set)

    @property
    def size(self) -> int:
        """Returns the number of entries."""
        return len(self.places) + len(self.claims) + len(self.items)


class _Order:
    def __init__(self, program: Program, roles: QueueRoles) -> None:
        self._program, self._roles = program, roles
        self._numbers = item_numbers(program)
        self._parameters = {buffer.name for buffer in program.buffers if buffer.is_push}
        self._locals = _Locals()

    def found(self) -> Iterator[CannotDrain]:
        """Yields what depends on the order."""
        known, before = self._locals, -1
        while known.size != before:
            before = known.size
            for stmt in walk_statements(self._program.body):
                if isinstance(stmt, Let | Assign):
                    for names, test in (
                        (known.places, self._has_place),
                        (known.claims, self._has_claim),
                        (known.items, self._has_item),
                    ):
                        if test(stmt.value):
                            names.add(stmt.name)
        yield from self._body(self._program.body, claimed=False)

    # ---------------------------------------------------------------- statements
    def _body(self, body: Body, *, claimed: bool) -> Iterator[CannotDrain]:
        """``claimed``: the body runs where an old value of an atomic says so."""
        stack: list[tuple[Stmt, bool]] = [(stmt, claimed) for stmt in body]
        while stack:
            stmt, under = stack.pop()
            if isinstance(stmt, If | Switch | Loop):
                conditions = operands(stmt)
                yield from self._conditions(conditions)
                under = under or any(map(self._has_claim, conditions))
            elif isinstance(stmt, Store):
                yield from self._store(stmt, claimed=under)
            for node in unique_nodes(operands(stmt)):
                if isinstance(node, Atomic):
                    yield from self._atomic(node)
            stack += [(inner, under) for nested in bodies(stmt) for inner in nested]

    def _conditions(self, conditions: Iterable[Expr]) -> Iterator[CannotDrain]:
        stack = list(conditions)
        while stack:
            condition = stack.pop()
            if isinstance(condition, Binary) and condition.op in _JUNCTIONS:
                stack += (condition.left, condition.right)
            elif self._has_place(condition) and not self._is_guard(condition):
                yield CannotDrain("a condition depends on the place of an item in the queue", _KEEP)

    def _is_guard(self, condition: Expr) -> bool:
        """Returns whether the condition only asks whether there is such an item, or such a place."""
        if not isinstance(condition, Binary) or condition.op not in _COMPARISONS:
            return False
        for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
            if isinstance(other, BufferLength) and other.buffer == self._roles.items:
                return is_item_number(one) or (isinstance(one, Var) and one.name in self._numbers)
            if isinstance(other, BufferLength) and other.buffer == self._roles.pushed:
                return True
        return False

    def _store(self, stmt: Store, *, claimed: bool) -> Iterator[CannotDrain]:
        to = stmt.buffer
        is_push = to == self._roles.pushed
        if self._has_place(stmt.value) or (not is_push and self._has_place(stmt.index)):
            yield CannotDrain(f"a store to `{to}` depends on the place of an item in the queue", _KEEP)
        if self._has_claim(stmt.value) or (not is_push and self._has_claim(stmt.index)):
            yield CannotDrain(
                f"a store to `{to}` depends on the old value of an atomic",
                "test the old value, and store what does not depend on who came first.",
            )
        if claimed and not is_push and self._has_item(stmt.value):
            yield CannotDrain(
                f"the item that comes first stores itself to `{to}`",
                "store what all items that may come first agree on, or keep the least with atomic_min.",
            )

    def _atomic(self, node: Atomic) -> Iterator[CannotDrain]:
        """The parts of an atomic are those of a store, and some operators keep the last of their operands."""
        to, parts = node.buffer, [node.index, node.value]
        if node.expected is not None:
            parts.append(node.expected)
        if any(map(self._has_place, parts)):
            yield CannotDrain(f"an atomic on `{to}` depends on the place of an item in the queue", _KEEP)
        if any(map(self._has_claim, parts)):
            yield CannotDrain(f"an atomic on `{to}` depends on the old value of another one", _KEEP)
        last = node.op is AtomicOp.EXCHANGE and not self._is_fixed(node.value)
        if last or node.op not in _UNORDERED:
            yield CannotDrain(
                f"an atomic on `{to}` leaves what came last", "use an atomic whose operands may come in any order."
            )

    # ---------------------------------------------------------------- values
    def _is_fixed(self, value: Expr) -> bool:
        """Returns whether a value is the same for all items."""
        return all(
            isinstance(node, Literal | SpecConst | Binary)
            or (isinstance(node, Load) and node.buffer in self._parameters)
            for node in unique_nodes((value,))
        )

    def _has_place(self, value: Expr) -> bool:
        queue = (self._roles.items, self._roles.pushed)
        for node in self._nodes(value):
            if is_item_number(node) or (isinstance(node, Var) and node.name in self._locals.places):
                return True
            if isinstance(node, BufferLength) and node.buffer in queue:
                return True
            if isinstance(node, Atomic) and node.buffer == self._roles.count:
                return True
        return False

    def _has_claim(self, value: Expr) -> bool:
        for node in unique_nodes((value,)):
            if isinstance(node, Var) and node.name in self._locals.claims:
                return True
            if isinstance(node, Atomic) and node.buffer != self._roles.count:
                return True
        return False

    def _has_item(self, value: Expr) -> bool:
        """Returns whether a value is computed from the item itself, not loaded with it."""
        return any(
            (isinstance(node, Load) and node.buffer == self._roles.items)
            or (isinstance(node, Var) and node.name in self._locals.items)
            for node in self._nodes(value, loads=False)
        )

    def _nodes(self, value: Expr, *, loads: bool = True) -> Iterator[Expr]:
        """Yields the nodes of a value, without those that choose an item, or without those of all indices."""
        stack = [value]
        while stack:
            node = stack.pop()
            yield node
            if not isinstance(node, Load) or (loads and node.buffer != self._roles.items):
                stack += children(node)

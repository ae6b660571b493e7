"""Statements: a closed union of frozen nodes. Bodies are tuples and open a scope of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, get_args

from vyre.domain.ir import forms
from vyre.domain.ir.expr import Expr, Literal
from vyre.domain.ir.forms import node
from vyre.domain.ir.node import Node, misplaced
from vyre.domain.ir.operators import Ordering


@node
class Let(Node):
    """Declares a local in the current scope; its type is the value's."""

    name: str
    value: Expr


@node
class Assign(Node):
    """Overwrites a visible local of the same type."""

    name: str
    value: Expr


@node
class Store(Node):
    """Writes one element, index evaluated first; dropped when out of range."""

    buffer: str
    index: Expr
    value: Expr


@node
class If(Node):
    """Runs ``then`` where ``condition`` (bool) holds and ``otherwise`` where it does not; ``then`` runs first.

    An ``if`` that is the only statement of ``otherwise`` is the next link of a chain (``else if``) and adds no depth.
    """

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@node
class Arm(Node):
    """One arm of a ``Switch``: the body for the selector's values ``labels``."""

    labels: tuple[Literal, ...]
    body: tuple[Stmt, ...]


@node
class Switch(Node):
    """Runs the body of the arm with the value of ``selector`` (any integer type) among its labels, else ``default``.

    The selector is evaluated once.  The bodies of the arms run in order, each for its lanes, then ``default``.
    """

    selector: Expr
    arms: tuple[Arm, ...]
    default: tuple[Stmt, ...] = ()


@node
class Loop(Node):
    """``for var in start .. stop step step``: the bounds are read once; ``var`` is immutable in the body.

    The bounds have one integer type, which ``var`` takes; with a negative step it counts down while above ``stop``.
    """

    var: str
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]


@node
class GridLoop(Node):
    """``let name = grid_loop(limit, flag) {...}``: all lanes of the grid run the rounds of ``body`` together.

    ``limit`` (u32, the same in the whole grid) bounds the number of rounds.  Element 0 of the u32 buffer ``flag`` is 0
    when a round starts; the loop ends after a round that leaves it 0.  Grid barriers stand before the first round and
    after each one.  ``name`` is declared behind the loop, in the scope around it: the number of rounds run (u32).
    """

    name: str
    limit: Expr
    flag: str
    body: tuple[Stmt, ...]


@node
class Break(Node):
    """Leaves the innermost loop."""


@node
class Continue(Node):
    """Continues with the next iteration of the innermost loop."""


@node
class Return(Node):
    """Ends the lane."""


@node
class Block(Node):
    """A scope."""

    body: tuple[Stmt, ...]


@node
class Region(Node):
    """A scope with a provenance label and the meaning of ``Block``."""

    generator: str
    body: tuple[Stmt, ...]
    source: str | None = None


@node
class Barrier(Node):
    """All lanes of the workgroup (GRID_SYNC: of the grid) wait; earlier writes become visible."""

    ordering: Ordering = Ordering.SEQ_CST


@node
class AsyncLoad(Node):
    """Captures ``size`` bytes of ``source`` from byte ``offset`` now (zeros past the end); the wait writes them to
    ``destination`` from byte 0, clipped.  Per lane.
    """

    source: str
    destination: str
    offset: Expr
    size: Expr
    tag: str


@node
class AsyncStore(Node):
    """Captures the first ``size`` bytes of ``source`` now; the wait writes them to ``destination`` from byte
    ``offset``, clipped.  Per lane.
    """

    source: str
    destination: str
    offset: Expr
    size: Expr
    tag: str


@node
class AsyncWait(Node):
    """Performs the write of the copy that was issued under ``tag``."""

    tag: str


@node
class Trap(Node):
    """Ends the lane and fails the dispatch with ``address`` (u32) and ``tag``."""

    address: Expr
    tag: str


@node
class IndirectDispatch(Node):
    """Requests a grid read from three u32 at byte ``offset`` of a buffer; no backend runs it."""

    buffer: str
    offset: int


Stmt: TypeAlias = (
    Let
    | Assign
    | Store
    | If
    | Switch
    | Loop
    | GridLoop
    | Break
    | Continue
    | Return
    | Block
    | Region
    | Barrier
    | AsyncLoad
    | AsyncStore
    | AsyncWait
    | Trap
    | IndirectDispatch
)
"""Any statement node."""
Body: TypeAlias = tuple[Stmt, ...]
"""Statements in program order."""

STMT_TYPES: Final[tuple[type[Node], ...]] = get_args(Stmt)
"""The fields that hold expressions, in evaluation order, by the type of a statement."""
OPERANDS: Final = {cls: forms.OPERANDS[cls].of for cls in STMT_TYPES}
"""Functions from a statement to the expressions that it evaluates itself, by its type."""


def _switch_bodies(stmt: Switch) -> tuple[Body, ...]:
    return (*(_checked_arm(arm).body for arm in stmt.arms), stmt.default)


def _checked_arm(arm: Arm) -> Arm:
    if type(arm) is not Arm:
        raise misplaced(arm, "an arm of `switch`", "Arm((Literal.of(ScalarType.U32, 1),), ())")
    return arm


_BODIES: Final[dict[type[Node], Callable[[Any], tuple[Body, ...]]]] = {
    **{cls: forms.BODIES[cls].of for cls in STMT_TYPES},
    Switch: _switch_bodies,
}
ENDING: Final[frozenset[type[Node]]] = frozenset({Return, Trap})
"""The statements that end a lane."""
LEAVING: Final = ENDING | {Break, Continue}
"""The statements after which a lane runs no other one of their body."""
WITH_BODIES: Final = frozenset([cls for cls in STMT_TYPES if forms.BODIES[cls].names])
"""The types of statements that have bodies."""


def operands(stmt: Stmt) -> tuple[Expr, ...]:
    """Returns the expressions that the statement itself evaluates, in evaluation order (not those of nested bodies).

    Raises ``InvalidProgram`` for what is no statement.
    """
    try:
        return OPERANDS[type(stmt)](stmt)
    except KeyError:
        raise misplaced(stmt, "a statement", "Return()") from None


def bodies(stmt: Stmt) -> tuple[Body, ...]:
    """Returns the nested statement lists, in program order; raises ``InvalidProgram`` for what is no statement.

    Those of a ``Switch`` are the bodies of its arms, then its default.
    """
    try:
        return _BODIES[type(stmt)](stmt)
    except KeyError:
        raise misplaced(stmt, "a statement", "Return()") from None


def walk_statements(body: Body) -> Iterator[Stmt]:
    """Yields every statement in preorder, that is in program order; does not recurse."""
    stack: list[Stmt] = list(reversed(body))
    while stack:
        stmt = stack.pop()
        yield stmt
        if type(stmt) in WITH_BODIES:
            for nested in reversed(bodies(stmt)):
                stack.extend(reversed(nested))


def literal_rounds(loop: Loop) -> int | None:
    """Returns the rounds that the bounds of a loop make; None unless they are literals, and the step is not 0."""
    start, stop, step = loop.start, loop.stop, loop.step
    if not (isinstance(start, Literal) and isinstance(stop, Literal) and isinstance(step, Literal) and step.value):
        return None
    return max(-int((start.value - stop.value) // step.value), 0)


def own_size(stmt: Stmt) -> int:
    """Returns the number of nodes that a statement adds besides its operands and the statements in its bodies.

    It is 1; the arms of a ``Switch`` and their labels count as well.  Raises ``InvalidProgram`` for what is no arm.
    """
    if type(stmt) is not Switch:
        return 1
    return 1 + sum(1 + len(arm.labels) for arm in map(_checked_arm, stmt.arms))


def nested(stmt: Stmt, depth: int) -> tuple[tuple[Body, int], ...]:
    """Returns the nested statement lists with the number of bodies around each, for a statement that has ``depth``.

    The next link of a chain of ``else if`` is no deeper than the first one.
    """
    inner = bodies(stmt)
    if type(stmt) is If and is_chained(stmt.otherwise):
        return (inner[0], depth + 1), (inner[1], depth)
    return tuple((body, depth + 1) for body in inner)


def is_chained(otherwise: Body) -> bool:
    """Returns whether the ``otherwise`` of an ``if`` is the next link of a chain: a single ``if``."""
    return len(otherwise) == 1 and type(otherwise[0]) is If


def if_chain(first: If) -> tuple[tuple[If, ...], Body]:
    """Returns the links of the chain of ``else if`` that starts with a statement, and the last ``otherwise``.

    A lane evaluates the condition of a link if those of all earlier links were false for it.  Algorithms that visit
    bodies recursively visit the links in a loop, because a chain may have any number of them.
    """
    links, stmt = [first], first
    while is_chained(stmt.otherwise):
        following = stmt.otherwise[0]
        assert type(following) is If
        stmt = following
        links.append(stmt)
    return tuple(links), stmt.otherwise

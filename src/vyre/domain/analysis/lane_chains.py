"""Chains of operations that a lane does one after the other, which decide how many lanes are worth doing at once.

A loop that computes a local from its value of the round before is such a chain, and so is a transcendental function.  A
processor that could start several operations in each cycle waits for each link of a chain, unless it has other lanes to
go on with.  Loops whose numbers of rounds are data, such as the lengths of the rows of a sparse matrix, speak against
many lanes, for a vector goes round as often as the lane that has most rounds, unless most of the work of such a loop
can be done before its rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vyre.domain.analysis.loop_windows import loop_window
from vyre.domain.analysis.uniformity import Uniformity, uniformity
from vyre.domain.ir.expr import Atomic, Cast, Expr, LaunchId, Literal, Load, SubgroupLane, Unary, Var
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import TRANSCENDENTALS
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.stmt import Assign, AsyncLoad, AsyncStore, Body, Let, Loop, Stmt, Store, bodies, operands
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.record import U32, record

_WORD_BITS: Final = 32


@record
class LaneChains:
    """The chains of a program.

    - ``carried_words``: the most words of 32 bits that a lane carries from round to round of any one loop, loops around
      it not counted; 0 if every round starts anew.  Locals count as two words each where the program has values of 64
      bits.
    - ``functions``: whether the program has transcendental functions.
    - ``ragged_loops``: whether lanes that reach a loop together read bounds from memory that may differ between them.
    - ``loops_access_memory``: whether a statement in a loop reads or writes memory that lanes share, one load
      of the same element by all of them aside.
    - ``scattered``: whether such a statement in a loop does so at an index that comes from memory, so that neighbouring
      lanes access elements that do not lie side by side.
    - ``windowed``: whether all loops with such bounds or such accesses, of which there is one, can compute what they
      read before their rounds, in the order of memory (see ``loop_windows``).
    """

    carried_words: U32 = 0
    functions: bool = False
    ragged_loops: bool = False
    loops_access_memory: bool = False
    scattered: bool = False
    windowed: bool = False


_UNCHAINED: Final = LaneChains()


@kept_with_program("lane_chains")
def lane_chains(program: Program) -> LaneChains:
    """Returns the chains of a valid program; cached on it.  Linear in its nodes, times the depth of its loops."""
    facts = node_facts(program)
    if Loop in facts.types:
        return _chains(program)
    # Without a loop, nothing is carried.
    return _UNCHAINED if TRANSCENDENTALS.isdisjoint(facts.unary) else LaneChains(functions=True)


class _Loop:
    """A loop: the locals declared in a round, and those that a round takes over from the one before."""

    __slots__ = ("carried", "declared", "stmt")

    def __init__(self, stmt: Loop) -> None:
        self.stmt: Final = stmt
        self.carried: Final[set[str]] = set()
        self.declared: Final[set[str]] = set()


def _chains(program: Program) -> LaneChains:
    loops: list[_Loop] = []
    seen: set[int] = set()
    functions = False
    wide = any(_is_wide(buffer.element) for buffer in program.buffers)
    from_memory: set[str] = set()
    ragged: list[Loop] = []
    shared = {buffer.name for buffer in program.buffers if not buffer.is_private}
    accessed = False
    scattered: list[Loop] = []
    places: set[str] = set()
    for stmt, around in _statements(program.body, loops):
        roots = operands(stmt)
        accessed = accessed or (bool(around) and _accesses_memory(stmt, shared))
        if around and _is_scattered(stmt, shared, places):
            scattered.append(around[-1].stmt)
        if isinstance(stmt, Let | Assign) and _reads_memory(roots, places):
            places.add(stmt.name)
        elif isinstance(stmt, Loop) and _reads_memory((stmt.start, stmt.step), places):
            places.add(stmt.var)
        for node in unique_nodes(roots, seen):
            functions |= isinstance(node, Unary) and node.op in TRANSCENDENTALS
            wide |= isinstance(node, Cast | Literal) and _is_wide(node.dtype)
        if isinstance(stmt, Let | Assign):
            if _reads_memory(roots, from_memory):
                from_memory.add(stmt.name)
            if around and isinstance(stmt, Let):
                around[-1].declared.add(stmt.name)
            elif isinstance(stmt, Assign):
                for loop in reversed(around):
                    if stmt.name in loop.declared:
                        break
                    loop.carried.add(stmt.name)
        elif isinstance(stmt, Loop) and _reads_memory(roots, from_memory):
            ragged.append(stmt)
    carried = max((len(loop.carried) for loop in loops), default=0)
    facts = uniformity(program) if ragged else None
    return LaneChains(
        carried_words=carried * 2 if wide else carried,
        functions=functions,
        ragged_loops=facts is not None and any(facts.condition(loop) is Uniformity.LANE for loop in ragged),
        loops_access_memory=accessed,
        scattered=bool(scattered),
        windowed=bool(ragged) and _are_windowed(program, ragged, scattered),
    )


def _are_windowed(program: Program, ragged: list[Loop], scattered: list[Loop]) -> bool:
    """Returns whether all of these loops can compute what they read before their rounds.

    That is for lanes that each start at a place of their own: one that only ends there reads what the others read.
    """
    buffers, starts = program.buffers_by_name, {id(loop) for loop in ragged if _may_vary(loop.start)}
    loops = {id(loop): loop for loop in (*ragged, *scattered)}
    return loops.keys() <= starts and all(loop_window(loop, buffers) is not None for loop in loops.values())


def _is_wide(dtype: object) -> bool:
    return isinstance(dtype, ScalarType) and dtype.bits > _WORD_BITS


def _statements(body: Body, loops: list[_Loop]) -> Iterator[tuple[Stmt, tuple[_Loop, ...]]]:
    """Yields every statement in program order with the loops around it, outermost first; fills ``loops``."""
    pending: list[tuple[Stmt, tuple[_Loop, ...]]] = [(stmt, ()) for stmt in reversed(body)]
    while pending:
        stmt, around = pending.pop()
        yield stmt, around
        if isinstance(stmt, Loop):
            loops.append(_Loop(stmt))
            around = (*around, loops[-1])
        for nested in reversed(bodies(stmt)):
            pending += [(inner, around) for inner in reversed(nested)]


def _reads_memory(roots: tuple[Expr, ...], from_memory: set[str]) -> bool:
    """Returns whether lanes may get different values from memory: by an atomic, or a load at an index that varies.

    ``from_memory`` has the locals that hold such values.
    """
    for node in unique_nodes(roots):
        if isinstance(node, Atomic) or (isinstance(node, Var) and node.name in from_memory):
            return True
        if isinstance(node, Load) and _may_vary(node.index):
            return True
    return False


def _accesses_memory(stmt: Stmt, shared: set[str]) -> bool:
    """Returns whether a statement itself accesses one of these buffers otherwise than by loads of one element."""
    if isinstance(stmt, AsyncLoad | AsyncStore) or (isinstance(stmt, Store) and stmt.buffer in shared):
        return True
    return any(
        isinstance(node, Atomic) or (isinstance(node, Load) and node.buffer in shared and _may_vary(node.index))
        for node in unique_nodes(operands(stmt))
    )


def _is_scattered(stmt: Stmt, shared: set[str], places: set[str]) -> bool:
    """Returns whether a statement itself accesses one of these buffers at an index that comes from memory.

    ``places`` has the locals that hold such numbers.
    """
    nodes = unique_nodes(operands(stmt))
    accesses = [n for n in nodes if isinstance(n, Atomic) or (isinstance(n, Load) and n.buffer in shared)]
    indices = [access.index for access in accesses]
    if isinstance(stmt, Store) and stmt.buffer in shared:
        indices.append(stmt.index)
    return any(_reads_memory((index,), places) for index in indices)


def _may_vary(index: Expr) -> bool:
    """Returns whether an index may differ between lanes, as far as its form tells."""
    return any(isinstance(part, Var | LaunchId | SubgroupLane | Load | Atomic) for part in unique_nodes((index,)))

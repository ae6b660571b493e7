"""Workgroup buffers that must be filled with zeros when a workgroup starts.

The language promises zeros.  They cannot be observed where every read comes after a barrier before which the lanes
together stored every element, in flow that all lanes of the workgroup share; most often each lane stores its own
slot.  Stores never need the zeros.  That lanes reach a barrier together is a rule of the language, so a store before
a barrier, in its body or around it, was executed by all of them.

Recognised as covering: ``b[e]`` where ``e`` is a mixed-radix number over the local ids (``x``, ``y * X + x``, ...)
plus a literal, also with the variable of a loop of literal bounds as a digit; ``for i in local..literal`` with a
literal step of at most as many lanes.  Several stores may cover a buffer together.  Linear in the program.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from vyre.domain.analysis.bounds_checks import BoundsFacts
from vyre.domain.analysis.index_flow import Bounds, IndexFlow
from vyre.domain.analysis.index_values import Atom, Value
from vyre.domain.ir.expr import Expr
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import (
    Assign,
    AsyncLoad,
    AsyncStore,
    Barrier,
    Block,
    Body,
    If,
    Let,
    Loop,
    Region,
    Return,
    Stmt,
    Store,
    Trap,
    operands,
)

_Ranges: TypeAlias = dict[str, tuple[tuple[int, int], ...]]
"""Ranges start..end-1 of elements by buffer; every lane has stored its part of them."""


def needs_zeroing(program: Program, bounds: BoundsFacts) -> frozenset[str]:
    """Returns the names of the workgroup buffers to zero; ``bounds`` are the facts of the same program."""
    counts = {buffer.name: buffer.count for buffer in program.buffers if buffer.is_workgroup}
    if not counts:
        return frozenset()
    return frozenset(_Walk(program, counts, bounds.flow).exposed)


class _Walk:
    """Collects in ``exposed`` the buffers of which an element may be read before it was stored."""

    def __init__(self, program: Program, counts: dict[str, int], flow: IndexFlow) -> None:
        self._counts = counts
        self._flow = flow
        self._digits: dict[Atom, int] = {
            value.atom: value.high + 1 for value in flow.local_ids.values() if value.atom is not None
        }
        """Atoms that take all values from 0 to below a number, in all combinations."""
        self.exposed: set[str] = set()
        self._body(program.body, set(), {})

    def _body(self, body: Body, written: set[str], stored: _Ranges) -> bool:
        """Walks a body and returns whether its end is reached; extends ``written`` and ``stored``."""
        for stmt in body:
            if isinstance(stmt, Let | Assign):
                self._exposed_in(stmt.value, written)
                continue
            self._reads(stmt, written)
            match stmt:
                case Store():
                    self._store(stmt, stored, None)
                case Barrier():
                    written.update(name for name, ranges in stored.items() if self._is_all(name, ranges))
                case Block(inner) | Region(_, inner):
                    if not self._body(inner, written, stored):
                        return False
                case If():
                    if not self._branches(stmt, written, stored):
                        return False
                case Loop():
                    self._body(stmt.body, set(written), dict(stored))  # the body may not run at all
                    self._fill(stmt, stored)
                case _ if type(stmt) in _ENDS:
                    return False
        return True

    def _branches(self, stmt: If, written: set[str], stored: _Ranges) -> bool:
        ends = []
        for branch in (stmt.then, stmt.otherwise):
            there = set(written)
            if self._body(branch, there, dict(stored)):
                ends.append(there)
        if ends:
            written |= set.intersection(*ends)
        return bool(ends)

    def _reads(self, stmt: Stmt, written: set[str]) -> None:
        for root in operands(stmt):
            self._exposed_in(root, written)
        if isinstance(stmt, AsyncLoad | AsyncStore) and stmt.source in self._counts and stmt.source not in written:
            self.exposed.add(stmt.source)

    def _exposed_in(self, root: Expr, written: set[str]) -> None:
        scan = self._flow.scans.get(id(root))
        if scan is not None:
            self.exposed.update(a.buffer for a in scan[0] if a.buffer in self._counts and a.buffer not in written)

    # ---- elements that stores cover
    def _store(self, stmt: Store, stored: _Ranges, loop: Bounds | None) -> None:
        index = self._flow.indices.get(id(stmt)) if stmt.buffer in self._counts else None
        covered = None if index is None else self._covered(index, loop)
        if covered is not None:
            stored[stmt.buffer] = (*stored.get(stmt.buffer, ()), covered)

    def _covered(self, index: Value, loop: Bounds | None) -> tuple[int, int] | None:
        """Returns the elements that an index takes, over all lanes and all iterations of the enclosing loop."""
        digits = self._digits
        if loop is not None:
            if index.form is loop.counter.form and loop.step.is_constant and loop.stop.is_constant:
                first = self._covered(loop.start, None)
                if first is not None and first[1] - first[0] >= loop.step.constant > 0:
                    offset = index.constant - loop.counter.constant
                    return first[0] + offset, max(loop.stop.constant, first[0]) + offset
            rounds = _rounds(loop)
            if rounds is None:
                return None
            digits = digits | rounds
        size = 1
        for atom, factor in sorted(index.form.terms, key=_factor):
            if factor != size or atom not in digits:
                return None
            size *= digits[atom]
        return index.constant, index.constant + size

    def _fill(self, stmt: Loop, stored: _Ranges) -> None:
        """Handles a loop of stores only, all iterations of which are run."""
        loop = self._flow.loops.get(id(stmt))
        if loop is not None and all(type(inner) in _PLAIN for inner in stmt.body):
            for inner in stmt.body:
                if isinstance(inner, Store):
                    self._store(inner, stored, loop)

    def _is_all(self, name: str, ranges: tuple[tuple[int, int], ...]) -> bool:
        end = 0
        for start, stop in sorted(ranges):
            if start <= end < stop:
                end = stop
        return end >= self._counts[name]


def _rounds(loop: Bounds) -> dict[Atom, int] | None:
    """Returns the digit that a loop of literal bounds from 0 contributes; None if it may not run."""
    if not (loop.start.is_constant and loop.stop.is_constant and loop.start.constant < loop.stop.constant):
        return None
    if not loop.step.is_constant or loop.step.constant == 0:
        return None
    terms = loop.counter.form.terms
    if not terms:
        return {}
    (atom, _) = terms[0]
    return {atom: atom.high + 1} if atom.low == 0 else None


def _factor(term: tuple[Atom, int]) -> int:
    return term[1]


_ENDS: Final[frozenset[type[Node]]] = frozenset({Return, Trap})
_PLAIN: Final[frozenset[type[Node]]] = frozenset({Let, Store})

"""Workgroup and private buffers that must be filled with zeros when a workgroup or a lane starts.

The language promises zeros.  Those of a workgroup buffer cannot be observed where every read comes after a barrier
before which the lanes together stored every element, in flow that all lanes of the workgroup share; most often each
lane stores its own slot.  Stores never need the zeros.  That lanes reach a barrier together is a rule of the language,
so a store before a barrier, in its body or around it, was executed by all of them.  Recognised as covering: ``b[e]``
where ``e`` is a mixed-radix number over the local ids (``x``, ``y * X + x``, ...) plus a literal, also with the
variable of a loop of literal bounds as a digit; ``for i in local..literal`` with a literal step of at most as many
lanes.  Several stores may cover a buffer together.  Linear in the program.

Those of a private buffer cannot be observed where a lane has stored every element that it loads before it loads it, on
every path.  Elements are followed one by one: those that a store with a literal index, or with an index that is a
number otherwise known, certainly has stored, and those that a loop of literal bounds stores in its rounds, ``a[i]``,
``a[i * 8 + j]``, ``a[63 - i]`` and the like.  A load counts for all elements that the range of its index admits.  Out
of range nothing is stored and 0 is loaded, whatever the memory holds.  Linear in the program, times the size of a set
of elements, of which a lane has at most 65536.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.analysis.bounds_checks import BoundsFacts
from vyre.domain.analysis.index_flow import Bounds, IndexFlow
from vyre.domain.analysis.index_values import U32_MAX, Atom, Value
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.branches import branches
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.ir.walk import containers


def needs_private_zeroing(program: Program, bounds: BoundsFacts) -> frozenset[str]:
    """Returns the names of the private buffers to zero; ``bounds`` are the facts of the same valid program."""
    counts = {buffer.name: buffer.count for buffer in program.buffers if buffer.is_private}
    if not counts:
        return frozenset()
    return frozenset(_PrivateWalk(program, counts, bounds.flow).exposed)


class _Fill(NamedTuple):
    """A store that is made in every round of a loop."""

    buffer: str
    at: Value


class _Rounds:
    """A loop being walked: what certainly has been stored where rounds end, and where the loop is left early."""

    __slots__ = ("breaks", "continues", "fills")

    def __init__(self) -> None:
        self.breaks: int | None = None
        self.continues: int | None = None
        self.fills: list[_Fill] = []
        """The stores of every round that is not left by a break."""


_Stored = int
"""A set of elements: a number whose bits stand for the elements of all private buffers, one after the other."""


class _PrivateWalk:
    """Collects in ``exposed`` the buffers of which an element may be loaded before it was stored."""

    def __init__(self, program: Program, counts: dict[str, int], flow: IndexFlow) -> None:
        self._counts = counts
        self._flow = flow
        self._first: dict[str, int] = {}
        """The bit of the first element of each buffer."""
        bit = 0
        for name, count in counts.items():
            self._first[name] = bit
            bit += count
        self._all_values: dict[Atom, tuple[int, int]] = {}
        """Atoms of loops that have been walked, whose rounds took all values from the first to the second number."""
        self._loops: list[_Rounds] = []
        self.exposed: set[str] = set()
        self._body(program.body, 0, None)

    def _body(self, body: ir.Body, stored: _Stored, rounds: _Rounds | None) -> _Stored | None:
        """Walks a body and returns what is stored at its end; None if that is not reached.

        ``rounds`` is the loop of which every round runs the body, or None.
        """
        for stmt in body:
            self._reads(stmt, stored)
            after: _Stored | None = stored
            match stmt:
                case ir.Store():
                    after = self._store(stmt, stored, rounds)
                case ir.Block(inner) | ir.Region(_, inner):
                    after = self._body(inner, stored, rounds)
                case ir.If() | ir.Switch():
                    after = self._branches(stmt, stored)
                case ir.Loop():
                    after = self._loop(stmt, stored, rounds)
                case ir.Break():
                    self._loops[-1].breaks = _both(self._loops[-1].breaks, stored)
                    return None
                case ir.Continue():
                    self._loops[-1].continues = _both(self._loops[-1].continues, stored)
                    return None
                case _ if type(stmt) in ir.ENDING:
                    return None
            if after is None:
                return None
            stored = after
        return stored

    def _branches(self, stmt: ir.If | ir.Switch, stored: _Stored) -> _Stored | None:
        joined: _Stored | None = None
        for branch in branches(stmt):
            if branch.link is not None:
                self._reads(branch.link, stored)
            end = self._body(branch.body, stored, None)
            joined = joined if end is None else _both(joined, end)
        return joined

    def _loop(self, stmt: ir.Loop, stored: _Stored, around: _Rounds | None) -> _Stored | None:
        rounds = _Rounds()
        self._loops.append(rounds)
        end = self._body(stmt.body, stored, rounds)
        self._loops.pop()
        last = rounds.continues if end is None else _both(rounds.continues, end)
        if not ir.literal_rounds(stmt):
            last = stored
        elif last is not None:
            for fill in self._resolved(stmt, rounds.fills):
                elements = self._elements(fill)
                if elements is not None:
                    last |= elements
                elif around is not None and around.continues is None and rounds.breaks is None:
                    around.fills.append(fill)
        return rounds.breaks if last is None else _both(rounds.breaks, last)

    def _resolved(self, stmt: ir.Loop, fills: list[_Fill]) -> list[_Fill]:
        """Notes the values of the variable of a loop of literal bounds, and returns the stores of its rounds."""
        bounds = self._flow.loops.get(id(stmt))
        if bounds is None or not (bounds.start.is_constant and bounds.stop.is_constant and bounds.step.is_constant):
            return []
        terms = bounds.counter.form.terms
        if terms:
            # With a step above 1 the atom is the number of the round.
            self._all_values[terms[0][0]] = terms[0][0].low, terms[0][0].high
        return fills

    # ---- accesses
    def _store(self, stmt: ir.Store, stored: _Stored, rounds: _Rounds | None) -> _Stored:
        index = self._flow.indices.get(id(stmt)) if stmt.buffer in self._counts else None
        if index is None:
            return stored
        fill = _Fill(stmt.buffer, index)
        if index.is_constant:
            return stored | (self._elements(fill) or 0)
        if rounds is not None and rounds.continues is None:
            rounds.fills.append(fill)
        return stored

    def _elements(self, fill: _Fill) -> _Stored | None:
        """Returns the elements that a store reaches over all values of its index; None if these are not known."""
        least, spread = fill.at.constant, []
        most = least
        for atom, factor in fill.at.form.terms:
            values = self._all_values.get(atom)
            if values is None:
                return None
            low, high = values
            ends = sorted((factor * low, factor * high))
            least, most = least + ends[0], most + ends[1]
            spread.append((abs(factor), high - low + 1))
        if most > U32_MAX:
            least, most = least - U32_MAX - 1, most - U32_MAX - 1
        count = self._counts[fill.buffer]
        if least < 0 or most >= count:
            return 0 if least >= count else None
        elements = 1 << least
        for distance, number in spread:
            elements = _repeated(elements, distance, number)
        return elements << self._first[fill.buffer]

    def _reads(self, stmt: ir.Stmt, stored: _Stored) -> None:
        for root in ir.operands(stmt):
            scan = self._flow.scans.get(id(root))
            for access in () if scan is None else scan[0]:
                if isinstance(access, ir.Load) and access.buffer in self._counts and access.buffer not in self.exposed:
                    self._read(access, stored)

    def _read(self, load: ir.Load, stored: _Stored) -> None:
        count, index = self._counts[load.buffer], self._flow.indices.get(id(load))
        low, high = (0, count - 1) if index is None else (index.low, min(index.high, count - 1))
        if low <= high:
            bits = ((1 << high + 1 - low) - 1) << low + self._first[load.buffer]
            if bits & stored != bits:
                self.exposed.add(load.buffer)


def _both(one: _Stored | None, other: _Stored) -> _Stored:
    """Returns what is stored on both of two paths, of which the first may not exist."""
    return other if one is None else one & other


def _repeated(elements: _Stored, distance: int, number: int) -> _Stored:
    """Returns ``number`` copies of a set of elements, each ``distance`` further on than the one before."""
    copies = 1
    while copies < number:
        more = min(copies, number - copies)
        elements |= elements << distance * more
        copies += more
    return elements


_Range: TypeAlias = tuple[int, int]
"""The elements from the first number to below the second."""


def needs_zeroing(program: Program, bounds: BoundsFacts) -> frozenset[str]:
    """Returns the names of the workgroup buffers to zero; ``bounds`` are the facts of the same program."""
    counts = {buffer.name: buffer.count for buffer in program.buffers if buffer.is_workgroup}
    if not counts:
        return frozenset()
    return frozenset(_SharedWalk(program, counts, bounds.flow).exposed)


class _Coverage:
    """The elements that every lane has stored its part of: those before ``end``, and ranges beyond a gap."""

    __slots__ = ("apart", "end")

    def __init__(self) -> None:
        self.end: int = 0
        self.apart: list[_Range] = []
        """Ranges that start beyond ``end``, in order."""

    def add(self, elements: _Range) -> Callable[[], object]:
        """Adds a range; returns a function that takes it back."""
        start, stop = elements
        if start > self.end:
            insort(self.apart, elements)
            return lambda: self.apart.remove(elements)
        before, joined = self.end, 0
        self.end = max(before, stop)
        while joined < len(self.apart) and self.apart[joined][0] <= self.end:
            self.end = max(self.end, self.apart[joined][1])
            joined += 1
        taken = self.apart[:joined]
        del self.apart[:joined]

        def undo() -> None:
            self.end = before
            self.apart[:0] = taken

        return undo


class _SharedWalk:
    """Collects in ``exposed`` the buffers of which an element may be read before it was stored.

    Stores are followed only where a barrier can make them count: in the program's own body, and in bodies of branches
    and loops that contain a barrier.  The effects of such a body are undone at its end.
    """

    def __init__(self, program: Program, counts: dict[str, int], flow: IndexFlow) -> None:
        self._counts = counts
        self._flow = flow
        self._digits: dict[Atom, int] = {
            value.atom: value.high + 1 for value in flow.local_ids.values() if value.atom is not None
        }
        """Atoms that take all values from 0 to below a number, in all combinations."""
        self.exposed: set[str] = set()
        self._synchronised = containers(program.body, lambda stmt: isinstance(stmt, ir.Barrier))
        self._stored: dict[str, _Coverage] = {}
        self._complete: list[str] = []
        """Buffers all of whose elements have been stored since the last barrier."""
        self._written: dict[str, None] = {}
        """Buffers all of whose elements have been stored before a barrier, in the order of these barriers."""
        self._undo: list[Callable[[], object]] = []
        self._body(program.body, follows=True)

    def _body(self, body: ir.Body, *, follows: bool) -> bool:
        """Walks a body and returns whether its end is reached; ``follows``: a barrier may make its stores count."""
        for stmt in body:
            if isinstance(stmt, ir.Let | ir.Assign):
                self._exposed_in(stmt.value)
                continue
            self._reads(stmt)
            match stmt:
                case ir.Store():
                    if follows:
                        self._store(stmt, None)
                case ir.Barrier():
                    self._barrier()
                case ir.Block(inner) | ir.Region(_, inner):
                    if not self._body(inner, follows=follows):
                        return False
                case ir.If() | ir.Switch():
                    if not self._branches(stmt):
                        return False
                case ir.Loop():
                    self._apart(stmt.body, follows=id(stmt) in self._synchronised)  # the body may not run at all
                    if follows:
                        self._fill(stmt)
                case _ if type(stmt) in ir.ENDING:
                    return False
        return True

    def _branches(self, stmt: ir.If | ir.Switch) -> bool:
        follows = id(stmt) in self._synchronised
        ends = 0
        writers: dict[str, int] = {}
        for branch in branches(stmt):
            if branch.link is not None:
                self._reads(branch.link)
            written = self._apart(branch.body, follows=follows)
            if written is not None:
                ends += 1
                for name in written:
                    writers[name] = writers.get(name, 0) + 1
        for name, number in writers.items():
            if number == ends:
                self._write(name)
        return ends > 0

    def _apart(self, body: ir.Body, *, follows: bool) -> list[str] | None:
        """Walks a body and undoes its effects.

        Returns the buffers that it has written throughout, or None if its end is not reached.
        """
        mark, known = len(self._undo), len(self._written)
        alive = self._body(body, follows=follows)
        added = list(islice(reversed(self._written), len(self._written) - known))
        while len(self._undo) > mark:
            self._undo.pop()()
        return added if alive else None

    def _reads(self, stmt: ir.Stmt) -> None:
        for root in ir.operands(stmt):
            self._exposed_in(root)
        if isinstance(stmt, ir.AsyncLoad | ir.AsyncStore) and stmt.source in self._counts:
            self._expose(stmt.source)

    def _exposed_in(self, root: ir.Expr) -> None:
        scan = self._flow.scans.get(id(root))
        if scan is not None:
            for access in scan[0]:
                if access.buffer in self._counts:
                    self._expose(access.buffer)

    def _expose(self, name: str) -> None:
        if name not in self._written:
            self.exposed.add(name)

    def _barrier(self) -> None:
        if self._complete:
            complete, self._complete = self._complete, []
            self._undo.append(partial(setattr, self, "_complete", complete))
            for name in complete:
                self._write(name)

    def _write(self, name: str) -> None:
        if name not in self._written:
            self._written[name] = None
            self._undo.append(self._written.popitem)

    # ---- elements that stores cover
    def _store(self, stmt: ir.Store, loop: Bounds | None) -> None:
        name = stmt.buffer
        index = self._flow.indices.get(id(stmt)) if name in self._counts else None
        covered = None if index is None else self._covered(index, loop)
        if covered is None or name in self._written:
            return
        coverage = self._stored.setdefault(name, _Coverage())
        was_complete = coverage.end >= self._counts[name]
        self._undo.append(coverage.add(covered))
        if not was_complete and coverage.end >= self._counts[name]:
            self._complete.append(name)
            self._undo.append(self._complete.pop)

    def _covered(self, index: Value, loop: Bounds | None) -> _Range | None:
        """Returns the elements that an index takes, over all lanes and all iterations of the enclosing loop."""
        digits = self._digits
        if loop is not None:
            if index.form is loop.counter.form and loop.step.is_constant and loop.stop.is_constant:
                first = self._covered(loop.start, None)
                if first is not None and first[1] - first[0] >= loop.step.constant > 0:
                    offset = index.constant - loop.counter.constant
                    return first[0] + offset, max(loop.stop.constant, first[0]) + offset
            rounds = _digits_of(loop)
            if rounds is None:
                return None
            digits = digits | rounds
        size = 1
        for atom, factor in sorted(index.form.terms, key=_factor):
            if factor != size or atom not in digits:
                return None
            size *= digits[atom]
        return index.constant, index.constant + size

    def _fill(self, stmt: ir.Loop) -> None:
        """Handles a loop of stores only, all iterations of which are run."""
        loop = self._flow.loops.get(id(stmt))
        if loop is not None and all(type(inner) in _PLAIN for inner in stmt.body):
            for inner in stmt.body:
                if isinstance(inner, ir.Store):
                    self._store(inner, loop)


def _digits_of(loop: Bounds) -> dict[Atom, int] | None:
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


_PLAIN: Final[frozenset[type[Node]]] = frozenset({ir.Let, ir.Store})

"""``EGraph``: classes of equal expressions, closed under congruence.

A *term* is one concrete expression: a head and the terms of its operands.  Terms are numbered in the order in which
they were added, and no two are written alike.  A *class* is a set of terms that are known to be equal; its number is
that of one of its terms.  Two terms with the same head and operands of the same classes are congruent, and so equal.
For heads that commute, operands may be swapped.

Congruence is restored by ``rebuild`` after any number of unions (the deferred rebuilding of egg: Willsey et al.,
POPL 2021), from a worklist of the classes that were joined.  Every union remembers why its two terms are equal; these
reasons form a forest over the terms (Nieuwenhuis and Oliveras, RTA 2005), of which the path between two terms is a
proof that they are equal.  Nothing here depends on a clock or on the order of a hash table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

from vyre.domain.ir.expr import Expr, Literal, children
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import operands_first
from vyre.domain.numerics.scalar import canonical
from vyre.domain.optimize.egraph.heads import (
    OPERATORS,
    Entry,
    Head,
    Types,
    built,
    folded,
    interned,
    leaf_head,
    literal_of,
    operator_head,
)
from vyre.domain.source_location import SourceLocation

Operands = tuple[int, ...]
"""The terms of the operands of a term."""


_NONE: Final[Operands] = ()


class Contradiction(AssertionError):
    """Two different constants were said to be equal: a law is false, or a union was wrong."""


class Why(Enum):
    """The kinds of reasons for which two terms are equal."""

    LAW = "law"
    CONGRUENCE = "congruence"
    SWAPPED = "congruence of swapped operands"
    CONSTANT = "constant folding"
    DEFINITION = "definition of a local"


class Reason(NamedTuple):
    """Why two terms are equal.  ``name`` is that of the law, or of the local; a law was read forward from the first
    term to the second.
    """

    why: Why
    name: str = ""


_CONGRUENCE: Final = Reason(Why.CONGRUENCE)
_SWAPPED: Final = Reason(Why.SWAPPED)
_CONSTANT: Final = Reason(Why.CONSTANT)


class Edge(NamedTuple):
    """A step of a proof: the two terms, and the reason; ``forward`` if the reason was given in this order."""

    start: int
    end: int
    reason: Reason
    forward: bool


class EGraph:
    """Terms, their classes, and why they are equal.

    ``locals_`` are the types of locals, ``elements`` those of loads by buffer.  ``commuting`` returns the name of the
    law by which the operands of a head may be swapped, None if there is no such law.
    """

    def __init__(
        self,
        locals_: Types | None = None,
        elements: Types | None = None,
        commuting: Callable[[Head], str | None] = lambda head: None,
    ) -> None:
        self.heads: list[Head] = []
        self.operands: list[Operands] = []
        self.is_alive: list[bool] = []
        """Whether a term represents all terms that are congruent to it; matching looks at no other."""
        self.commuting: Callable[[Head], str | None] = commuting
        self.touched: list[int] = []
        """Terms that were added, and classes that grew, since a caller last emptied the list."""
        self.unions: int = 0
        self._locals: Types = {} if locals_ is None else locals_
        self._elements: Types = {} if elements is None else elements
        self._exact: dict[tuple[Head, Operands], int] = {}
        self._canonical: dict[tuple[Head, Operands], int] = {}
        self._parent: list[int] = []
        self._members: list[list[int]] = []
        self._users: list[dict[int, None]] = []
        """The representing terms of which an operand is in a class, each once, in the order in which they came."""
        self._constant: list[int | None] = []
        self._proof: list[int] = []
        self._reasons: list[tuple[Reason, bool] | None] = []
        self._sources: dict[int, Expr] = {}
        self._joined: list[tuple[int, bool]] = []
        """Classes that another one absorbed, and whether that one became constant by it."""
        self._added: dict[int, tuple[Expr, int]] = {}

    def __len__(self) -> int:
        return len(self.heads)

    # ---- reading
    def find(self, term: int) -> int:
        """Returns the class of a term."""
        parent = self._parent
        while parent[term] != term:
            parent[term] = parent[parent[term]]
            term = parent[term]
        return term

    def members(self, eclass: int) -> list[int]:
        """Returns the terms that represent a class, which is given by any of its terms, in the order of their union."""
        return [term for term in self._members[self.find(eclass)] if self.is_alive[term]]

    def with_head(self, eclass: int, head: Head) -> Iterator[int]:
        """Yields the terms of a class that have a head."""
        heads, is_alive = self.heads, self.is_alive
        for term in self._members[self.find(eclass)]:
            if heads[term] is head and is_alive[term]:
                yield term

    def users(self, eclass: int) -> list[int]:
        """Returns the terms of which an operand is in the class."""
        return list(self._users[self.find(eclass)])

    def constant(self, eclass: int) -> int | None:
        """Returns the literal term to which all terms of the class are equal, if there is one."""
        return self._constant[self.find(eclass)]

    def dtype(self, term: int) -> ScalarType:
        """Returns the type of a term."""
        return self.heads[term].dtype

    def expression(self, term: int, known: dict[int, Expr] | None = None, loc: SourceLocation | None = None) -> Expr:
        """Returns a term as an expression; the very object that was added, if it was added as one.  O(terms below).

        ``known`` holds expressions of terms; ``loc`` is the location of those that were not added as expressions.
        """
        known = {} if known is None else known
        stack = [term]
        while stack:
            top = stack[-1]
            source = known.get(top) or self._sources.get(top)
            if source is not None:
                known[stack.pop()] = source
                continue
            waiting = [below for below in self.operands[top] if below not in known]
            if waiting:
                stack += waiting
                continue
            known[stack.pop()] = self._built(top, known, loc)
        return known[term]

    def _built(self, term: int, known: dict[int, Expr], loc: SourceLocation | None) -> Expr:
        head = self.heads[term]
        if head.node is Literal:
            return literal_of(head, loc)
        return built(head, [known[below] for below in self.operands[term]], loc)

    # ---- adding
    def add(self, expr: Expr) -> int:
        """Returns the term of an expression of leaves and ``OPERATORS``; does not recurse.  O(distinct nodes).

        Raises ``KeyError`` for other nodes and for unknown names.
        """
        added = self._added
        for node in operands_first(expr, added):
            if type(node) not in OPERATORS:
                head, operands = leaf_head(node, self._locals), _NONE
            else:
                operands = tuple([added[id(operand)][1] for operand in children(node)])
                types = tuple([self.heads[term].dtype for term in operands])
                head = interned(operator_head(node, types, self._elements))
            term = self.term(head, operands)
            self._sources.setdefault(term, node)
            added[id(node)] = (node, term)
        return added[id(expr)][1]

    def add_window(self, entries: Sequence[Entry]) -> list[int]:
        """Returns the term of each entry of a window; those of opaque ones are leaves."""
        terms: list[int] = []
        for head, operands, expr in entries:
            term = self.term(head, tuple([terms[below] for below in operands]))
            self._sources.setdefault(term, expr)
            terms.append(term)
        return terms

    def term(self, head: Head, operands: Operands = ()) -> int:
        """Returns the term with this head and these operands; joins it with what it is congruent to, and folds it.

        The head of an operator must be ``interned``.
        """
        key = (head, operands)
        equal_term = self._exact.get(key)
        if equal_term is not None:
            return equal_term
        term = self._exact[key] = len(self.heads)
        self.heads.append(head)
        self.operands.append(operands)
        self._parent.append(term)
        self._members.append([term])
        self._users.append({})
        self._constant.append(term if head.node is Literal else None)
        self._proof.append(term)
        self._reasons.append(None)
        self.is_alive.append(True)
        if operands:
            self._place(term)
        if self.is_alive[term]:
            self.touched.append(term)
        return term

    def _place(self, term: int) -> None:
        """Joins a new term with what it is congruent to; makes it a user of its operands if it represents itself."""
        canonical_key = self._key(term)
        other = self._canonical.get(canonical_key)
        if other is not None:
            self.is_alive[term] = False
            self._congruent(term, other)
            return
        self._canonical[canonical_key] = term
        for below in canonical_key[1]:
            self._users[below][term] = None
        self._fold(term)

    def _key(self, term: int) -> tuple[Head, Operands]:
        head = self.heads[term]
        operands = tuple([self.find(below) for below in self.operands[term]])
        if len(operands) == 2 and operands[0] > operands[1] and self.commuting(head) is not None:
            operands = (operands[1], operands[0])
        return head, operands

    def _congruent(self, term: int, other: int) -> None:
        pairs = zip(self.operands[term], self.operands[other], strict=True)
        straight = all(self.find(a) == self.find(b) for a, b in pairs)
        self.union(term, other, _CONGRUENCE if straight else _SWAPPED)

    def _fold(self, term: int) -> None:
        """Makes a term equal to a literal if its operands are."""
        operands = self.operands[term]
        constants = [self.constant(below) for below in operands]
        if self.constant(term) is not None or None in constants:
            return
        literals = tuple([constant for constant in constants if constant is not None])
        head = self.heads[term]
        bits = folded(head, tuple([self.heads[constant].payload for constant in literals]))
        if bits is not None:
            of_literals = self.term(head, literals)
            self.union(of_literals, self.term(Head(Literal, bits, head.dtype)), _CONSTANT)

    # ---- joining
    def union(self, first: int, second: int, reason: Reason) -> bool:
        """Makes two terms equal; returns whether they were not known to be.

        ``rebuild`` must follow before anything is read.  Raises ``Contradiction`` if two constants become equal that
        are not (``ValueError`` for terms of different types).
        """
        a, b = self.find(first), self.find(second)
        if a == b:
            return False
        if self.heads[first].dtype is not self.heads[second].dtype:
            raise ValueError("terms of two types are not equal. Fix: join terms of one type.")
        constant = self._one_constant(a, b)
        forward = True
        if len(self._members[a]) + len(self._users[a]) > len(self._members[b]) + len(self._users[b]):
            a, b, first, second, forward = b, a, second, first, False
        self._reverse(first)
        self._proof[first], self._reasons[first] = second, (reason, forward)
        self._parent[a] = b
        self._members[b] += self._members[a]
        self._members[a] = []
        self._joined.append((a, self._constant[b] is None and constant is not None))
        self._constant[b] = constant
        self.touched.append(b)
        self.unions += 1
        return True

    def _one_constant(self, a: int, b: int) -> int | None:
        one, other = self._constant[a], self._constant[b]
        if one is None or other is None:
            return other if one is None else one
        dtype = self.heads[one].dtype
        if canonical(dtype, self.heads[one].payload) != canonical(dtype, self.heads[other].payload):
            raise Contradiction(f"{literal_of(self.heads[one])!r} is not {literal_of(self.heads[other])!r}")
        return one

    def _reverse(self, term: int) -> None:
        """Makes a term the root of its tree of proofs."""
        proof, reasons = self._proof, self._reasons
        above, reason = term, None
        while True:
            following, old = proof[term], reasons[term]
            proof[term] = above
            reasons[term] = None if reason is None else (reason[0], not reason[1])
            if following == term:
                return
            above, term, reason = term, following, old

    def rebuild(self) -> None:
        """Restores congruence after unions, and folds what became constant."""
        while self._joined:
            todo, self._joined = self._joined, []
            for old, is_newly_constant in todo:
                self._update(old, is_newly_constant)

    def _update(self, old: int, is_newly_constant: bool) -> None:
        """Renews the keys of the users of a class that another one absorbed.

        The keys of the other class's own users name it already.  Of two classes, the one with more terms and users
        absorbs the other, so that a key is renewed O(log terms) times for each of its operands.
        """
        target = self.find(old)
        waiting, self._users[old] = self._users[old], {}
        users = self._users[target]
        kept = []
        for term in waiting:
            if not self.is_alive[term]:
                continue
            key = self._key(term)
            other = self._canonical.setdefault(key, term)
            if other != term and self.is_alive[other]:
                self._retire(term)
                self._congruent(term, other)
                continue
            self._canonical[key] = term
            users[term] = None
            kept.append(term)
        for term in list(users) if is_newly_constant else kept:
            self._fold(term)

    def _retire(self, term: int) -> None:
        """Lets a congruent term represent this one, which is no user any more."""
        self.is_alive[term] = False
        for below in self.operands[term]:
            self._users[self.find(below)].pop(term, None)

    # ---- proofs
    def proof(self, first: int, second: int) -> list[Edge]:
        """Returns the steps from one term to an equal one, outermost steps only; raises ``ValueError`` if not equal."""
        ahead, other = self._to_root(first), self._to_root(second)
        if ahead[-1] != other[-1]:
            raise ValueError("the terms are not known to be equal. Fix: ask for two terms of one class.")
        while len(ahead) > 1 and len(other) > 1 and ahead[-2] == other[-2]:
            ahead.pop()
            other.pop()
        there = [self._edge(term, above) for term, above in pairwise(ahead)]
        back = [self._edge(term, above) for term, above in pairwise(other)]
        return there + [Edge(e.end, e.start, e.reason, not e.forward) for e in reversed(back)]

    def _to_root(self, term: int) -> list[int]:
        path = [term]
        while self._proof[path[-1]] != path[-1]:
            path.append(self._proof[path[-1]])
        return path

    def _edge(self, term: int, above: int) -> Edge:
        reason = self._reasons[term]
        assert reason is not None
        return Edge(term, above, *reason)

"""The elements that lanes access in a joined program, compared by the meanings of their indices.

All stages are looked at in one traversal, so two indices that are the same number in every lane are one value, whatever
the stages called it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.analysis.index_flow import Access, Step, Survey
from vyre.domain.analysis.index_proofs import Fact
from vyre.domain.analysis.index_values import Atom, Value
from vyre.domain.ir.expr import Atomic, Binary, Expr, IdKind, Literal, Load, Select, Unary, Var
from vyre.domain.ir.operators import AtomicOp, BinaryOp, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import If, Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.names import Dim3

_ALL: Final = 1 << 32
_HALF: Final = 1 << 31
_BEYOND: Final = (1 << 64) - 1
_U32: Final = ScalarType.U32
_LESS: Final = {BinaryOp.LT: (False, True), BinaryOp.GT: (True, True)}
"""Comparisons that mean left < right: whether the operands are swapped, and whether it holds."""
_ORDERS: Final = {**_LESS, BinaryOp.GE: (False, False), BinaryOp.LE: (True, False)}
_EQUALS: Final = {BinaryOp.EQ: True, BinaryOp.NE: False}


Limits: TypeAlias = frozenset[tuple[Atom, int]]


class Test(NamedTuple):
    """The meaning of a condition: ``key`` is equal for conditions that are equal or opposite; ``holds`` tells which.

    ``lower`` and ``upper`` are the sides of a comparison ``lower < upper`` of u32, else None.
    """

    key: Hashable
    holds: bool
    lower: Value | None = None
    upper: Value | None = None


class Found(NamedTuple):
    """One access: its buffer, the index ``at`` which (None if it is unknown), and what it does.

    ``proven``: the index is certainly in range.  ``dtype`` is the type of the index.  ``atomic``: the operator if the
    access is atomic.  ``only``: what says that the access is out of range unless a condition holds; ``at`` is then the
    index where it does.  ``limits``: ids that are certainly below a number wherever the access is in range.
    """

    buffer: str
    at: Value | None
    proven: bool
    dtype: ScalarType | None
    reads: bool
    writes: bool
    atomic: AtomicOp | None
    only: Hashable = None
    limits: Limits = frozenset()

    @property
    def is_unsigned(self) -> bool:
        """Returns whether the index has an unsigned type, so that a number below the length is in range."""
        return self.dtype in (_U32, ScalarType.U64)


class Indices(Survey):
    """The traversal of a joined program that is launched on ``grid``; ``lengths`` has the elements of each buffer, and
    ``parameters`` the integers that are known.

    ``accesses`` are found by the identity of their nodes, ``tests`` by the identity of their ``if``.
    """

    def __init__(self, program: Program, grid: Dim3, lengths: Mapping[str, int], parameters: Mapping[str, int]) -> None:
        self.accesses: dict[int, Found] = {}
        self.tests: dict[int, Test] = {}
        self._lengths = lengths
        self._parameters = parameters
        self._grid = grid
        self._program = program  # keeps the nodes alive, which are known by their identities
        super().__init__(program, program.workgroup_size, frozenset(), same_length=False, grid=grid)
        self._uniform = self.result.uniform
        self._digits = self._digits_of(program.workgroup_size)

    # ---- the traversal
    def _prepare(self) -> None:
        values = self._meanings.values
        for name, number in self._parameters.items():
            values.fix(("parameter", name), number)
        for name, count in self._lengths.items():
            length, known = self._meanings.length(name), values.constant(count)
            self._proofs.learn(Fact(known, length, 0))
            self._proofs.learn(Fact(length, known, 0))

    def _access(self, access: Access, step: Step | None) -> None:
        super()._access(access, step)
        buffer = self._buffers[access.buffer]
        if buffer.is_push:
            return
        index, only, limits = self._element(access.index)
        if id(access) in self.accesses:
            index = None
        self.accesses[id(access)] = Found(
            access.buffer,
            index,
            self.result.proven[id(access)],
            self._meanings.dtype(access.index, None),
            not isinstance(access, Store),
            not isinstance(access, Load),
            access.op if isinstance(access, Atomic) else None,
            only,
            limits,
        )

    def _element(self, index: Expr) -> tuple[Value | None, Hashable, Limits]:
        """Returns an index, the condition without which it is out of range, and limits of ids in it."""
        value = self._meanings.number(index)
        if value is not None:
            return value, None, self._limits(value)
        # Views of several axes write an index beyond every array where a coordinate is out of range.
        if not (isinstance(index, Select) and isinstance(index.on_false, Literal) and index.on_false.bits == _BEYOND):
            return None, None, frozenset()
        test = self._test(index.condition)
        if test is None:
            return None, None, frozenset()
        mark = self._proofs.mark
        for fact in self._meanings.facts(index.condition, True):
            self._proofs.learn(fact)
        value = self._meanings.number(index.on_true)
        limits = frozenset() if value is None else self._limits(value)
        self._proofs.forget(mark)
        return value, test[:2], limits

    def _limits(self, value: Value) -> Limits:
        """Returns the terms that are below the ratio of a larger factor to their own, as ids of columns are."""
        terms = value.form.terms
        if len(terms) == 1:
            return frozenset()
        limits: set[tuple[Atom, int]] = set()
        for atom, factor in terms:
            ratios = {abs(other) // abs(factor) for _, other in terms if abs(other) > abs(factor)}
            for ratio in sorted(ratios):
                if self._proofs.is_below(atom.value, self._meanings.values.constant(ratio)):
                    limits.add((atom, ratio))
                    break
        return frozenset(limits)

    def _tested(self, stmt: If) -> None:
        test = self._test(stmt.condition)
        if test is not None and id(stmt) not in self.tests:
            self.tests[id(stmt)] = test

    def _test(self, condition: Expr) -> Test | None:
        holds = True
        while True:
            if isinstance(condition, Var):
                version = self._meanings.env[condition.name]
                if version.expr is None or version.captured:
                    return None
                condition = version.expr
            elif isinstance(condition, Unary) and condition.op is UnaryOp.LOGICAL_NOT:
                condition, holds = condition.operand, not holds
            else:
                break
        if not isinstance(condition, Binary):
            return None
        if condition.op is BinaryOp.AND:
            parts = self._test(condition.left), self._test(condition.right)
            if parts[0] is None or parts[1] is None:
                return None
            return Test(("and", parts[0][:2], parts[1][:2]), holds)
        dtype = self._meanings.dtype(condition.left, None)
        if dtype is None or not dtype.is_integer:
            return None
        sides = self._meanings.number(condition.left), self._meanings.number(condition.right)
        if sides[0] is None or sides[1] is None:
            return None
        if condition.op in _ORDERS:
            swapped, positive = _ORDERS[condition.op]
            lower, upper = reversed(sides) if swapped else sides
            assert lower is not None and upper is not None
            plain = dtype is _U32
            return Test(
                ("less", dtype, id(lower), id(upper)),
                holds is positive,
                lower if plain else None,
                upper if plain else None,
            )
        if condition.op in _EQUALS:
            return Test(("equal", dtype, id(sides[0]), id(sides[1])), holds is _EQUALS[condition.op])
        return None

    # ---- lanes
    def _digits_of(self, workgroup: Dim3) -> dict[Atom, tuple[IdKind, int]]:
        digits: dict[Atom, tuple[IdKind, int]] = {}
        for (kind, axis), value in self.result.ids.items():
            atom = value.atom
            if atom is not None and kind is not IdKind.NUM_GROUPS:
                same = workgroup[axis] == 1 and kind is IdKind.GLOBAL
                digits[atom] = (IdKind.GROUP if same else kind, axis)
        return digits

    def is_settled(self, value: Value) -> bool:
        """Returns whether the value follows from ids and from what is equal in all lanes."""
        return all(atom in self._digits or self._is_uniform(atom) for atom, _ in value.form.terms)

    def _is_uniform(self, atom: Atom) -> bool:
        if atom in self._uniform:
            return True
        if atom.op is None or atom.left is None or atom.right is None:
            return self._is_group_count(atom)
        return all(self._is_uniform(part) for side in (atom.left, atom.right) for part, _ in side.form.terms)

    def _is_group_count(self, atom: Atom) -> bool:
        return any(value.atom is atom for (kind, _), value in self.result.ids.items() if kind is IdKind.NUM_GROUPS)

    def tells_lanes_apart(self, value: Value, limits: Iterable[Limits]) -> bool:
        """Returns whether no two lanes of the launch access the same element at this index.

        ``limits`` are those of the accesses concerned.
        """
        if not self.is_settled(value):
            return False
        below = _common(limits)
        size = self._program.workgroup_size
        whole, groups, locals_ = [0, 0, 0], [0, 0, 0], [0, 0, 0]
        by_kind = {IdKind.GLOBAL: whole, IdKind.GROUP: groups, IdKind.LOCAL: locals_}
        lanes = [groups_ * lanes_ for groups_, lanes_ in zip(self._grid, size, strict=True)]
        for atom, factor in value.form.terms:
            if atom in self._digits:
                kind, axis = self._digits[atom]
                by_kind[kind][axis] = factor
                if kind is IdKind.GLOBAL or (kind is IdKind.GROUP and size[axis] == 1):
                    lanes[axis] = min(lanes[axis], below.get(atom, lanes[axis]))
        digits: list[tuple[int, int]] = []
        for axis in range(3):
            if locals_[axis] or (groups[axis] and size[axis] > 1):
                digits.append((abs(groups[axis] + whole[axis] * size[axis]), self._grid[axis]))
                digits.append((abs(locals_[axis] + whole[axis]), size[axis]))
            else:
                digits.append((abs(whole[axis] + groups[axis]), lanes[axis]))
        reached = 0
        for factor, count in sorted(digit for digit in digits if digit[1] > 1):
            if factor <= reached:
                return False
            reached += factor * (count - 1)
        return reached < _ALL

    def elements_of_a_workgroup(self, value: Value) -> int | None:
        """Returns k if the number is in ``k * group .. k * group + k - 1`` for every lane of a one-dimensional grid."""
        if self._grid[1] * self._grid[2] != 1:
            return None
        size = self._program.workgroup_size
        per_group, of_local, low, high = 0, 0, value.constant, value.constant
        if value.constant >= _HALF:
            low = high = value.constant - _ALL
        ranges: list[tuple[int, int, int]] = []
        for atom, factor in value.form.terms:
            kind, axis = self._digits.get(atom, (None, 0))
            if kind is IdKind.GLOBAL and axis == 0:
                per_group += factor * size[0]
                of_local += factor
            elif kind is IdKind.GROUP and axis == 0:
                per_group += factor
            elif kind is IdKind.LOCAL and axis == 0:
                of_local += factor
            elif kind is IdKind.GROUP:
                pass  # always 0
            elif kind is not None:
                ranges.append((factor, 0, size[axis] - 1))
            else:
                ranges.append((factor, atom.low, atom.high))
        ranges.append((of_local, 0, size[0] - 1))
        for factor, least, most in ranges:
            low += factor * (least if factor > 0 else most)
            high += factor * (most if factor > 0 else least)
        if low >= 0 and high < per_group and per_group * self._grid[0] <= _ALL:
            return per_group
        return None

    def is_lane(self, value: Value | None) -> bool:
        """Returns whether the value is the global id along x."""
        return value is not None and value is self.result.ids.get((IdKind.GLOBAL, 0))

    def number(self, value: Value | None) -> int | None:
        """Returns the number that a value is known to be: that of a constant, or the elements of a buffer."""
        if value is None or value.is_constant:
            return None if value is None else value.constant
        lengths = self._lengths.items()
        return next((count for name, count in lengths if self._meanings.length(name) is value), None)


def _common(limits: Iterable[Limits]) -> dict[Atom, int]:
    """Returns the limits that hold for all accesses."""
    common: dict[Atom, int] | None = None
    for each in limits:
        own = dict(each)
        common = own if common is None else {atom: max(n, own[atom]) for atom, n in common.items() if atom in own}
    return common or {}

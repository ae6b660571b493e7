"""Random well-typed expressions for a point of a program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from vyre.domain.frozen import frozen
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import (
    ATOMIC_ELEMENTS,
    SUBGROUP,
    TRANSCENDENTALS,
    AtomicOp,
    BinaryOp,
    Ordering,
    Span,
    UnaryOp,
    bitcast_is_legal,
)
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.testing.operations import operations
from vyre.testing.random_programs.choices import Choices, literal
from vyre.testing.random_programs.memory import COMMUTATIVE, PLAIN, Level, Memory, Order, Use, UsedBuffer, u32

U32: Final = ScalarType.U32
BOOL: Final = ScalarType.BOOL
ATOMIC_ORDERINGS: Final = tuple(o for o in Ordering if o is not Ordering.GRID_SYNC)
_TRANSCENDENTAL_COST: Final = 40

# For each result type: every operator that yields it, with the types of its operands.
_BINARY_BY_RESULT: Final[dict[ScalarType, list[tuple[BinaryOp, ScalarType, ScalarType]]]] = defaultdict(list)
_UNARY_BY_RESULT: Final[dict[ScalarType, list[tuple[UnaryOp, ScalarType]]]] = defaultdict(list)
for _each in operations():
    match _each.value, _each.operands:
        case ir.Binary(op=_binary_op), (_left, _right):
            _BINARY_BY_RESULT[_each.result].append((_binary_op, _left, _right))
        case ir.Unary(op=_unary_op), (_operand,):
            _UNARY_BY_RESULT[_each.result].append((_unary_op, _operand))
_DIVISIONS: Final = (BinaryOp.DIV, BinaryOp.MOD)
INTEGER_TYPES: Final = tuple(t for t in EXECUTABLE_TYPES if t.is_integer)
_FLOATS: Final = (ScalarType.F32, ScalarType.F64)
_NARROW_BY_RESULT: Final = {wide: tuple(t for t in NARROW_TYPES if t.widened is wide) for wide in EXECUTABLE_TYPES}
_NARROW_ARITHMETIC: Final = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MIN, BinaryOp.MAX)
_COMPARISONS: Final = (BinaryOp.LT, BinaryOp.GE, BinaryOp.NE, BinaryOp.EQ, BinaryOp.LE, BinaryOp.GT)


@dataclass(slots=True)
class Local:
    """A visible local.  ``stable``: may be recomputed after a grid-wide barrier."""

    name: str
    dtype: ScalarType
    level: Level
    mutable: bool
    stable: bool
    usable: bool = True


@frozen(kw_only=True)
class Flow:
    """The control flow around a statement.

    ``level``: how uniform the flow is.  ``times``: how often a lane runs it, at most.  ``scopes``: visible
    locals, outermost first.  ``single``: buffers this lane has for itself.  ``straight``: reached once by
    everybody, through blocks only.  ``loop``: uniformity of the innermost loop's body.  ``loops``: the
    greatest of all enclosing loops.  ``plain``: no statement here may leave the list early.
    """

    level: Level = Level.WORKGROUP
    depth: int = 0
    times: int = 1
    scopes: tuple[list[Local], ...] = ()
    single: frozenset[str] = frozenset()
    straight: bool = True
    loop: Level | None = None
    loops: Level = Level.LANE
    plain: bool = False

    def nested(self, **changes: object) -> Flow:
        """One body further in, with a scope of its own."""
        return replace(self, depth=self.depth + 1, scopes=(*self.scopes, []), **changes)  # type: ignore[arg-type]

    def visible(self) -> Iterator[Local]:
        for scope in self.scopes:
            yield from scope


@dataclass(slots=True)
class ExpressionWriter:
    """Writes expressions; counts what they cost a lane in ``spent`` (node evaluations, at most)."""

    choices: Choices
    memory: Memory
    order: Order
    lane_ids: dict[bool, ir.Expr]  # linear id in the workgroup (True) or in the grid (False)
    spec_constants: tuple[ir.SpecConst, ...]
    lanes: int  # of the whole launch
    budget: int
    flow: Flow = field(default_factory=Flow)
    segment: int = 0
    ended: bool = False  # some lanes have returned or trapped: nothing is uniform any more
    spent: int = 0
    unstable: bool = False  # something since the flag was cleared cannot be recomputed later
    effects: bool = False  # atomics are allowed
    subgroups: bool = True  # subgroup operations are allowed
    recent: list[tuple[ir.Expr, ScalarType]] = field(default_factory=list)

    @property
    def level(self) -> Level:
        return Level.LANE if self.ended else self.flow.level

    @property
    def exhausted(self) -> bool:
        return self.spent >= self.budget

    def pay(self, cost: int = 1) -> None:
        self.spent += cost * self.flow.times

    def lane(self, workgroup: bool) -> ir.Expr:
        self.pay(3)
        expr = self.lane_ids[workgroup]
        if isinstance(expr, ir.Var) and not any(local.name == expr.name for local in self.flow.visible()):
            raise AssertionError("the lane id is declared first")
        return expr

    def value(self, dtype: ScalarType, depth: int = 3, level: Level = Level.LANE) -> ir.Expr:
        """An expression of that type, at least as uniform as ``level``."""
        self.pay()
        if depth <= 0 or self.exhausted or self.choices.chance(20):
            return self.leaf(dtype, level)
        write = self.choices.weighted(self._compounds(dtype, level))
        return write(dtype, depth - 1, level)

    def _compounds(
        self, dtype: ScalarType, level: Level
    ) -> list[tuple[int, Callable[[ScalarType, int, Level], ir.Expr]]]:
        options: list[tuple[int, Callable[[ScalarType, int, Level], ir.Expr]]] = [
            (10, self._binary),
            (6, self._unary),
            (2, self._select),
            (3, self._cast),
        ]
        if dtype is not BOOL:
            options.append((2, self._bitcast))
        if dtype.is_float and self.choices.offers("vyre.fma"):
            options.append((2, self._fma))
        if dtype.is_integer:
            options.append((2, self._wrap_cast))
        if dtype is U32:
            options.append((2, self._pack))
        if self.choices.among(_NARROW_BY_RESULT[dtype]):
            options += [(2, self._narrow), (2, self._unpack), (2, self._narrow_arithmetic)]
        if self.level >= Level.SUBGROUP and self.subgroups and self.choices.offers("supports_subgroup_ops"):
            if level <= Level.SUBGROUP:
                options.append((2, self._subgroup_reduce))
            if level <= Level.SUBGROUP and dtype is U32:
                options.append((2, self._ballot))
            if level is Level.LANE:
                options.append((1, self._shuffle))
        if self.effects and level is Level.LANE and any(self._atomic_slots(dtype)):
            options.append((8, self._atomic))
        return options

    # Leaves

    def leaf(self, dtype: ScalarType, level: Level = Level.LANE) -> ir.Expr:
        options: list[tuple[int, Callable[[], ir.Expr]]] = [(2, lambda: literal(self.choices, dtype))]
        names = [v for v in self.flow.visible() if v.dtype is dtype and v.level >= level and v.usable]
        if names:
            options.append((6, lambda: self._var(self.choices.pick(names))))
        slots = [slot for slot in self.memory.slots if self._is_loadable(slot, dtype, level)]
        if slots:
            options.append((6, lambda: self.load(self.choices.pick(slots), level)))
        constants = [c for c in self.spec_constants if c.default.dtype is dtype]
        if constants:
            options.append((1, lambda: self.choices.pick(constants)))
        if dtype is U32:
            options.append((3, lambda: self._launch_value(level)))
        if level is Level.LANE and self.recent and self.choices.chance(10):
            shared = [expr for expr, its_type in self.recent if its_type is dtype]
            if shared:
                return self.choices.pick(shared)
        return self.choices.weighted(options)()

    def _var(self, local: Local) -> ir.Expr:
        self.unstable |= not local.stable
        return ir.Var(local.name)

    def _launch_value(self, level: Level) -> ir.Expr:
        kinds = (ir.IdKind.GROUP, ir.IdKind.NUM_GROUPS)
        match self.choices.below(4 if level is Level.LANE else 2):
            case 0:
                return ir.LaunchId(self.choices.pick(kinds), self.choices.below(3))
            case 1:
                slots = [s for s in self.memory.slots if self.is_here(s)]
                return ir.BufferLength(self.choices.pick(slots).name)
            case 2:
                return ir.LaunchId(self.choices.pick((ir.IdKind.GLOBAL, ir.IdKind.LOCAL)), self.choices.below(3))
            case _:
                if not self.choices.offers("supports_subgroup_ops"):
                    return ir.LaunchId(ir.IdKind.LOCAL, 0)
                return ir.SubgroupLane() if self.choices.chance(50) else ir.SubgroupSize()

    # Memory

    def is_here(self, slot: UsedBuffer) -> bool:
        return slot.buffer.is_bound or slot.segment == self.segment

    def _is_loadable(self, slot: UsedBuffer, dtype: ScalarType, level: Level) -> bool:
        if slot.element.widened is not dtype or not self.is_here(slot):
            return False
        if slot.is_constant:
            return True
        return level is Level.LANE and (slot.use in PLAIN or slot.name in self.flow.single)

    def load(self, slot: UsedBuffer, level: Level = Level.LANE) -> ir.Expr:
        if slot.buffer.is_push:
            return ir.Load(slot.name, u32(0))
        self.unstable |= not slot.is_constant
        return ir.Load(slot.name, self.index(slot, level))

    def index(self, slot: UsedBuffer, level: Level = Level.LANE) -> ir.Expr:
        """An index of any integer type that the buffer's present use allows; a literal is never out of range."""
        choices, count = self.choices, self.memory.counts[slot.name]
        if not choices.chance(35):
            return self._u32_index(slot, level)
        dtype = choices.pick((ScalarType.I32, ScalarType.U64, ScalarType.I64))
        owned = slot.use in (Use.OWNED, Use.OWNED_ATOMIC) and slot.name not in self.flow.single
        if owned or choices.chance(40):
            index = self._u32_index(slot, level)
            # The types agree on what is in range, so that no other lane has the element.
            return ir.Literal(dtype, index.bits) if isinstance(index, ir.Literal) else ir.Cast(dtype, index)
        return self._signed_or_wide_index(dtype, count, level)

    def _signed_or_wide_index(self, dtype: ScalarType, count: int, level: Level) -> ir.Expr:
        """Often negative, or in range only modulo 2^32."""
        choices = self.choices
        self.pay(3)
        lane = ir.Cast(dtype, self.lane(False) if level is Level.LANE else ir.LaunchId(ir.IdKind.GROUP, 0))
        highest = 1 << (dtype.bits - 1)
        match choices.below(6):
            case 0:
                return ir.Literal(dtype, choices.below(max(count, 1)))
            case 1:
                return ir.Binary(BinaryOp.SUB, lane, ir.Literal(dtype, choices.between(1, 5)))
            case 2:
                return ir.Binary(
                    BinaryOp.BIT_OR, lane, ir.Literal(dtype, choices.pick((highest, 1 << 31, highest >> 1)))
                )
            case 3:
                offsets = (highest, highest - 1, 2 * highest - 2, 1 << 31, (1 << 32) % (2 * highest))
                return ir.Binary(BinaryOp.ADD, lane, ir.Literal(dtype, choices.pick(offsets)))
            case 4:
                counters = [v for v in self.flow.visible() if v.dtype is dtype and v.usable and v.level >= level]
                return self._var(choices.pick(counters[::-1])) if counters else lane
            case _:
                index = self.value(dtype, 2, level)
                return lane if isinstance(index, ir.Literal) else index

    def _u32_index(self, slot: UsedBuffer, level: Level) -> ir.Expr:
        self.pay(2)
        if slot.use in (Use.OWNED, Use.OWNED_ATOMIC) and slot.name not in self.flow.single:
            offset = self.index_value(slot.stride, Level.LANE) if slot.stride > 1 else None
            return slot.owned_index(self.lane(slot.buffer.is_workgroup), offset)
        if slot.use is Use.FREE_ATOMIC and self.choices.chance(40):
            return u32(0)  # lanes meet, so that their order shows
        return self.index_value(self.memory.counts[slot.name], level)

    def index_value(self, count: int, level: Level) -> ir.Expr:
        """Mostly in range of ``count`` elements."""
        choices = self.choices
        top = max(count, 1)
        lane = self.lane(choices.chance(30)) if level is Level.LANE else ir.LaunchId(ir.IdKind.GROUP, 0)
        match choices.below(11):
            case 0:
                return u32(choices.below(top))
            case 1 | 2:
                return lane
            case 3:
                return ir.Binary(BinaryOp.ADD, lane, u32(choices.below(5)))
            case 4:
                scaled = ir.Binary(BinaryOp.MUL, lane, u32(choices.between(1, 3)))
                return ir.Binary(BinaryOp.ADD, scaled, u32(choices.below(3)))
            case 5:
                return ir.Binary(BinaryOp.SUB, u32(top - 1), lane)
            case 6:
                return ir.Binary(BinaryOp.MOD, self.value(U32, 1, level), u32(top))
            case 7:  # arithmetic that wraps for some lanes or for all
                op = choices.pick((BinaryOp.SUB, BinaryOp.ADD, BinaryOp.MUL))
                return ir.Binary(op, lane, u32(choices.pick((1, 2, 0xFFFF_FFFF, 0xFFFF_FFF0, 0x1000_0001))))
            case 8 | 9:
                counters = [v for v in self.flow.visible() if v.dtype is U32 and v.usable and v.level >= level]
                if not counters:
                    return lane
                row = ir.Binary(BinaryOp.MUL, lane, u32(choices.between(2, 4))) if choices.chance(60) else lane
                return ir.Binary(BinaryOp.ADD, row, self._var(choices.pick(counters[::-1])))
            case _:
                return self._no_literal(self.value(U32, 2, level), level)

    def condition(self, level: Level) -> ir.Expr:
        """Often the guards that kernels have, over the lane and a length; else any bool."""
        choices = self.choices
        if level is not Level.LANE or self.exhausted or choices.chance(30):
            return self.value(BOOL, 2, level)
        guard = self._guard()
        if choices.chance(40):
            op = choices.pick((BinaryOp.AND, BinaryOp.OR))
            guard = ir.Binary(op, guard, self._guard() if choices.chance(60) else self.value(BOOL, 1))
        return ir.Unary(UnaryOp.LOGICAL_NOT, guard) if choices.chance(10) else guard

    def _guard(self) -> ir.Expr:
        """A comparison of the lane's position, which a vectorising engine may see through."""
        choices = self.choices
        lane = self.lane(choices.chance(25))
        match choices.below(5):
            case 0:
                slot = choices.pick([slot for slot in self.memory.slots if self.is_here(slot)])
                return ir.Binary(BinaryOp.LT, lane, ir.BufferLength(slot.name))
            case 1:
                parity = ir.Binary(BinaryOp.BIT_AND, lane, u32(choices.pick((1, 3))))
                return ir.Binary(choices.pick((BinaryOp.EQ, BinaryOp.NE)), parity, u32(choices.below(2)))
            case _:
                left = lane if choices.chance(75) else self.index_value(30, Level.LANE)
                return ir.Binary(choices.pick(_COMPARISONS), left, u32(choices.below(self.lanes + 1)))

    def _no_literal(self, expr: ir.Expr, level: Level) -> ir.Expr:
        return ir.LaunchId(ir.IdKind.GROUP if level else ir.IdKind.LOCAL, 1) if isinstance(expr, ir.Literal) else expr

    def _atomic_slots(self, dtype: ScalarType) -> Iterator[UsedBuffer]:
        for slot in self.memory.slots:
            if slot.element is dtype and self.is_here(slot) and slot.use in (Use.OWNED_ATOMIC, Use.FREE_ATOMIC):
                yield slot

    def _atomic(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        del level
        return self.atomic(self.choices.pick(list(self._atomic_slots(dtype))), min(depth, 2))

    def atomic(self, slot: UsedBuffer, depth: int = 2) -> ir.Expr:
        assert slot.element in ATOMIC_ELEMENTS
        self.unstable = True
        op = slot.op
        if slot.use is not Use.REDUCED:
            op, _ = self.choices.pick([(op, slot.element) for op in AtomicOp])
        assert slot.use is not Use.REDUCED or op in COMMUTATIVE
        self.pay(3)
        index = self.index(slot)
        expected = self.value(slot.element, depth - 1) if op is AtomicOp.COMPARE_EXCHANGE else None
        value = self.value(slot.element, depth)
        return ir.Atomic(op, slot.name, index, expected, value, self.choices.pick(ATOMIC_ORDERINGS[::-1]))

    # Operators

    def _binary(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        rows = _BINARY_BY_RESULT[dtype]
        op, left_type, right_type = self.choices.pick(rows)
        left = self.value(left_type, depth, level)
        if right_type is left_type and op not in _DIVISIONS and self.choices.chance(4) and not self.effects:
            right = left
        else:
            right = self.value(right_type, depth, level)
        return self._remember(ir.Binary(op, left, right), dtype)

    def _unary(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        op, operand_type = self.choices.pick(_UNARY_BY_RESULT[dtype])
        if op in TRANSCENDENTALS:
            self.pay(_TRANSCENDENTAL_COST)
        return self._remember(ir.Unary(op, self.value(operand_type, depth, level)), dtype)

    def _select(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        uniform = Level.WORKGROUP if self.choices.chance(30) else level
        condition = self.value(BOOL, depth, uniform)
        return ir.Select(condition, self.value(dtype, depth, level), self.value(dtype, depth, level))

    def _cast(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        return ir.Cast(dtype, self.value(self.choices.pick(EXECUTABLE_TYPES), depth, level))

    def _narrow(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        narrow = self.choices.pick(_NARROW_BY_RESULT[dtype])
        return self._remember(ir.Narrow(narrow, self.value(dtype, depth, level)), dtype)

    def _pack(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        narrow = self.choices.pick(NARROW_TYPES)
        return self._remember(ir.Pack(narrow, self.value(narrow.widened, depth, level)), dtype)

    def _unpack(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        narrow = self.choices.pick(_NARROW_BY_RESULT[dtype])
        return self._remember(ir.Unpack(narrow, self.value(U32, depth, level)), dtype)

    def _narrow_arithmetic(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        """An operator of a narrow type: operands and result are rounded to it."""
        narrow = self.choices.pick(_NARROW_BY_RESULT[dtype])
        left = ir.Narrow(narrow, self.value(dtype, depth - 1, level))
        if dtype.is_float and self.choices.chance(15):
            return ir.Narrow(narrow, ir.Unary(UnaryOp.SQRT, left))
        right: ir.Expr = ir.Unpack(narrow, self.value(U32, depth - 1, level))
        if self.choices.chance(50):
            right = ir.Narrow(narrow, self.value(dtype, depth - 1, level))
        return self._remember(ir.Narrow(narrow, ir.Binary(self.choices.pick(_NARROW_ARITHMETIC), left, right)), dtype)

    def _wrap_cast(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        return self._remember(ir.WrapCast(dtype, self.value(self.choices.pick(_FLOATS), depth, level)), dtype)

    def _bitcast(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        sources = [source for source in EXECUTABLE_TYPES if bitcast_is_legal(source, dtype)]
        return ir.Bitcast(dtype, self.value(self.choices.pick(sources), depth, level))

    def _fma(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        self.pay(4)
        a, b, c = (self.value(dtype, depth, level) for _ in range(3))
        return ir.Fma(a, b, c)

    def moved(self, expr: ir.Expr, dtype: ScalarType) -> ir.Expr:
        """The same value through an operation that only moves bits."""
        match self.choices.below(6):
            case 1:
                return ir.Select(self.value(BOOL, 1, Level.WORKGROUP), expr, self.leaf(dtype))
            case 2 if dtype is not BOOL:
                return ir.Bitcast(dtype, expr)
            case 3:
                return ir.Cast(dtype, expr)
            case 4 if dtype is not BOOL:
                between = [t for t in EXECUTABLE_TYPES if bitcast_is_legal(dtype, t)]
                return ir.Bitcast(dtype, ir.Bitcast(self.choices.pick(between), expr))
            case 5:
                return ir.Select(self.condition(Level.LANE), expr, expr)
        return expr

    # Subgroups: operands are pure and mention no other subgroup operation.

    def _pure(self, dtype: ScalarType, depth: int) -> ir.Expr:
        effects, self.effects = self.effects, False
        self.unstable = True
        self.pay(2)
        operand = self.value(dtype, depth)
        self.effects = effects
        return operand

    def _subgroup_reduce(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        fitting = [
            op
            for op, row in SUBGROUP.items()
            if dtype in row.operands and (level is Level.LANE or row.span is Span.ALL)
        ]
        return ir.SubgroupReduce(self.choices.pick(fitting), self._pure(dtype, depth))

    def _ballot(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        del dtype, level
        return ir.SubgroupBallot(self._pure(BOOL, depth))

    def _shuffle(self, dtype: ScalarType, depth: int, level: Level) -> ir.Expr:
        del level
        value = self._pure(dtype, depth)
        lane = self._pure(U32, min(depth, 1))
        return ir.SubgroupShuffle(value, ir.Binary(BinaryOp.MOD, lane, u32(34)) if self.choices.chance(60) else lane)

    def _remember(self, expr: ir.Expr, dtype: ScalarType) -> ir.Expr:
        """Offers a closed expression for sharing, so that programs are graphs and not only trees."""
        if self.order is not Order.RACY and not _mentions_state(expr):
            self.recent = [*self.recent[-5:], (expr, dtype)]
        return expr


_CLOSED: Final = frozenset(
    {
        *(ir.Literal, ir.LaunchId, ir.SpecConst, ir.SubgroupLane, ir.SubgroupSize),
        *(ir.Binary, ir.Unary, ir.Cast, ir.Narrow, ir.Pack, ir.Unpack, ir.WrapCast),
    }
)
"""The expressions that mean the same wherever they stand."""


def _mentions_state(expr: ir.Expr) -> bool:
    """Whether the expression could mean something else, or be refused, at another place."""
    return any(type(node) not in _CLOSED for node in unique_nodes((expr,)))

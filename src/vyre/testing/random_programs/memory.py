"""The buffers of a random program, and the discipline that keeps its memory accesses in order.

At every point of a program each buffer has one ``Use``.  All uses but the two ``FREE`` ones are free of
data races and of results that depend on a schedule, whichever lanes run the statement; the use of a
buffer changes only where a barrier of its scope orders everything before against everything after.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final

from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.expr import Binary, Expr, IdKind, LaunchId, Literal
from vyre.domain.ir.operators import ATOMIC_ELEMENTS, AtomicOp, BinaryOp
from vyre.domain.ir.program import Access, Buffer, BufferHints, CacheLocality, Dim3, MemoryKind
from vyre.domain.ir.types import ScalarType
from vyre.testing.random_programs.choices import Choices, literal


class Order(Enum):
    """How far the result of a random program may depend on the schedule."""

    INDEPENDENT = "one result under every schedule"
    ATOMIC = "no data race, but returned values of atomics depend on their order"
    RACY = "anything that is valid: the canonical schedule alone defines the result"


class Level(IntEnum):
    """Over which lanes a value or the control flow is certain to be the same."""

    LANE = 0
    SUBGROUP = 1
    WORKGROUP = 2


class Use(Enum):
    READ = "nobody writes, anybody reads any element"
    OWNED = "a lane reads and writes the elements that it owns"
    OWNED_ATOMIC = "any atomic, on the elements that the lane owns"
    REDUCED = "one commutative atomic operator on any element, results unused"
    SPLAT = "stores of one literal to any element, nobody reads"
    SINGLE = "one lane of the scope does as it likes"
    SPANS = "asynchronous stores, each lane to its own span of bytes"
    PRIVATE = "each lane has all elements for itself"
    FREE = "plain accesses to any element"
    FREE_ATOMIC = "any atomic on any element"


COMMUTATIVE: Final = (AtomicOp.ADD, AtomicOp.OR, AtomicOp.AND, AtomicOp.XOR, AtomicOp.MIN, AtomicOp.MAX)
PLAIN: Final = frozenset({Use.READ, Use.OWNED, Use.FREE, Use.PRIVATE})

_USES: Final = {
    Order.INDEPENDENT: (
        Use.OWNED,
        Use.READ,
        Use.OWNED,
        Use.REDUCED,
        Use.OWNED_ATOMIC,
        Use.SPLAT,
        Use.SINGLE,
        Use.SPANS,
    ),
    Order.ATOMIC: (Use.OWNED, Use.READ, Use.FREE_ATOMIC, Use.FREE_ATOMIC, Use.REDUCED, Use.OWNED_ATOMIC),
    Order.RACY: (Use.FREE, Use.FREE, Use.FREE_ATOMIC, Use.OWNED),
}
_ATOMIC_USES: Final = frozenset({Use.REDUCED, Use.OWNED_ATOMIC, Use.FREE_ATOMIC})


@dataclass(slots=True)
class UsedBuffer:
    """A buffer and what it is used for now."""

    buffer: Buffer
    use: Use = Use.READ
    op: AtomicOp = AtomicOp.ADD
    splat: Literal = field(default_factory=lambda: Literal.of(ScalarType.U32, 0))
    single_lane: int = 0
    span: int = 4
    # Lane l owns the elements mix(l) * stride + 0 .. stride - 1; mix is a bijection of u32.
    stride: int = 1
    mix: tuple[BinaryOp, int] | None = None
    segment: int = 0

    @property
    def name(self) -> str:
        return self.buffer.name

    @property
    def element(self) -> ScalarType:
        return element_of(self.buffer)

    @property
    def is_constant(self) -> bool:
        """Read-only for the whole dispatch."""
        return not self.buffer.is_writable

    def change_use(self, choices: Choices, order: Order) -> None:
        """A new use, allowed right after a barrier of the buffer's scope."""
        if self.is_constant:
            return
        if self.buffer.is_private:
            self.use = Use.PRIVATE
            return
        atomic = self.element in ATOMIC_ELEMENTS and self.buffer.access is not Access.WRITE_ONLY
        self.use = choices.pick([use for use in _USES[order] if atomic or use not in _ATOMIC_USES])
        self.op = choices.pick(COMMUTATIVE)
        self.splat = literal(choices, self.element.widened)
        self.single_lane = choices.below(3)
        self.span = choices.pick((4, 8, 1, 3, 16))
        self.stride = choices.pick((1, 1, 2, 3))
        self.mix = choices.pick(
            (
                None,
                None,
                (BinaryOp.ADD, choices.below(4)),
                (BinaryOp.BIT_XOR, choices.below(8)),
                (BinaryOp.SUB, choices.between(0, 70)),
                (BinaryOp.MUL, choices.pick((3, 5, 0xFFFF_FFFF))),
            )
        )

    def owned_index(self, lane: Expr, offset: Expr | None) -> Expr:
        """An index that no other lane of the scope has.  ``offset`` (u32) must be given iff stride > 1."""
        index = lane
        match self.mix:
            case (BinaryOp.SUB, constant):
                index = Binary(BinaryOp.SUB, u32(constant), lane)
            case (op, constant):
                index = Binary(op, lane, u32(constant))
        if self.stride == 1:
            return index
        assert offset is not None
        within = offset
        if not (isinstance(offset, Literal) and offset.bits < self.stride):
            within = Binary(BinaryOp.MOD, offset, u32(self.stride))
        return Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, index, u32(self.stride)), within)


def u32(value: int) -> Literal:
    return Literal(ScalarType.U32, value & 0xFFFF_FFFF)


def global_lane(workgroup: Dim3, one_dimensional: bool) -> Expr:
    """The linear global id: (z * H + y) * W + x."""
    if one_dimensional:
        return LaunchId(IdKind.GLOBAL, 0)
    width, height = (Binary(BinaryOp.MUL, LaunchId(IdKind.NUM_GROUPS, axis), u32(workgroup[axis])) for axis in (0, 1))
    rows = Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, LaunchId(IdKind.GLOBAL, 2), height), LaunchId(IdKind.GLOBAL, 1))
    return Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, rows, width), LaunchId(IdKind.GLOBAL, 0))


def local_lane(workgroup: Dim3) -> Expr:
    """The linear local id: x + y * sx + z * sx * sy."""
    index: Expr = LaunchId(IdKind.LOCAL, 0)
    scale = workgroup[0]
    for axis in (1, 2):
        if workgroup[axis] > 1:
            index = Binary(BinaryOp.ADD, index, Binary(BinaryOp.MUL, LaunchId(IdKind.LOCAL, axis), u32(scale)))
        scale *= workgroup[axis]
    return index


_ELEMENTS: Final = tuple(ScalarType)
_COUNTERS: Final = tuple(sorted(ATOMIC_ELEMENTS, key=lambda t: t.tag))
_WRITABLE: Final = (*_COUNTERS, *_COUNTERS, *_ELEMENTS)
_SHARED: Final = (*_COUNTERS, *_WRITABLE)
_EXECUTABLE: Final = tuple(t for t in ScalarType if t.is_executable)
_ODD_NAMES: Final = ("let", "two words", "naïve", "x.y", "1st", 'say "x"', "back\\slash", "ünï→", "#", "")
_HINTS: Final = (
    BufferHints(),
    BufferHints(coalesce_axis=1, preferred_alignment=64, locality=CacheLocality.STREAMING),
    BufferHints(preferred_alignment=16, locality=CacheLocality.RANDOM),
)


@dataclass(slots=True)
class Memory:
    """The buffers of one program, the element counts they will have, and the host-chosen counts."""

    slots: list[UsedBuffer]
    counts: dict[str, int]
    output_counts: dict[str, int]

    def change_uses(self, choices: Choices, order: Order, *, workgroup: bool) -> None:
        for slot in self.slots:
            if slot.buffer.is_workgroup is workgroup:
                slot.change_use(choices, order)


class _Layout:
    def __init__(self, choices: Choices, lanes: int, inferred_limit: int | None) -> None:
        self.choices = choices
        self.lanes = lanes
        self.limit = inferred_limit
        self.memory = Memory([], {}, {})
        self.bindings = [3, 0, 1, 2, 4, 5, 6, 8, 9, 11, 12, 40, 41, 77][:: choices.pick((1, -1))]

    def name(self, stem: str) -> str:
        taken = {slot.name for slot in self.memory.slots}
        if self.choices.chance(6):
            odd = self.choices.pick(_ODD_NAMES[:-1])
            if odd not in taken:
                return odd
        return f"{stem}{sum(name.startswith(stem) for name in taken)}"

    def count(self) -> int:
        choices = self.choices
        count = choices.pick(
            (self.lanes, self.lanes, 4, self.lanes + 1, max(1, self.lanes - 1), choices.between(1, 40))
        )
        return count if self.limit is None else min(count, self.limit)

    def add(self, stem: str, access: Access, element: ScalarType, actual: int, **fields: object) -> None:
        binding = 0 if access in (Access.WORKGROUP, Access.PRIVATE) else self.bindings.pop()
        hints = self.choices.pick(_HINTS) if self.choices.chance(10) else _HINTS[0]
        buffer = Buffer.make(self.name(stem), binding, access, element, hints=hints, **fields)  # type: ignore[arg-type]
        self.memory.slots.append(UsedBuffer(buffer))
        self.memory.counts[buffer.name] = actual

    def add_inputs(self) -> None:
        choices = self.choices
        for _ in range(choices.between(1, 3)):
            count = self.count()
            runtime_sized = choices.chance(50)
            if runtime_sized and choices.chance(5):
                count = 0
            access = Access.UNIFORM if choices.chance(25) else Access.READ_ONLY
            declared = 0 if runtime_sized else count
            self.add("in", access, choices.pick(_ELEMENTS), count, count=declared)
        for _ in range(choices.weighted(((5, 0), (3, 1), (2, 2)))):
            element = choices.pick(_EXECUTABLE)
            self.add("k", Access.UNIFORM, element, 1, count=1, kind=MemoryKind.PUSH)

    def add_inouts(self) -> None:
        choices = self.choices
        for _ in range(choices.between(1, 3)):
            count = self.count()
            declared = choices.pick((count, 0))
            element = choices.pick(_WRITABLE)
            output_range = self.output_range(declared, element)
            self.add("io", Access.READ_WRITE, element, count, count=declared, output_range=output_range)

    def add_outputs(self) -> None:
        choices = self.choices
        sources = [slot for slot in self.memory.slots if not slot.buffer.is_push]
        for _ in range(choices.weighted(((4, 0), (4, 1), (2, 2)))):
            element = choices.pick(_WRITABLE)
            access = choices.pick((Access.WRITE_ONLY, Access.READ_WRITE))
            match choices.pick(("static", "like", "host")):
                case "static":
                    count = self.count()
                    output_range = self.output_range(count, element)
                    self.add("out", access, element, count, count=count, is_output=True, output_range=output_range)
                case "like":
                    source = choices.pick(sources).name
                    self.add("out", access, element, self.memory.counts[source], is_output=True, like=source)
                case "host":
                    self.add("out", access, element, self.count(), is_output=True)
                    name = self.memory.slots[-1].name
                    self.memory.output_counts[name] = self.memory.counts[name]

    def add_workgroup_memory(self, segments: int, size: int) -> None:
        choices = self.choices
        for _ in range(choices.weighted(((4, 0), (4, 1), (3, 2)))):
            count = choices.pick((size, 4, size + 1, 2 * size, 1))
            element = choices.pick(_SHARED)
            self.add("wg", Access.WORKGROUP, element, count, count=count)
            self.memory.slots[-1].segment = choices.below(segments)

    def add_private_memory(self, segments: int) -> None:
        choices = self.choices
        for _ in range(choices.weighted(((6, 0), (4, 1), (2, 2)))):
            count = choices.pick((4, 1, 7, 16, 33))
            self.add("pv", Access.PRIVATE, choices.pick(_ELEMENTS), count, count=count)
            self.memory.slots[-1].segment = choices.below(segments)

    def output_range(self, count: int, element: ScalarType) -> tuple[int, int] | None:
        if count == 0 or not self.choices.chance(10):
            return None
        end = self.choices.between(0, count * element.size)
        return self.choices.between(0, end), end


def lay_out(choices: Choices, workgroup: Dim3, lanes: int, segments: int, inferred_limit: int | None) -> Memory:
    """Random buffers for a launch of ``lanes`` lanes; no count exceeds ``inferred_limit``, if given."""
    layout = _Layout(choices, lanes, inferred_limit)
    layout.add_inputs()
    layout.add_inouts()
    layout.add_outputs()
    layout.add_workgroup_memory(segments, workgroup[0] * workgroup[1] * workgroup[2])
    layout.add_private_memory(segments)
    return layout.memory

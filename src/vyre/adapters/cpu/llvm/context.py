"""The state of the kernel being written, which all parts of the emitter share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, Protocol

from vyre.adapters.cpu.llvm.captures import Capture, PerVector, Tag
from vyre.adapters.cpu.llvm.group_ids import GroupIds
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.llvm.places import Places
from vyre.adapters.cpu.llvm.shapes import Agreement, Shapes
from vyre.adapters.cpu.llvm.values import SCALAR, Narrow, Shape, Value, literal
from vyre.adapters.cpu.llvm.word_masks import WordMasks
from vyre.adapters.cpu.llvm.writer import Writer
from vyre.domain.analysis.adjacent_loads import AdjacentLoads, adjacent_loads
from vyre.domain.analysis.bounds_checks import bounds_facts
from vyre.domain.analysis.index_flow import IndexFlow
from vyre.domain.cached import cached_property
from vyre.domain.ir.expr import Atomic, Literal, Load, Var
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.stmt import Barrier, Body, Let, Loop, Stmt, Store, operands, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.scoped_names import ScopedNames

FIRST_BUFFER: Final = 6
"""The word of a frame with the address of the first buffer; its element count follows."""
ALIGNMENT: Final = 64
"""The alignment in bytes of everything in scratch memory."""


class Flow(Enum):
    """The ways in which the lanes that are active before a statement go on after it."""

    THROUGH = "all of them go on"
    PARTLY = "those of the current mask go on, possibly none"
    ENDED = "none goes on, but the text does"
    LEFT = "the text ends with a jump elsewhere"


class AssignedLocal:
    """A local that statements assign to, in memory of the function that the optimiser turns into registers.

    ``mask`` holds the lanes that were active at its declaration.
    """

    __slots__ = ("address", "dtype", "is_uniform", "mask")

    def __init__(self, dtype: ScalarType, address: str, mask: str | None, *, is_uniform: bool) -> None:
        self.dtype: Final = dtype
        self.address: Final = address
        self.mask: Final = mask
        self.is_uniform: Final = is_uniform


class LoopFrame(Protocol):
    """An open loop, for the statements that leave it."""

    def leave(self) -> Flow:
        """Writes the way of the active lanes out of the loop."""

    def skip(self) -> Flow:
        """Writes the way of the active lanes to the next round."""

    def end(self) -> None:
        """Notes that the active lanes end inside the loop."""


CAPTURES: Final = "%captures"
"""The address of the memory of ``Kernel.captures``, a ptr operand."""


class Scratch:
    """Places in the scratch memory of a thread, as byte offsets."""

    def __init__(self) -> None:
        self.nbytes: int = 0
        self._free: Final[dict[int, list[int]]] = {}

    def reserve(self, nbytes: int) -> int:
        """Returns the offset of ``nbytes`` bytes."""
        rounded = -(-nbytes // ALIGNMENT) * ALIGNMENT
        free = self._free.get(rounded)
        if free:
            return free.pop()
        offset = self.nbytes
        self.nbytes += rounded
        return offset

    def release(self, offset: int, nbytes: int) -> None:
        """Ends the use of a place that was reserved with this size."""
        self._free.setdefault(-(-nbytes // ALIGNMENT) * ALIGNMENT, []).append(offset)


class Kernel:
    """One function: its text so far, the locals in scope and the lanes that are active at the current place."""

    def __init__(
        self,
        program: Program,
        options: EmitOptions,
        spec: Mapping[str, Literal],
        lanes: int,
        *,
        in_lockstep: bool = False,
    ) -> None:
        self.w: Final = Writer()
        self.program: Final = program
        self.options: Final = options
        self.spec: Final = spec
        self.lanes: Final = lanes
        """W, the number of lanes of a vector.  Where it is 1, all types are scalar and all values uniform."""
        self.all_lanes: Final = "splat (i1 true)" if lanes > 1 else "true"
        """The mask of all W lanes."""
        self.masks: Final = WordMasks(self.w, lanes, wanted=not options.predicated and lanes > 1)
        x, y, z = program.workgroup_size
        self.size: Final = x * y * z
        """The number of lanes of a workgroup."""
        self.chunks: Final = -(-self.size // lanes)
        """The number of vectors of lanes of a workgroup."""
        self.buffers: Final[Mapping[str, Buffer]] = program.buffers_by_name
        self._positions: Final = {buffer.name: i for i, buffer in enumerate(program.abi_buffers)}
        self._flow: Final[IndexFlow] = bounds_facts(program, same_length=True).flow
        self.scratch: Final = Scratch()
        self.captures: Final[list[Capture]] = []
        """The memory behind ``scratch`` whose size a launch decides."""
        self._places: Final[dict[str, int]] = {}
        self.locals: Final[ScopedNames[Value | AssignedLocal]] = ScopedNames()
        self.current: Final[ScopedNames[Value | None]] = ScopedNames()
        """The current values of slots, by address; None where the slot must be read."""
        self.known: Final[dict[int, Value]] = {}
        """Values of this statement's expression objects that may be shared: see ``expressions.evaluate``."""
        self.atomics: int = 0
        """The number of atomics written so far."""
        self.group: Sequence[str] | GroupIds = ("0", "0", "0")
        """The ids of the workgroup, i32 operands."""
        self.joined: Final = options.joined
        """Whether a vector may hold lanes of several workgroups."""
        self.first_lane: str = "0"
        """The global id of the first lane of the vector, an i32 operand, where workgroups are joined."""
        self.shapes: Final = Shapes(program, lanes, joined=options.joined)
        self.write_statements: Callable[[Kernel, Body, int], Flow] | None = None
        """The function that writes statements of which the whole workgroup runs one after the other; None in code for
        the lanes of one vector.
        """
        self.count_steps: Callable[[Loop], str] | None = None
        """The function that counts a back edge for every lane of the workgroup, and returns an i1 that is true if any
        lane may take it; None where nothing is counted or one vector has all lanes.
        """
        self.copied: bool = False
        """Whether the current place is in one of two copies of the code: for all lanes active, and for some."""
        self.mask: str | None = None
        """The active lanes at the current place, an operand of type <W x i1>; None if all W lanes are active.

        At least one lane is active wherever code is written.
        """
        self.chunk: str = "0"
        """The number of the current vector of lanes in its workgroup, an i64 operand."""
        self.trap_tags: Final[list[str]] = []
        self.places: Places | None = None
        """The places of statements in the source, where the text names them."""
        self.in_lockstep: Final = in_lockstep and self.chunks > 1
        """Whether all vectors of a workgroup run each phase of a statement before the next one begins."""
        has_barrier = any(isinstance(stmt, Barrier) for stmt in walk_statements(program.body))
        self.areas: Final = self.chunks if has_barrier or in_lockstep else 1
        """The number of vectors of a workgroup that need scratch memory of their own."""
        self.private: Final[dict[str, PerVector]] = {}
        """The scratch memory of private buffers, by name."""
        self.copies: Final[dict[str, Tag]] = {}
        """The asynchronous copies that have been planned so far, by tag."""
        self.in_range: Final[set[tuple[str, str]]] = set()
        """Buffers with operands that are certainly indices in their range at the current place."""
        self.loops: Final[list[LoopFrame]] = []
        """The loops around the current place, innermost last."""
        self.is_early: bool = False
        """Whether the code at the current place runs for lanes and rounds that may not exist, so that no index is
        proven to be in range.
        """
        self.slotted: Final[set[str]] = set()
        """Names of locals that get a slot although nothing assigns to them."""
        self.narrow: Final[dict[str, Narrow]] = {}
        """The vectors that were extended to vectors of integers, by the operand of the latter."""
        self.halves: Final[dict[str, str]] = {}
        """The values of f16 of their own LLVM type, by the operand of the equal f32."""
        self.roundings: Final[dict[str, tuple[BinaryOp | UnaryOp, tuple[str, ...]]]] = {}
        """The operator of f16, with its operands, that gives what an f32 rounds to, by the operand of the f32."""
        self._marks: Final[list[int]] = []
        self._bounds: Final[dict[str, tuple[ScalarType, str, str]]] = {}
        self._pairs: Final[dict[str, tuple[str, str]]] = {}
        self._read: set[str] | None = None

    # ---- types
    def vector_type(self, element: str) -> str:
        """Returns the LLVM type of W elements: that of the element itself where W is 1."""
        return f"<{self.lanes} x {element}>" if self.lanes > 1 else element

    def type_of(self, value: Value) -> str:
        """Returns the LLVM type of ``value.operand``."""
        scalar = SCALAR[value.dtype]
        return self.vector_type(scalar) if value.shape is Shape.VARYING else scalar

    @property
    def zero(self) -> str:
        """Returns an i32 operand that is always 0, which LLVM cannot know.

        The numbers of lanes depend on it, so that no mask is a constant: for constant masks on x86-64 with AVX2, LLVM
        22 reads elements of lanes that are not active, which may lie beyond the end of a buffer.
        """
        return self.w.zero()

    # ---- values
    def uniform(self, dtype: ScalarType, operand: str) -> Value:
        """Returns a value that all active lanes share; ``operand`` is a scalar."""
        return Value(dtype, operand, Shape.UNIFORM)

    def affine(self, dtype: ScalarType, base: str, stride: int) -> Value:
        """Returns the value ``base + k * stride`` of lane k, of an integer type."""
        mask = (1 << dtype.bits) - 1
        if stride & mask == 0 or self.lanes == 1:
            return self.uniform(dtype, base)
        return Value(dtype, base, Shape.AFFINE, stride & mask)

    def varying(self, dtype: ScalarType, operand: str) -> Value:
        """Returns a value of which every lane has its own; ``operand`` is a vector.

        The value of a lane that is alone in its vector is uniform.
        """
        return Value(dtype, operand, Shape.VARYING if self.lanes > 1 else Shape.UNIFORM)

    def splat(self, element: str, operand: str) -> str:
        """Returns a vector operand with a scalar of the LLVM type ``element`` in each lane."""
        vector = self.vector_type(element)
        if self.lanes == 1:
            return operand
        if not operand.startswith("%"):
            return f"splat ({element} {operand})"
        one = self.w.pure(f"insertelement {vector} poison, {element} {{}}, i64 0", operand)
        return self.w.pure(
            f"shufflevector {vector} {{}}, {vector} poison, {self.vector_type('i32')} zeroinitializer", one
        )

    def vector(self, value: Value) -> str:
        """Returns a value as a vector operand."""
        if value.shape is Shape.VARYING:
            return value.operand
        element = SCALAR[value.dtype]
        base = self.splat(element, value.operand)
        if value.shape is Shape.UNIFORM:
            return base
        vector, bits = self.vector_type(element), value.dtype.bits
        steps = [(value.stride * lane) & ((1 << bits) - 1) for lane in range(self.lanes)]
        return self.w.pure(f"add {vector} {{}}, {vector_text(element, steps)}", base)

    def lane_mask(self) -> str:
        """Returns the active lanes as an operand of type <W x i1>."""
        return self.mask if self.mask is not None else self.all_lanes

    def take(self, mask: str | None) -> None:
        """Lets the lanes of a mask be the active ones, at a place that is reached only if there are any.

        A lane that is alone in its vector is active wherever code is written, and needs no mask.
        """
        self.mask = mask if self.lanes > 1 else None

    def any(self, mask: str) -> str:
        """Returns an i1 that is true if a lane of a mask is active."""
        return self.masks.any(mask)

    def note_bound(self, condition: str, dtype: ScalarType, base: str, bound: str) -> None:
        """Notes that a condition is ``base + lane < bound``, for integers of a type."""
        self._bounds[condition] = (dtype, base, bound)

    def note_both(self, condition: str, one: str, other: str) -> None:
        """Notes that a condition holds where both of two others do."""
        self._pairs[condition] = (one, other)

    def every(self, mask: str) -> str:
        """Returns an i1 that is true only if all W lanes of a mask are active, and then if nothing wraps."""
        pair = self._pairs.get(mask)
        if pair is not None:
            return self.w.pure("and i1 {}, {}", self.every(pair[0]), self.every(pair[1]))
        bound_of = self._bounds.get(mask)
        if bound_of is not None:
            dtype, base, bound = bound_of
            element, sign = SCALAR[dtype], "s" if dtype.is_signed else "u"
            last = self.w.call(element, f"{sign}sub.sat.{element}", (element, bound), (element, str(self.lanes - 1)))
            return self.w.pure(f"icmp {sign}lt {element} {{}}, {{}}", base, last)
        return self.w.pure(f"icmp eq i{self.lanes} {{}}, -1", self.bits(mask))

    def bits(self, mask: str) -> str:
        """Returns the lanes of a mask as the bits of an integer with W bits."""
        return self.w.pure(f"bitcast {self.vector_type('i1')} {{}} to i{self.lanes}", mask)

    def word_of(self, mask: str) -> str:
        """Returns the lanes of a mask as the bits of an i32."""
        bits = self.bits(mask)
        return self.w.pure(f"zext i{self.lanes} {{}} to i32", bits) if self.lanes < 32 else bits

    def chosen(self, mask: str, kind: str, on_true: str, on_false: str = "zeroinitializer") -> str:
        """Returns a vector of the type ``kind`` with the elements of one in the lanes of a mask, else of another."""
        form = f"select {self.vector_type('i1')} {{}}, {kind} {{}}, {kind} {{}}"
        return self.w.pure(form, mask, on_true, on_false)

    def both(self, one: str | None, other: str | None) -> str | None:
        """Returns the lanes that are active in two masks."""
        if one is None or other is None:
            return other if one is None else one
        return self.masks.combined("and", one, other)

    # ---- locals
    def slot(self, dtype: ScalarType, *, is_uniform: bool) -> AssignedLocal:
        """Returns a new place for a local of the active lanes."""
        kind = SCALAR[dtype] if is_uniform else self.vector_type(SCALAR[dtype])
        return AssignedLocal(dtype, self.w.at_entry(f"alloca {kind}"), self.mask, is_uniform=is_uniform)

    def read(self, slot: AssignedLocal) -> Value:
        """Returns the current value of a slot."""
        value = self.current.get(slot.address)
        if value is None:
            shape = Shape.UNIFORM if slot.is_uniform else Shape.VARYING
            element = SCALAR[slot.dtype]
            kind = element if slot.is_uniform else self.vector_type(element)
            value = Value(slot.dtype, self.w.here(f"load {kind}, ptr {slot.address}"), shape)
            self.current.declare(slot.address, value)
        return value

    def write(self, slot: AssignedLocal, value: Value) -> None:
        """Gives a slot a value in the active lanes; other lanes that were active at its declaration keep theirs."""
        element = SCALAR[slot.dtype]
        if slot.is_uniform:
            assert value.is_uniform
            self.w.line(f"store {element} {value.operand}, ptr {slot.address}")
            self.current.declare(slot.address, value)
            return
        kind, operand = self.vector_type(element), self.vector(value)
        if self.mask is not None and self.mask != slot.mask:
            before = self.vector(self.read(slot))
            operand = self.chosen(self.mask, kind, operand, before)
            value = self.varying(slot.dtype, operand)
        self.w.line(f"store {kind} {operand}, ptr {slot.address}")
        self.current.declare(slot.address, value)

    def declare(self, let: Let, value: Value) -> None:
        """Declares a local of the active lanes with its first value."""
        if let.name in self.shapes.mutable or let.name in self.slotted:
            slot = self.slot(value.dtype, is_uniform=self.is_uniform_local(let))
            self.write(slot, value)
            self.locals.declare(let.name, slot)
        else:
            self.locals.declare(let.name, value)

    def open_values(self) -> None:
        """Begins a scope in which slots may get values that do not hold after it."""
        self._marks.append(self.current.mark)

    def close_values(self) -> None:
        """Ends the scope that was opened last."""
        self.current.leave(self._marks.pop())

    def enter(self, label: str) -> None:
        """Starts a block that does not dominate what follows its scope."""
        self.w.open_scope()
        self.open_values()
        self.w.place(label)

    def leave(self) -> None:
        """Ends the scope that was entered last."""
        self.close_values()
        self.w.close_scope()

    def open_loop(self, head: str) -> None:
        """Starts a loop whose first block is ``head``, and in which slots get values that do not hold after it."""
        self.w.open_loop(head)
        self.open_values()

    def close_loop(self, after: str = "") -> None:
        """Ends the loop that was opened last, as ``Writer.close_loop`` does."""
        self.close_values()
        self.w.close_loop(after)

    def is_uniform_local(self, let: Let) -> bool:
        """Returns whether all lanes of the vector agree on a local, all assignments to it included."""
        return self.shapes.local(let) <= Agreement.VECTOR

    def is_read(self, let: Let) -> bool:
        """Returns whether some expression reads a local of this name."""
        if self._read is None:
            statements = walk_statements(self.program.body)
            self._read = {n.name for s in statements for n in unique_nodes(operands(s)) if isinstance(n, Var)}
        return let.name in self._read

    def locate(self, stmt: Stmt) -> None:
        """Notes that the following instructions belong to a statement."""
        if self.places is not None:
            self.places.at(stmt.loc)

    def forget(self, names: Iterable[str]) -> None:
        """Lets the locals of these names be read again, because they were assigned on some way to this place."""
        for name in names:
            slot = self.locals.get(name)
            if isinstance(slot, AssignedLocal) and self.current.get(slot.address) is not None:
                self.current.declare(slot.address, None)

    # ---- memory of a launch
    def word(self, number: int) -> str:
        """Returns word ``number`` of the frame, an i64 operand."""
        return self._of_frame(f"frame {number}", "i64", number)

    def _of_frame(self, key: str, kind: str, number: int) -> str:
        """Returns a word of the frame as a value of a type, which is kept under a key."""
        word = self.w.known(key)
        if word is None:
            place = self.w.at_entry(f"getelementptr i64, ptr %frame, i64 {number}")
            word = self.w.at_entry(f"load {kind}, ptr {place}, !invariant.load !0")
            self.w.declare("!0 = !{}")
            self.w.remember_everywhere(key, word)
        return word

    def base(self, name: str) -> str:
        """Returns the address of a bound buffer or of workgroup memory, a ptr operand."""
        buffer = self.buffers[name]
        if not buffer.is_bound:
            return self.scratch_address(self._places[name])
        return self._of_frame(f"base {name}", "ptr", FIRST_BUFFER + 2 * self._positions[name])

    def length(self, name: str) -> str:
        """Returns the number of elements of a buffer, an i64 operand below 2^32."""
        buffer = self.buffers[name]
        if buffer.count:
            return str(buffer.count)
        return self.word(FIRST_BUFFER + 1 + 2 * self._positions[name])

    def place(self, name: str, nbytes: int) -> None:
        """Reserves scratch memory for a workgroup or private buffer."""
        self._places[name] = self.scratch.reserve(nbytes)

    def scratch_address(self, offset: int) -> str:
        """Returns the address of an offset in scratch memory, a ptr operand."""
        return self.w.pure(f"getelementptr i8, ptr %scratch, i64 {offset}")

    def reserve_area(self, nbytes: int) -> PerVector:
        """Reserves scratch memory for each vector of lanes; the next one uses it again unless barriers switch."""
        nbytes = -(-nbytes // ALIGNMENT) * ALIGNMENT
        return PerVector(self.scratch.reserve(nbytes * self.areas), nbytes)

    def area_address(self, area: PerVector) -> str:
        """Returns the address of the memory of the current vector of lanes."""
        start = self.scratch_address(area.offset)
        if self.areas == 1:
            return start
        distance = self.w.pure(f"mul i64 {{}}, {area.nbytes}", self.chunk)
        return self.w.pure("getelementptr i8, ptr {}, i64 {}", start, distance)

    def proven(self, access: Load | Store | Atomic) -> bool:
        """Returns whether the index of an access is certainly in range for every active lane."""
        return not self.is_early and self._flow.proven.get(id(access), False)

    @cached_property
    def adjacent(self) -> AdjacentLoads:
        """The loads of consecutive elements, by groups."""
        return adjacent_loads(self.program, self._flow)

    def number(self, dtype: ScalarType, number: int) -> Value:
        """Returns an integer constant."""
        return literal(dtype, number & ((1 << dtype.bits) - 1))


def vector_text(element: str, numbers: list[int]) -> str:
    """Returns a vector constant of integers."""
    return f"<{', '.join(f'{element} {number}' for number in numbers)}>"

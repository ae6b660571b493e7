"""The state of the kernel being written, which all parts of the emitter share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.llvm.values import SCALAR, Shape, Value, literal
from vyre.adapters.cpu.llvm.writer import Writer
from vyre.domain.analysis.bounds_checks import bounds_facts
from vyre.domain.analysis.index_flow import IndexFlow
from vyre.domain.ir.expr import Atomic, Literal, Load
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.scoped_names import ScopedNames

U32: Final = ScalarType.U32
FIRST_BUFFER: Final = 6
"""The word of a frame with the address of the first buffer; its element count follows."""
ALIGNMENT: Final = 64
"""The alignment in bytes of everything in scratch memory."""


class Scratch:
    """Places in the scratch memory of a thread, as byte offsets."""

    def __init__(self) -> None:
        self.nbytes = 0

    def reserve(self, nbytes: int) -> int:
        """Returns the offset of ``nbytes`` bytes."""
        offset = self.nbytes
        self.nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return offset


class Kernel:
    """One function: its text so far, the locals in scope and the lanes that are active at the current place."""

    def __init__(self, program: Program, options: EmitOptions, spec: Mapping[str, Literal], lanes: int) -> None:
        self.w: Final = Writer()
        self.program: Final = program
        self.options: Final = options
        self.spec: Final = spec
        self.lanes: Final = lanes
        """W, the number of lanes of a vector."""
        x, y, z = program.workgroup_size
        self.size: Final = x * y * z
        """The number of lanes of a workgroup."""
        self.chunks: Final = -(-self.size // lanes)
        """The number of vectors of lanes of a workgroup."""
        self.buffers: Final[Mapping[str, Buffer]] = program.buffers_by_name
        self._positions: Final = {buffer.name: i for i, buffer in enumerate(program.abi_buffers)}
        self._flow: Final[IndexFlow] = bounds_facts(program, same_length=True).flow
        self.scratch: Final = Scratch()
        self._places: Final[dict[str, int]] = {}
        self.locals: Final[ScopedNames[Value]] = ScopedNames()
        self.mask: str | None = None
        """The active lanes at the current place, an operand of type <W x i1>; None if all W lanes are active.

        At least one lane is active wherever code is written.
        """
        self.chunk: str = "0"
        """The number of the current vector of lanes in its workgroup, an i64 operand."""
        self.trap_tags: Final[list[str]] = []

    # ---- types
    def vector_type(self, element: str) -> str:
        """Returns the LLVM type of W elements."""
        return f"<{self.lanes} x {element}>"

    def type_of(self, value: Value) -> str:
        """Returns the LLVM type of ``value.operand``."""
        scalar = SCALAR[value.dtype]
        return self.vector_type(scalar) if value.shape is Shape.VARYING else scalar

    # ---- values
    def uniform(self, dtype: ScalarType, operand: str) -> Value:
        """Returns a value that all active lanes share; ``operand`` is a scalar."""
        return Value(dtype, operand, Shape.UNIFORM)

    def affine(self, dtype: ScalarType, base: str, stride: int) -> Value:
        """Returns the value ``base + k * stride`` of lane k, of an integer type."""
        mask = (1 << dtype.bits) - 1
        if stride & mask == 0:
            return self.uniform(dtype, base)
        return Value(dtype, base, Shape.AFFINE, stride & mask)

    def varying(self, dtype: ScalarType, operand: str) -> Value:
        """Returns a value of which every lane has its own; ``operand`` is a vector."""
        return Value(dtype, operand)

    def splat(self, element: str, operand: str) -> str:
        """Returns a vector operand with a scalar of the LLVM type ``element`` in each lane."""
        vector = self.vector_type(element)
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
        return self.mask if self.mask is not None else "splat (i1 true)"

    def any(self, mask: str) -> str:
        """Returns an i1 that is true if a lane of a mask is active."""
        bits = self.w.pure(f"bitcast {self.vector_type('i1')} {{}} to i{self.lanes}", mask)
        return self.w.pure(f"icmp ne i{self.lanes} {{}}, 0", bits)

    def every(self, mask: str) -> str:
        """Returns an i1 that is true if all W lanes of a mask are active."""
        bits = self.w.pure(f"bitcast {self.vector_type('i1')} {{}} to i{self.lanes}", mask)
        return self.w.pure(f"icmp eq i{self.lanes} {{}}, -1", bits)

    def both(self, one: str | None, other: str | None) -> str | None:
        """Returns the lanes that are active in two masks."""
        if one is None or other is None:
            return other if one is None else one
        return self.w.pure(f"and {self.vector_type('i1')} {{}}, {{}}", one, other)

    # ---- memory of a launch
    def word(self, number: int) -> str:
        """Returns word ``number`` of the frame, an i64 operand."""
        key = f"frame {number}"
        found = self.w.known(key)
        if found is None:
            place = self.w.at_entry(f"getelementptr i64, ptr %frame, i64 {number}")
            found = self.w.at_entry(f"load i64, ptr {place}, !invariant.load !0")
            self.w.declare("!0 = !{}")
            self.w.remember_everywhere(key, found)
        return found

    def base(self, name: str) -> str:
        """Returns the address of a bound buffer or of workgroup memory, a ptr operand."""
        buffer = self.buffers[name]
        if not buffer.is_bound:
            return self.scratch_address(self._places[name])
        key = f"base {name}"
        found = self.w.known(key)
        if found is None:
            number = FIRST_BUFFER + 2 * self._positions[name]
            place = self.w.at_entry(f"getelementptr i64, ptr %frame, i64 {number}")
            found = self.w.at_entry(f"load ptr, ptr {place}, !invariant.load !0")
            self.w.declare("!0 = !{}")
            self.w.remember_everywhere(key, found)
        return found

    def length(self, name: str) -> str:
        """Returns the number of elements of a buffer, an i64 operand below 2^32."""
        buffer = self.buffers[name]
        if buffer.count:
            return str(buffer.count)
        return self.word(FIRST_BUFFER + 1 + 2 * self._positions[name])

    def place(self, name: str, nbytes: int) -> None:
        """Reserves scratch memory for a workgroup or private buffer."""
        self._places[name] = self.scratch.reserve(nbytes)

    def place_of(self, name: str) -> int:
        """Returns the offset in scratch memory of a workgroup or private buffer."""
        return self._places[name]

    def scratch_address(self, offset: int) -> str:
        """Returns the address of an offset in scratch memory, a ptr operand."""
        return self.w.pure(f"getelementptr i8, ptr %scratch, i64 {offset}")

    def proven(self, access: Load | Store | Atomic) -> bool:
        """Returns whether the index of an access is certainly in range for every active lane."""
        return self._flow.proven.get(id(access), False)

    def number(self, dtype: ScalarType, number: int) -> Value:
        """Returns an integer constant."""
        return literal(dtype, number & ((1 << dtype.bits) - 1))


def vector_text(element: str, numbers: list[int]) -> str:
    """Returns a vector constant of integers."""
    return f"<{', '.join(f'{element} {number}' for number in numbers)}>"

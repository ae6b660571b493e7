"""Handles of mutable variables and buffers of a kernel under construction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeAlias, TypeVar

from vyre.domain.ir import arguments
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.caller import caller_location, fail, located
from vyre.domain.ir.expr import Atomic, BufferLength, Load, Var
from vyre.domain.ir.foreign_use import ForeignBufferUse, refuse, set_attribute
from vyre.domain.ir.limits import U32_MAX
from vyre.domain.ir.numpy_scalars import python_number
from vyre.domain.ir.operators import ATOMIC_ELEMENTS, AtomicOp, BinaryOp, Ordering
from vyre.domain.ir.recorder import Recorder
from vyre.domain.ir.stmt import Assign, Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.value import (
    NEVER_STALE,
    Operand,
    Origin,
    Reads,
    Value,
    as_value,
    binary,
    check_in_scope,
    integer,
    typed,
)
from vyre.domain.source_location import SourceLocation

I = TypeVar("I", contravariant=True)  # noqa: E741
_U32: Final = ScalarType.U32
_Update: TypeAlias = "Callable[[Variable, Operand], Variable]"


def _updated(op: BinaryOp) -> _Update:
    """Returns the method for an in-place operator."""

    def update(self: Variable, other: Operand) -> Variable:
        self.assign(binary(op, self, other))
        return self

    return update


class Variable(Value):
    """A mutable local.  In an expression it stands for its value at the point where that expression is consumed.

    ``v.assign(e)`` and the in-place operators (``v += e``) overwrite it.
    """

    __slots__ = ("_name", "_origin")

    def __init__(self, name: str, dtype: ScalarType, origin: Origin) -> None:
        super().__init__(Var(name, loc=caller_location()), dtype)
        self._name = name
        self._origin = origin

    @property
    def reads(self) -> Reads:
        """Returns the variable itself, as of the current state of the program."""
        return {self._origin: self._origin.recorder.clock}

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            set_attribute(self, name, value, "a variable", "write v.assign(x), or v += x and the like.")

    @located
    def assign(self, value: Operand, *, loc: SourceLocation | None = None) -> None:
        """Overwrites the variable with a value of its type."""
        recorder = self._origin.recorder
        recorder.check_readable(self._origin, NEVER_STALE)
        assigned = as_value(value, self.dtype)
        if assigned.dtype is not self.dtype:
            typed(assigned, self.dtype, f"what is assigned to {self._origin.label}")
        recorder.emit(Assign(self._name, recorder.consume(assigned), loc=caller_location()))
        recorder.mark_written(self._origin)

    __iadd__: ClassVar[_Update] = _updated(BinaryOp.ADD)
    __isub__: ClassVar[_Update] = _updated(BinaryOp.SUB)
    __imul__: ClassVar[_Update] = _updated(BinaryOp.MUL)
    __itruediv__: ClassVar[_Update] = _updated(BinaryOp.DIV)

    def __ifloordiv__(self, other: Operand) -> Variable:
        self.assign(self // other)
        return self

    __imod__: ClassVar[_Update] = _updated(BinaryOp.MOD)
    __iand__: ClassVar[_Update] = _updated(BinaryOp.BIT_AND)
    __ior__: ClassVar[_Update] = _updated(BinaryOp.BIT_OR)
    __ixor__: ClassVar[_Update] = _updated(BinaryOp.BIT_XOR)
    __ilshift__: ClassVar[_Update] = _updated(BinaryOp.SHL)
    __irshift__: ClassVar[_Update] = _updated(BinaryOp.SHR)


class Atomics(ForeignBufferUse, Generic[I]):
    """Atomic updates of the elements of a buffer, at indices of type ``I``."""

    __slots__ = ()

    @located
    def atomic_add(
        self, index: I, value: Operand, *, ordering: Ordering = Ordering.SEQ_CST, loc: SourceLocation | None = None
    ) -> Value:
        """Adds to an element, wrapping; returns the old value.

        Every atomic acts at the point of its call, whether or not its result is used; out of range it returns 0 and
        changes nothing.  Elements: u32 i32 u64.
        """
        return self._update(AtomicOp.ADD, index, value, ordering)

    @located
    def atomic_or(
        self, index: I, value: Operand, *, ordering: Ordering = Ordering.SEQ_CST, loc: SourceLocation | None = None
    ) -> Value:
        """Combines an element with ``value`` by bitwise or; returns the old value."""
        return self._update(AtomicOp.OR, index, value, ordering)

    @located
    def atomic_and(
        self, index: I, value: Operand, *, ordering: Ordering = Ordering.SEQ_CST, loc: SourceLocation | None = None
    ) -> Value:
        """Combines an element with ``value`` by bitwise and; returns the old value."""
        return self._update(AtomicOp.AND, index, value, ordering)

    @located
    def atomic_xor(
        self, index: I, value: Operand, *, ordering: Ordering = Ordering.SEQ_CST, loc: SourceLocation | None = None
    ) -> Value:
        """Combines an element with ``value`` by bitwise exclusive or; returns the old value."""
        return self._update(AtomicOp.XOR, index, value, ordering)

    @located
    def atomic_min(
        self, index: I, value: Operand, *, ordering: Ordering = Ordering.SEQ_CST, loc: SourceLocation | None = None
    ) -> Value:
        """Stores the smaller of element and ``value``; returns the old value."""
        return self._update(AtomicOp.MIN, index, value, ordering)

    @located
    def atomic_max(
        self, index: I, value: Operand, *, ordering: Ordering = Ordering.SEQ_CST, loc: SourceLocation | None = None
    ) -> Value:
        """Stores the larger of element and ``value``; returns the old value."""
        return self._update(AtomicOp.MAX, index, value, ordering)

    @located
    def atomic_exchange(
        self, index: I, value: Operand, *, ordering: Ordering = Ordering.SEQ_CST, loc: SourceLocation | None = None
    ) -> Value:
        """Stores ``value``; returns the old value."""
        return self._update(AtomicOp.EXCHANGE, index, value, ordering)

    @located
    def atomic_fetch_nand(
        self, index: I, value: Operand, *, ordering: Ordering = Ordering.SEQ_CST, loc: SourceLocation | None = None
    ) -> Value:
        """Stores ``~(old & value)``; returns the old value."""
        return self._update(AtomicOp.FETCH_NAND, index, value, ordering)

    @located
    def atomic_compare_exchange(
        self,
        index: I,
        expected: Operand,
        value: Operand,
        *,
        ordering: Ordering = Ordering.SEQ_CST,
        loc: SourceLocation | None = None,
    ) -> Value:
        """Stores ``value`` if the element equals ``expected``, never failing spuriously; returns the old value."""
        return self._update(AtomicOp.COMPARE_EXCHANGE, index, value, ordering, expected)

    @abstractmethod
    def _update(self, op: AtomicOp, index: I, value: Operand, ordering: Ordering, *expected: Operand) -> Value:
        """Records an atomic operation, and returns the old value."""


class BufferHandle(Atomics[Operand]):
    """A buffer of the program under construction: ``b[i]`` loads, ``b[i] = v`` stores.

    Indices have any integer type; numbers are u32.  Out of range, also at a negative index, a load is zero and a store
    is dropped.  Narrow elements are loaded and stored as ``dtype``, the type to which they widen.
    """

    __slots__ = ("_buffer", "_dtype", "_origin", "_recorder")

    def __init__(self, recorder: Recorder, buffer: Buffer, element: ScalarType) -> None:
        self._recorder = recorder
        self._buffer = buffer
        self._dtype = element.widened
        self._origin = Origin(recorder, "buffer", buffer.name, mutable=buffer.is_writable)

    @property
    def name(self) -> str:
        """Returns the name of the buffer in the program."""
        return self._buffer.name

    @property
    def origin(self) -> Origin:
        """Returns the origin that values reading this buffer refer to."""
        return self._origin

    @property
    def dtype(self) -> ScalarType:
        """Returns the type of ``b[i]``."""
        return self._dtype

    @property
    def length(self) -> Value:
        """Returns the number of elements bound at the dispatch (u32)."""
        return Value(BufferLength(self.name, loc=caller_location()), _U32, {self._origin: NEVER_STALE})

    def __getitem__(self, index: Operand) -> Value:
        element = self._index(index)
        check_in_scope(element)
        stamp = self._recorder.clock if self._origin.mutable else NEVER_STALE
        load = Load(self.name, element.expr, loc=caller_location())
        return Value(load, self._dtype, {**element.reads, self._origin: stamp})

    def __setitem__(self, index: Operand, value: Operand) -> None:
        if not self._buffer.is_writable:
            fail(f"{self._origin.label} is read-only", "declare it with p.inout or p.output to store to it.")
        place = self._index(index)
        if not (isinstance(value, Value) and value.dtype is self._dtype):
            value = typed(value, self._dtype, f"what is stored to {self._origin.label}")
        take = self._recorder.consume
        self._recorder.emit(Store(self.name, take(place), take(value), loc=caller_location()))
        self._recorder.mark_written(self._origin)

    def __iter__(self) -> None:
        refuse("a buffer cannot be iterated over in Python", "loop with p.for_(0, buffer.length).")

    def __repr__(self) -> str:
        return f"<{self._origin.label} of {self._buffer.element!r}>"

    def _index(self, index: Operand) -> Value:
        if not isinstance(index, Value):
            self._check_plain_index(index)
        elif index.dtype.is_integer:
            return index
        return integer(index, f"an index of {self._origin.label}")

    def _check_plain_index(self, index: object) -> None:
        name = self.name
        match python_number(index):
            case tuple() as indices:
                refuse(
                    f"{self._origin.label} has one axis, and {len(indices)} indices are given",
                    f"write m = p.view2d({name}, width) and m[row, column], or compute the position.",
                )
            case slice():
                refuse(
                    f"{self._origin.label} cannot be sliced",
                    f"loop over the elements: `with p.for_(start, stop) as k:` and {name}[k].",
                )
            case int(position) if -U32_MAX <= position < 0:
                fail(
                    f"the index {position} does not fit u32, and {self._origin.label} is not counted from its end",
                    f"write {name}[{name}.length - {-position}].",
                )

    def _update(self, op: AtomicOp, index: Operand, value: Operand, ordering: Ordering, *expected: Operand) -> Value:
        if self._buffer.is_private:
            fail(
                f"{self._origin.label} is private memory, on which there are no atomics",
                "write a[i] = a[i] + x: no other lane has the array.",
            )
        if not self._buffer.is_writable or self._buffer.access is Access.WRITE_ONLY:
            fail(
                f"{self._origin.label} is {self._buffer.access.name.lower()}; an atomic reads and writes it",
                "declare it with p.inout, p.output or p.workgroup.",
            )
        if self._buffer.element not in ATOMIC_ELEMENTS:
            fail(
                f"{self._origin.label} holds {self._buffer.element!r}, on which there are no atomics",
                "use a buffer of u32, i32 or u64; add floats up in workgroup memory, or as integers in fixed point.",
            )
        take = self._recorder.consume
        place = take(self._index(index))
        compared = take(typed(expected[0], self._dtype, "the expected value")) if expected else None
        operand = take(typed(value, self._dtype, "the operand of an atomic"))
        atomic = Atomic(op, self.name, place, compared, operand, arguments.ordering(ordering), loc=caller_location())
        old = self._recorder.declare(atomic, self._dtype, "old")
        self._recorder.mark_written(self._origin)
        return old

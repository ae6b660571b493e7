"""The part that the builder for people and the builder for compilers have in common.

They differ in what an operand is (an expression with Python's operators, or a node) and in what names a buffer (a
handle, or its name), and in how bodies are opened.  Everything else is the same call with the same names here.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from vyre.domain.ir import arguments
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.buffers import NO_HINTS, Access, Buffer, BufferHints, MemoryKind
from vyre.domain.ir.caller import At, fail, located
from vyre.domain.ir.definitions_in_use import DefinitionsInUse
from vyre.domain.ir.numpy_scalars import Size
from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.program import Program
from vyre.domain.ir.value import TypeLike
from vyre.domain.names import Dim3
from vyre.domain.printable import shown
from vyre.domain.source_location import SourceLocation

OperandT = TypeVar("OperandT", contravariant=True)
"""The type of the operands of statements."""
ArrayT = TypeVar("ArrayT", contravariant=True)
"""The type by which a statement names a buffer."""
HandleT = TypeVar("HandleT", covariant=True)
"""The type that the declaration of a buffer returns."""


class SharedBuilder(Generic[OperandT, ArrayT, HandleT]):
    """The declarations and the statements without bodies of both builders.

    ``loc`` is, in every method that has it, the position in the user's source that reports and errors name; None: that
    of the innermost ``with builder.at(loc)``.
    """

    __slots__ = ("_bindings", "_buffers", "_definitions", "_loc", "_name", "_workgroup")

    def _begin(self, name: str | None, workgroup: Size | tuple[Size, ...], loc: SourceLocation | None) -> None:
        self._name = None if name is None else arguments.text(name, "the name of a program")
        self._workgroup: Dim3 = arguments.workgroup_size(workgroup)
        self._loc = loc
        self._buffers: dict[str, Buffer] = {}
        self._bindings = 0
        self._definitions = DefinitionsInUse()

    def at(self, loc: SourceLocation) -> AbstractContextManager[None]:
        """Gives what is recorded in the ``with`` block, and every error raised there, a location in the source of the
        user; of blocks within each other the innermost counts.
        """
        return At(loc)

    # -- buffers --------------------------------------------------------------------------------------

    def input(
        self, name: str, dtype: TypeLike, count: Size | None = None, *, loc: SourceLocation | None = None
    ) -> HandleT:
        """Declares a read-only buffer of ``count`` elements, or (None, 0) of as many as the caller passes."""
        return self.buffer(name, dtype, Access.READ_ONLY, count, loc=loc)

    def inout(
        self,
        name: str,
        dtype: TypeLike,
        count: Size | None = None,
        *,
        output_range: tuple[Size, Size] | None = None,
        loc: SourceLocation | None = None,
    ) -> HandleT:
        """Declares a buffer that is passed in, changed and returned; with ``output_range`` only bytes [start, end)
        are returned.
        """
        return self.buffer(name, dtype, Access.READ_WRITE, count, output_range=output_range, loc=loc)

    def output(
        self,
        name: str,
        dtype: TypeLike,
        count: Size | None = None,
        like: ArrayT | str | None = None,
        *,
        output_range: tuple[Size, Size] | None = None,
        loc: SourceLocation | None = None,
    ) -> HandleT:
        """Declares a buffer that the backend allocates, zeroed, and returns.

        Its number of elements is ``count``, or that of the buffer ``like``, or the one in
        ``DispatchConfig.output_counts``.
        """
        is_output, access = True, Access.READ_WRITE
        return self.buffer(
            name, dtype, access, count, is_output=is_output, like=like, output_range=output_range, loc=loc
        )

    def uniform(
        self, name: str, dtype: TypeLike, count: Size | None = None, *, loc: SourceLocation | None = None
    ) -> HandleT:
        """Declares a small read-only buffer of which all lanes read the same elements."""
        return self.buffer(name, dtype, Access.UNIFORM, count, loc=loc)

    def workgroup(self, name: str, dtype: TypeLike, count: Size, *, loc: SourceLocation | None = None) -> HandleT:
        """Declares memory that the lanes of a workgroup share, zeroed at the start of each workgroup."""
        return self.buffer(name, dtype, Access.WORKGROUP, count, loc=loc)

    def array(self, name: str, dtype: TypeLike, count: Size, *, loc: SourceLocation | None = None) -> HandleT:
        """Declares memory that every lane has for itself, zeroed at the start of each lane: at most 64 KiB in all."""
        return self.buffer(name, dtype, Access.PRIVATE, count, loc=loc)

    @located
    def buffer(
        self,
        name: str,
        dtype: TypeLike,
        access: Access = Access.READ_ONLY,
        count: Size | None = None,
        *,
        is_output: bool = False,
        kind: MemoryKind | None = None,
        like: ArrayT | str | None = None,
        output_range: tuple[Size, Size] | None = None,
        hints: BufferHints = NO_HINTS,
        loc: SourceLocation | None = None,
    ) -> HandleT:
        """Declares a buffer with the next binding number, which is one more than the largest so far.

        ``count``: number of elements; None: as many as the caller passes.  ``is_output``: the backend allocates the
        buffer, zeroed, and returns it; its number of elements may be that of the buffer ``like``.  ``kind`` None: the
        usual memory for the access.  A scalar parameter has ``Access.UNIFORM``, count 1 and ``MemoryKind.PUSH``.
        ``output_range``: bytes [start, end) that are returned instead of all.
        """
        name = arguments.name(name, "the name of a buffer")
        self._check_declaration(name)
        arguments.flag(is_output, "is_output")
        for value, wanted in ((access, Access), (kind or MemoryKind.GLOBAL, MemoryKind), (hints, BufferHints)):
            if not isinstance(value, wanted):
                fail(f"`{name}` is declared with {shown(value)}", f"give a member of vyre.ir.{wanted.__name__}.")
        is_bound = access not in (Access.WORKGROUP, Access.PRIVATE)
        element = arguments.element(dtype, name, is_value=kind is MemoryKind.PUSH)
        count = 0 if count is None and is_bound else arguments.count(count, name, needed=not is_bound)
        if output_range is not None:
            output_range = arguments.output_range(output_range, name)
        model = None if like is None else self._model(like, name)
        buffer = Buffer.make(
            name,
            self._bindings if is_bound else 0,
            access,
            element,
            count,
            is_output=is_output,
            kind=kind,
            like=model,
            output_range=output_range,
            hints=hints,
            loc=self._place(),
        )
        return self._declared(buffer)

    def _keep(self, buffer: Buffer) -> None:
        self._buffers[buffer.name] = buffer
        if buffer.is_bound:
            self._bindings = max(self._bindings, buffer.binding + 1)

    # -- statements -----------------------------------------------------------------------------------

    @located
    def break_(self, *, loc: SourceLocation | None = None) -> None:
        """Leaves the innermost loop."""
        self._emit_in_loop(ir.Break(loc=self._place()), "break_()")

    @located
    def continue_(self, *, loc: SourceLocation | None = None) -> None:
        """Continues with the next round of the innermost loop."""
        self._emit_in_loop(ir.Continue(loc=self._place()), "continue_()")

    @located
    def return_(self, *, loc: SourceLocation | None = None) -> None:
        """Ends the lane."""
        self._emit(ir.Return(loc=self._place()))

    @located
    def trap(self, address: OperandT, tag: str, *, loc: SourceLocation | None = None) -> None:
        """Ends the lane and fails the dispatch with ``TrapError(tag, address)``; ``address`` is u32."""
        tag = arguments.text(tag, "the tag of a trap")
        self._emit(ir.Trap(self._operand(address, "the address of a trap"), tag, loc=self._place()))

    @located
    def barrier(self, ordering: Ordering = Ordering.SEQ_CST, *, loc: SourceLocation | None = None) -> None:
        """Makes all lanes of the workgroup wait for each other, or those of the grid with ``Ordering.GRID_SYNC``; their
        earlier writes become visible to each other.
        """
        self._emit(ir.Barrier(arguments.ordering(ordering), loc=self._place()))

    def grid_sync(self, *, loc: SourceLocation | None = None) -> None:
        """Makes all lanes of the grid wait for each other; allowed at the top level of the program only."""
        self.barrier(Ordering.GRID_SYNC, loc=loc)

    @located
    def async_load(
        self,
        source: ArrayT,
        destination: ArrayT,
        *,
        offset: OperandT,
        size: OperandT,
        tag: str,
        loc: SourceLocation | None = None,
    ) -> None:
        """Captures ``size`` bytes of ``source`` from byte ``offset``; ``async_wait(tag)`` writes them to the start of
        ``destination``.  Offset and size are u32.
        """
        self._copy(ir.AsyncLoad, source, destination, offset, size, tag)

    @located
    def async_store(
        self,
        source: ArrayT,
        destination: ArrayT,
        *,
        offset: OperandT,
        size: OperandT,
        tag: str,
        loc: SourceLocation | None = None,
    ) -> None:
        """Captures the first ``size`` bytes of ``source``; ``async_wait(tag)`` writes them to ``destination`` from
        byte ``offset``.  Offset and size are u32.
        """
        self._copy(ir.AsyncStore, source, destination, offset, size, tag)

    @located
    def async_wait(self, tag: str, *, loc: SourceLocation | None = None) -> None:
        """Performs the write of the copy issued under ``tag``."""
        self._emit(ir.AsyncWait(arguments.text(tag, "the tag of a copy"), loc=self._place()))

    def _copy(
        self,
        kind: type[ir.AsyncLoad] | type[ir.AsyncStore],
        source: ArrayT,
        destination: ArrayT,
        offset: OperandT,
        size: OperandT,
        tag: str,
    ) -> None:
        tag = arguments.text(tag, "the tag of a copy")
        names = (
            self._array_name(source, "the source of a copy"),
            self._array_name(destination, "the destination of a copy"),
        )
        first = self._operand(offset, "the offset of a copy")
        length = self._operand(size, "the size of a copy")
        self._emit(kind(*names, first, length, tag, loc=self._place()))

    # -- the program ----------------------------------------------------------------------------------

    def _built(self, body: ir.Body, *, check: bool) -> Program:
        buffers, definitions = tuple(self._buffers.values()), self._definitions.all()
        program = Program(buffers, self._workgroup, body, self._name, definitions=definitions, loc=self._loc)
        if check:
            from vyre.domain.validation.validator import check_rules

            check_rules(program).raise_if_invalid()
        return program

    # -- what the builders do differently -------------------------------------------------------------

    @abstractmethod
    def _place(self) -> SourceLocation | None:
        """Returns the location of what is recorded now."""

    @abstractmethod
    def _operand(self, operand: OperandT, role: str) -> ir.Expr:
        """Returns the expression of a u32 operand; ``role`` names it in the error."""

    @abstractmethod
    def _array_name(self, array: ArrayT, role: str) -> str:
        """Returns the name of a buffer; ``role`` names it in the error."""

    @abstractmethod
    def _model(self, like: ArrayT | str, name: str) -> str:
        """Returns the name of the buffer whose length the buffer ``name`` takes over."""

    @abstractmethod
    def _check_declaration(self, name: str) -> None:
        """Raises ``BuildError`` if no buffer of this name can be declared now."""

    @abstractmethod
    def _declared(self, buffer: Buffer) -> HandleT:
        """Keeps a new buffer, and returns what names it."""

    @abstractmethod
    def _emit(self, stmt: ir.Stmt) -> None:
        """Appends a statement to the open body."""

    @abstractmethod
    def _emit_in_loop(self, stmt: ir.Stmt, what: str) -> None:
        """Appends a statement that is legal in loops only."""

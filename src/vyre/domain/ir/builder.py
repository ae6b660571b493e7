"""``ProgramBuilder``: kernels written in Python.

Statements are recorded in the order of the calls; ``with`` blocks open bodies::

    with ProgramBuilder("saxpy", workgroup=256) as p:
        a = p.param("a", f32)
        x = p.input("x", f32)
        y = p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = a * x[i] + y[i]
    saxpy = p.build()

A new operation is a Python function over values; it takes the builder if it records statements.  Everything that it
records is ordinary IR, so every backend runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias, TypeVar

from vyre.domain.errors import UnfinishedProgram
from vyre.domain.ir import arguments
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.caller import At, caller_location, fail, given_location, located
from vyre.domain.ir.chains import IfChain, Link
from vyre.domain.ir.definitions_in_use import warn_of_deprecated
from vyre.domain.ir.foreign_calls import explain, explained
from vyre.domain.ir.foreign_use import ForeignBuilderUse
from vyre.domain.ir.grid_loops import loop_bounds
from vyre.domain.ir.handles import BufferHandle, Variable
from vyre.domain.ir.numpy_scalars import NumpyInteger, Size
from vyre.domain.ir.operators import INTEGERS, UnaryOp
from vyre.domain.ir.program import Access, Buffer, MemoryKind, Program
from vyre.domain.ir.recorder import BlockContext, Recorder
from vyre.domain.ir.shared_builder import SharedBuilder
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.value import (
    NEVER_STALE,
    Operand,
    Origin,
    TypeLike,
    Value,
    as_value,
    check_in_scope,
    condition,
    derive,
    literal,
    type_error,
    typed,
)
from vyre.domain.printable import shown
from vyre.domain.source_location import SourceLocation

if TYPE_CHECKING:  # few kernels have switches and views
    from vyre.domain.ir.definitions import Definition
    from vyre.domain.ir.switching import SwitchArms
    from vyre.domain.ir.views import View2d, View3d

__all__ = ["BufferHandle", "Condition", "Operand", "ProgramBuilder", "TypeLike", "Value", "Variable", "literal"]

Axis: TypeAlias = Literal[0, 1, 2] | NumpyInteger
Condition: TypeAlias = Operand | Callable[[], Operand]
_T = TypeVar("_T")
_U32: Final = ScalarType.U32
_SPEC_TYPES: Final = frozenset({ScalarType.U32, ScalarType.I32, ScalarType.F32, ScalarType.BOOL})
_MAX_ROUNDS: Final = 0xFFFF_FFFF


def _nothing() -> None:
    return None


class ProgramBuilder(ForeignBuilderUse, SharedBuilder[Operand, BufferHandle, BufferHandle]):
    """Records one kernel.  Every misuse raises ``BuildError`` naming the user's line.

    ``workgroup`` is the number of lanes per workgroup along x, or a tuple of up to three axes.  Buffers and
    parameters get ascending binding numbers, which is the order of inputs and outputs.  ``loc``, here and in every
    method that has it, and ``with p.at(loc)`` are the position in the source of a compiler; without them it is the line
    of the Python code.
    """

    __slots__ = ("_copies", "_entered", "_recorder", "_specs", "_writable")

    @explained
    @located
    def __init__(
        self, name: str | None = None, *, workgroup: Size | tuple[Size, ...], loc: SourceLocation | None = None
    ) -> None:
        self._begin(name, workgroup, caller_location())
        self._writable: list[Origin] = []
        self._specs: dict[str, ir.Literal] = {}
        self._copies: dict[str, Origin] = {}
        self._recorder = Recorder()
        self._entered = False

    def __enter__(self) -> Self:
        if self._entered or self._recorder.closed:
            fail("this builder was entered or built before", "make a new ProgramBuilder for each program.")
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder.closed = True
        if error is not None:
            self._recorder.note_failure(f"the `with` block of the builder ({self._loc})", error)
            explain(error)

    def build(self, *, check: bool = True) -> Program:
        """Returns the finished program.  No statement can be recorded afterwards.

        Raises ``UnfinishedProgram`` (an ``UnfinishedBuild``) while a `with` block of the builder is open, and
        permanently after one of them ended with an exception, since a part of the kernel is missing then.  Raises
        ``InvalidProgram`` with the full report if the program breaks a rule; with ``check=False`` that is left to
        ``vyre.validate``.
        """
        arguments.flag(check, "check")
        self._recorder.check_entered()
        self._check_finished()
        self._recorder.closed = True
        return self._built(tuple(self._recorder.frames[0].body), check=check)

    # -- buffers, parameters, constants -------------------------------------------------------------

    @located
    def view2d(self, buffer: BufferHandle, width: Operand, *, loc: SourceLocation | None = None) -> View2d:
        """Returns a view of a buffer as rows of ``width`` elements (u32): ``m[y, x]`` is the element y * width + x.

        ``x`` is checked against the width and ``y`` against the rows that exist, the last of which may be partial: what
        is outside loads as zero and is not stored.
        """
        from vyre.domain.ir.views import View2d

        return View2d(self._recorder, self._viewed(buffer), width)

    @located
    def view3d(
        self, buffer: BufferHandle, height: Operand, width: Operand, *, loc: SourceLocation | None = None
    ) -> View3d:
        """Returns a view of a buffer as planes of ``height`` rows of ``width`` elements (u32 both): ``m[z, y, x]`` is
        the element (z * height + y) * width + x, with each coordinate checked.
        """
        from vyre.domain.ir.views import View3d

        return View3d(self._recorder, self._viewed(buffer), height, width)

    @located
    def param(self, name: str, dtype: TypeLike, *, loc: SourceLocation | None = None) -> Value:
        """Declares a scalar argument of the kernel; the caller passes a Python or NumPy scalar."""
        return self.buffer(name, dtype, Access.UNIFORM, 1, kind=MemoryKind.PUSH)[0]

    @located
    def spec(self, name: str, default: Operand, *, loc: SourceLocation | None = None) -> Value:
        """Declares a constant fixed at compile time: ``default`` unless the dispatch specializes it (u32 i32 f32
        bool).
        """
        name = arguments.name(name, "the name of a constant")
        value = as_value(default)
        check_in_scope(value)
        if not isinstance(value.expr, ir.Literal):
            fail(f"the default of `{name}` is no constant", "give a Python number or a literal such as i32(4).")
        if value.dtype not in _SPEC_TYPES:
            type_error("spec", value.dtype, _SPEC_TYPES)
        known = self._specs.setdefault(name, value.expr)
        if known != value.expr:
            fail(f"`{name}` was declared with another default", "declare it once and reuse the value.")
        return Value(ir.SpecConst(name, value.expr, loc=caller_location()), value.dtype)

    # -- ids ------------------------------------------------------------------------------------------

    @located
    def global_id(self, axis: Axis = 0, *, loc: SourceLocation | None = None) -> Value:
        """Returns the position of the lane in the whole grid (u32)."""
        return self._launch_id(ir.IdKind.GLOBAL, axis)

    @located
    def local_id(self, axis: Axis = 0, *, loc: SourceLocation | None = None) -> Value:
        """Returns the position of the lane in its workgroup (u32)."""
        return self._launch_id(ir.IdKind.LOCAL, axis)

    @located
    def group_id(self, axis: Axis = 0, *, loc: SourceLocation | None = None) -> Value:
        """Returns the position of the workgroup in the grid (u32)."""
        return self._launch_id(ir.IdKind.GROUP, axis)

    @located
    def num_groups(self, axis: Axis = 0, *, loc: SourceLocation | None = None) -> Value:
        """Returns the number of workgroups in the grid (u32)."""
        return self._launch_id(ir.IdKind.NUM_GROUPS, axis)

    @located
    def subgroup_lane(self, *, loc: SourceLocation | None = None) -> Value:
        """Returns the position of the lane in its subgroup, 0..31 (u32)."""
        return Value(ir.SubgroupLane(loc=caller_location()), _U32)

    @located
    def subgroup_size(self, *, loc: SourceLocation | None = None) -> Value:
        """Returns the number of lanes of a full subgroup, 32 (u32)."""
        return Value(ir.SubgroupSize(loc=caller_location()), _U32)

    # -- operations -----------------------------------------------------------------------------------

    def define(self, *definitions: Definition) -> None:
        """Adds definitions of operations to the program, in front of those that call them."""
        for definition in definitions:
            self._definitions.add(definition)

    @located
    def call(self, operation: Definition | str, *args: Operand, loc: SourceLocation | None = None) -> Value:
        """Returns the result of an operation for these arguments, which have the types of its parameters.

        ``operation`` is a definition, or an id such as ``"acme.gelu"``: a definition of the program takes precedence
        over one of the registry.
        """
        if isinstance(operation, str):
            definition = self._definitions.named(operation)
        else:
            definition = self._definitions.add(operation)
        wanted = definition.parameters
        if len(args) != len(wanted):
            takes = ", ".join(f"{each.name}: {each.dtype.text}" for each in wanted)
            fail(f"`{definition.id}` takes {len(wanted)} arguments, got {len(args)}", f"pass ({takes}).")
        values = [
            typed(value, each.dtype, f"argument `{each.name}` of {definition.id}")
            for each, value in zip(wanted, args, strict=True)
        ]
        place = caller_location()
        warn_of_deprecated(definition, place)
        expr = ir.Call(definition.id, tuple([value.expr for value in values]), loc=place)
        return derive(expr, definition.result_type, *values) if values else Value(expr, definition.result_type)

    # -- locals ---------------------------------------------------------------------------------------

    @located
    def let(self, value: Operand, name: str | None = None, *, loc: SourceLocation | None = None) -> Value:
        """Evaluates ``value`` once, at this point, and returns an immutable local that holds the result."""
        hint = arguments.hint(name, "t")
        v = as_value(value)
        return self._recorder.declare(self._recorder.consume(v), v.dtype, hint)

    @located
    def var(self, value: Operand, name: str | None = None, *, loc: SourceLocation | None = None) -> Variable:
        """Declares a mutable local with the initial value ``value``."""
        hint = arguments.hint(name, "v")
        v = as_value(value)
        unique, origin = self._recorder.local(hint, mutable=True)
        self._recorder.emit(ir.Let(unique, self._recorder.consume(v), loc=caller_location()))
        return Variable(unique, v.dtype, origin)

    # -- control flow ---------------------------------------------------------------------------------

    @located
    def if_(self, test: Operand, *, loc: SourceLocation | None = None) -> AbstractContextManager[None]:
        """Opens a branch: the body of ``with p.if_(c):`` runs where ``c`` holds (a number means ``!= 0``)."""
        expr, loc = self._recorder.consume(condition(test)), caller_location()

        return self._block("p.if_", _nothing, lambda body: IfChain(Link(expr, body, loc)))

    @located
    def elif_(self, test: Operand, *, loc: SourceLocation | None = None) -> AbstractContextManager[None]:
        """Opens another branch: ``with p.elif_(c):`` directly follows the block of an ``if_`` or ``elif_``.

        Only lanes that took no earlier branch evaluate the condition.  A chain of any length is nested one deep.
        """
        chain = self._chain("p.elif_")
        expr, loc = self._recorder.consume(condition(test)), caller_location()

        def finish(body: ir.Body) -> IfChain:
            chain.links.append(Link(expr, body, loc))
            return chain

        return self._block("p.elif_", _nothing, finish)

    @located
    def else_(self, *, loc: SourceLocation | None = None) -> AbstractContextManager[None]:
        """Opens the other branch: ``with p.else_():`` directly follows the block of an ``if_`` or ``elif_``.

        It runs where none of their conditions holds.
        """
        chain, frame = self._chain("p.else_"), self._recorder.frames[-1]

        def finish(body: ir.Body) -> ir.Stmt:
            frame.take_chain()
            return chain.statement(body)

        return self._block("p.else_", _nothing, finish)

    @located
    def switch(self, selector: Operand, *, loc: SourceLocation | None = None) -> AbstractContextManager[SwitchArms]:
        """Opens a switch over an integer, which is evaluated once: ``with p.switch(x) as s:`` holds its arms,
        ``with s.case(1, 2):`` and, at the end, ``with s.default():``.
        """
        value = as_value(selector)
        if not value.dtype.is_integer:
            type_error("switch", value.dtype, INTEGERS)
        from vyre.domain.ir.switching import switch_block

        return self._opened(switch_block(self._recorder, value))

    @located
    def for_(
        self,
        start: Operand,
        stop: Operand,
        step: Operand = 1,
        name: str | None = None,
        *,
        loc: SourceLocation | None = None,
    ) -> AbstractContextManager[Value]:
        """Opens a loop: in ``with p.for_(start, stop, step) as k:``, ``k`` counts up while ``k < stop``.

        With a negative step it counts down while ``k > stop``.  The bounds are read once, before the first round, and
        have one integer type, which ``k`` takes: that of the values among them; if all are numbers, i32 if one of them
        is negative, and u32 if not.  Nothing wraps: a loop ends before ``k`` would leave its type.
        """
        hint = arguments.hint(name, "k")
        bounds = loop_bounds(start, stop, step)
        first, last, stride = map(self._recorder.consume, bounds)
        unique, dtype = self._recorder.unique(hint), bounds[0].dtype
        loc = caller_location()

        def enter() -> Value:
            return self._recorder.loop_variable(unique, dtype, loc)

        def finish(body: ir.Body) -> ir.Stmt:
            return ir.Loop(unique, first, last, stride, body, loc=loc)

        return self._block("p.for_", enter, finish, is_loop=True)

    @located
    def while_(self, test: Condition, *, loc: SourceLocation | None = None) -> AbstractContextManager[None]:
        """Opens a loop: ``with p.while_(c):`` repeats its body while ``c`` holds.

        ``c`` is evaluated anew before each round.  It is an expression over variables and buffers, or a function that
        builds one and may record statements (``p.while_(lambda: queue.atomic_add(0, 1) < n)``).  The loop ends after
        2^32 - 1 rounds at the latest.
        """
        loc = caller_location()
        unique = self._recorder.unique("round")
        again = test if callable(test) else self._recheckable(test)

        is_given = given_location() is not None

        def enter() -> None:
            with At(loc) if is_given else nullcontext():
                expr = self._recorder.consume(condition(arguments.answer(again)))
            self._recorder.emit(ir.If(ir.Unary(UnaryOp.LOGICAL_NOT, expr, loc=loc), (ir.Break(loc=loc),), loc=loc))

        def finish(body: ir.Body) -> ir.Stmt:
            zero, most, one = (ir.Literal(_U32, n) for n in (0, _MAX_ROUNDS, 1))
            return ir.Loop(unique, zero, most, one, body, loc=loc)

        return self._block("p.while_", enter, finish, is_loop=True)

    @located
    def grid_loop(
        self, limit: Operand, flag: BufferHandle, name: str | None = None, *, loc: SourceLocation | None = None
    ) -> AbstractContextManager[Value]:
        """Opens a loop whose rounds all lanes of the grid run together, until one changes nothing: in
        ``with p.grid_loop(limit, changed) as rounds:`` a lane that changes something stores to ``changed[0]``.

        ``flag`` is a writable u32 buffer.  Its element 0 is 0 when a round starts, and the loop ends after a round that
        left it 0, or after ``limit`` rounds (u32, the same in the whole grid; 0 leaves the flag alone).  The body only
        stores to the flag or updates it atomically.  All lanes wait for each other before the first round and after
        each one.  ``rounds`` can be used behind the loop: the number of rounds run.  Top level only.
        """
        from vyre.domain.ir.grid_loops import grid_loop_block

        return self._opened(grid_loop_block(self._recorder, limit, flag, name, self._writable))

    @located
    def region(self, generator: str, *, loc: SourceLocation | None = None) -> AbstractContextManager[None]:
        """Opens a scope with a provenance label, which changes no result."""
        label = arguments.text(generator, "the label of a region")
        loc = caller_location()
        return self._block("p.region", _nothing, lambda body: ir.Region(label, body, loc=loc), is_scope=False)

    @located
    def block(self, *, loc: SourceLocation | None = None) -> AbstractContextManager[None]:
        """Opens a scope."""
        loc = caller_location()
        return self._block("p.block", _nothing, lambda body: ir.Block(body, loc=loc), is_scope=False)

    # -- internals ------------------------------------------------------------------------------------

    def _check_finished(self) -> None:
        recorder = self._recorder
        if recorder.failure is not None:
            raise UnfinishedProgram(
                f"{recorder.failure}, so a part of this kernel is missing",
                fix="repair what raised it, and build the kernel anew.",
                loc=caller_location(),
            )
        if len(recorder.frames) > 1 or (self._entered and not recorder.closed):
            raise UnfinishedProgram(
                "build() is called inside an open block",
                fix="call it after the `with` statements have ended.",
                loc=caller_location(),
            )

    def _block(
        self,
        what: str,
        enter: Callable[[], _T],
        finish: Callable[[ir.Body], ir.Stmt | IfChain],
        *,
        is_loop: bool = False,
        is_scope: bool = True,
    ) -> BlockContext[_T]:
        block = BlockContext(self._recorder, what, enter, finish, is_loop=is_loop, is_scope=is_scope)
        return self._opened(block)

    def _opened(self, block: BlockContext[_T]) -> BlockContext[_T]:
        """Requires that a block is entered next, and that a statement may stand here."""
        self._recorder.check_entered()
        self._recorder.check_allowed()
        return self._recorder.announce(block)

    def _chain(self, what: str) -> IfChain:
        """Returns the chain of branches to which ``what`` adds one."""
        self._recorder.check_entered()
        chain = self._recorder.frames[-1].chain
        if chain is None:
            fail(
                f"{what}() does not follow a p.if_() block",
                "put it directly after the `with p.if_(...)` or `with p.elif_(...)` block"
                + ("; a condition that records a statement belongs into p.else_." if what == "p.elif_" else "."),
            )
        return chain

    def _viewed(self, buffer: BufferHandle) -> BufferHandle:
        if not isinstance(buffer, BufferHandle):
            fail(f"{shown(buffer)} is viewed", "give a buffer, as p.input or p.array returned it.")
        self._recorder.check_readable(buffer.origin, NEVER_STALE)
        return buffer

    def _recheckable(self, test: Operand) -> Callable[[], Value]:
        """Returns a condition, written before its loop, as a function that evaluates it in each round."""
        value = condition(test)
        if not any(origin.mutable for origin in value.reads) and (value.reads or not _is_constant(value.expr)):
            fail(
                "the condition of p.while_ reads nothing that can change",
                "test a variable, pass a function that builds the condition, or use p.while_(True) and p.break_().",
            )
        expr = self._recorder.consume(value)
        return lambda: Value(expr, value.dtype)

    def _copy(
        self,
        kind: type[ir.AsyncLoad] | type[ir.AsyncStore],
        source: BufferHandle,
        destination: BufferHandle,
        offset: Operand,
        size: Operand,
        tag: str,
    ) -> None:
        super()._copy(kind, source, destination, offset, size, tag)
        self._copies[tag] = destination.origin

    def _place(self) -> SourceLocation:
        return caller_location()

    def _operand(self, operand: Operand, role: str) -> ir.Expr:
        return self._recorder.consume(typed(operand, _U32, role))

    def _array_name(self, array: BufferHandle, role: str) -> str:
        if not isinstance(array, BufferHandle):
            fail(f"{role} is {shown(array)}", "give a buffer, as p.input or p.workgroup returned it.")
        self._recorder.check_readable(array.origin, NEVER_STALE)
        return array.name

    def _check_declaration(self, name: str) -> None:
        if self._recorder.closed:
            fail(f"`{name}` is declared after the builder was closed", "declare it inside the `with` block.")

    def _declared(self, buffer: Buffer) -> BufferHandle:
        assert isinstance(buffer.element, ScalarType)
        self._recorder.reserve(buffer.name)
        self._keep(buffer)
        handle = BufferHandle(self._recorder, buffer, buffer.element)
        if buffer.is_writable and not buffer.is_private:
            self._writable.append(handle.origin)
        return handle

    def _emit(self, stmt: ir.Stmt) -> None:
        self._recorder.emit(stmt)
        if type(stmt) is ir.Barrier:
            self._recorder.mark_written(*self._writable)
        elif type(stmt) is ir.AsyncWait and stmt.tag in self._copies:
            self._recorder.mark_written(self._copies.pop(stmt.tag))

    def _emit_in_loop(self, stmt: ir.Stmt, what: str) -> None:
        self._recorder.emit_in_loop(stmt, f"p.{what}")

    def _model(self, like: BufferHandle | str, name: str) -> str:
        """Returns the name of the buffer whose length the buffer ``name`` takes over."""
        if isinstance(like, BufferHandle):
            self._recorder.check_readable(like.origin, NEVER_STALE)
            return like.name
        if not isinstance(like, str):
            fail(f"`{name}` is to have the length of {shown(like)}", "give a buffer of this builder, or its name.")
        return arguments.text(like, "the name of a buffer")

    def _launch_id(self, kind: ir.IdKind, axis: Axis) -> Value:
        return Value(ir.LaunchId(kind, arguments.axis(axis), loc=caller_location()), _U32)


def _is_constant(expr: ir.Expr) -> bool:
    """Returns whether an expression is made of literals and specialization constants only."""
    return all(ir.children(node) or isinstance(node, ir.Literal | ir.SpecConst) for node in ir.walk(expr))

"""``Recorder``: the statements of a program under construction, its scopes and the times of changes.

The builder's surface and its handles record through it.  It guarantees that names are unique, that a value is
consumed only in its program, in its scope and while the buffers and locals that it reads are unchanged, and that
every opened block is entered and closed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from vyre.domain.errors import BuildError, UnknownAttribute
from vyre.domain.ir.caller import caller_location, fail
from vyre.domain.ir.chains import IfChain
from vyre.domain.ir.expr import Expr, Var
from vyre.domain.ir.foreign_calls import explain
from vyre.domain.ir.foreign_use import refuse
from vyre.domain.ir.rebinding import Bindings, Rebinding
from vyre.domain.ir.scopes import Scope
from vyre.domain.ir.stmt import Body, Let, Stmt
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.ir.value import NEVER_STALE, Origin, Value, check_in_scope, refuse_closed
from vyre.domain.source_location import UNSHOWN, SourceLocation

T = TypeVar("T")


class Frame:
    """One open body.

    ``chain`` is the ``if`` that was recorded last, as long as an ``else`` may follow it.  ``refusal`` says why no
    statement can be recorded directly in the body, or is None.  In a loop, ``earlier_reads`` holds the reads in it of
    values that were written down before it.
    """

    __slots__ = ("chain", "earlier_reads", "is_loop", "locals", "refusal", "started", "statements")

    def __init__(self, started: int, *, is_loop: bool = False, refusal: tuple[str, str] | None = None) -> None:
        self.statements: list[Stmt] = []
        self.chain: IfChain | None = None
        self.refusal: tuple[str, str] | None = refusal
        self.locals: list[Origin] = []
        self.is_loop: bool = is_loop
        self.started: int = started
        self.earlier_reads: dict[Origin, SourceLocation] = {}

    def append(self, added: Stmt | IfChain) -> None:
        """Adds a statement, or a chain to which links may still be added."""
        if self.chain is not None and added is not self.chain:
            self._end_chain()
        if isinstance(added, IfChain):
            self.chain = added
        else:
            self.statements.append(added)

    def take_chain(self) -> IfChain | None:
        """Returns the chain that was recorded last, which the caller has to finish, or None."""
        chain, self.chain = self.chain, None
        return chain

    @property
    def body(self) -> Body:
        """Returns the statements; no ``else`` can follow them."""
        self._end_chain()
        return tuple(self.statements)

    def _end_chain(self) -> None:
        if (chain := self.take_chain()) is not None:
            self.statements.append(chain.statement())


class BlockContext(Generic[T]):
    """A ``with`` block: opens a body, and records the statement that ``finish`` makes of it, if it makes one.

    ``is_scope`` means that lanes may skip or repeat the body, so that values made in it cannot be used after it.
    ``refusal``: message and fix for statements that are recorded directly in the body; None: they are allowed.
    """

    __slots__ = (
        "_bindings",
        "_enter",
        "_finish",
        "_is_loop",
        "_is_scope",
        "_opened",
        "_recorder",
        "_refusal",
        "_scope",
        "loc",
        "what",
    )

    def __init__(
        self,
        recorder: Recorder,
        what: str,
        enter: Callable[[], T],
        finish: Callable[[Body], Stmt | IfChain | None],
        *,
        is_loop: bool = False,
        is_scope: bool = True,
        refusal: tuple[str, str] | None = None,
    ) -> None:
        self._recorder = recorder
        self._enter = enter
        self._finish = finish
        self._is_loop = is_loop
        self._is_scope = is_scope
        self._refusal = refusal
        self._scope: Scope | None = None
        self._bindings: Bindings | None = None
        self.what: str = what
        self.loc: SourceLocation = caller_location()

    def __enter__(self) -> T:
        self._opened = self._recorder.open(self, is_loop=self._is_loop, refusal=self._refusal)
        if self._is_scope:
            self._scope = Scope(self.what, self.loc)
            self._bindings = Bindings(sys._getframe(1))
        try:
            return self._enter()
        except BaseException as error:
            self._end(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._end(error)
            explain(error)
            return
        try:
            self._complete(sys._getframe(1))
        except BuildError as refused:
            self._end(refused)
            raise

    def _complete(self, frame: FrameType) -> None:
        if self._opened is not self._recorder.frames[-1]:
            fail(f"the {self.what} block of {self.loc} ends before a block inside it", "nest the `with` blocks.")
        self._recorder.check_entered()
        body = self._end(None)
        if self._bindings is not None and (rebinding := self._bindings.rebound(frame)) is not None:
            self._refuse(rebinding, frame.f_code.co_filename)
        if (stmt := self._finish(body)) is not None:
            self._recorder.emit(stmt)

    if not TYPE_CHECKING:  # type checkers see a context manager only

        def __iter__(self) -> NoReturn:
            self._recorder.forget(self)
            refuse(f"Python cannot loop over {self.what}(...)", f"write `with {self.what}(...) as k:`.")

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or name in self.__slots__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._recorder.forget(self)
            raise UnknownAttribute(
                f"{self.what}(...) has no attribute `{name}` before it is entered",
                fix=f"write `with {self.what}(...) as s:` and use s inside.",
                loc=caller_location(),
            )

        def __bool__(self) -> NoReturn:
            self._recorder.forget(self)
            refuse(f"{self.what}(...) has no truth value", f"write `with {self.what}(...):`.")

    def _refuse(self, rebinding: Rebinding, file: str) -> NoReturn:
        name, read_at = rebinding.name, f"{file}:{rebinding.read_at}, "
        bound_at = SourceLocation(file, rebinding.bound_at, None, UNSHOWN)
        is_given = self.loc.text != UNSHOWN
        what, name, read_at = ("a name", "v", "") if is_given else (f"`{name}`", name, f"at {read_at}")
        raise BuildError(
            f"{what} is bound to another value inside the {self.what} block of {self.loc}, and is used {read_at}"
            "after that block: Python bound it once, whatever the lanes do",
            fix=f"write {name} = p.var(...) before the block and {name}.assign(...) inside, or take another name.",
            loc=self.loc if is_given else bound_at,
            python_loc=bound_at,
        )

    def _end(self, error: BaseException | None) -> Body:
        if self._scope is not None:
            self._scope.end()
        if error is not None:
            self._recorder.note_failure(f"the {self.what} block of {self.loc}", error)
        return self._recorder.close(self._opened)


class Recorder:
    """The state of one program under construction.  ``clock`` advances with every change that values can see."""

    def __init__(self) -> None:
        self.clock: int = 1
        self.frames: list[Frame] = [Frame(0)]
        self.closed = False
        self.failure: str | None = None
        self.grid_loop: Frame | None = None
        """The body of the grid loop that is open."""
        self._loops: list[Frame] = []
        self._names = UniqueNames()
        self._pending: BlockContext[Any] | None = None

    def unique(self, hint: str) -> str:
        """Returns ``hint``, or ``hint_1``, ``hint_2`` ... if it is taken: no local ever hides another."""
        return self._names.unique(hint)

    def reserve(self, name: str) -> None:
        """Reserves a name that the user chose; raises ``BuildError`` if it is taken."""
        if name in self._names:
            fail(f"the name `{name}` is in use", "give every buffer and parameter a name of its own.")
        self._names.reserve(name)

    def loop_variable(self, name: str, dtype: ScalarType, loc: SourceLocation) -> Value:
        """Returns an immutable local of the open body."""
        origin = Origin(self, "loop variable", name, mutable=False, declared_at=loc)
        self.frames[-1].locals.append(origin)
        return Value(Var(name, loc=loc), dtype, {origin: NEVER_STALE})

    def local(self, hint: str, *, mutable: bool) -> tuple[str, Origin]:
        """Returns name and origin of a new local of the open body."""
        unique = self.unique(hint)
        kind = "variable" if mutable else "local"
        origin = Origin(self, kind, unique, mutable=mutable, declared_at=caller_location())
        self.frames[-1].locals.append(origin)
        return unique, origin

    def declare(self, expr: Expr, dtype: ScalarType, hint: str) -> Value:
        """Records ``let hint = expr`` and returns the local."""
        unique, origin = self.local(hint, mutable=False)
        loc = caller_location()
        self.emit(Let(unique, expr, loc=loc))
        return Value(Var(unique, loc=loc), dtype, {origin: NEVER_STALE})

    def emit(self, stmt: Stmt | IfChain) -> None:
        """Appends a statement to the open body."""
        self.check_entered()
        if self.closed:
            fail("a statement is recorded after the builder was closed", "write it inside the `with` block.")
        frame = self.frames[-1]
        if frame.refusal is not None:
            fail(*frame.refusal)
        frame.append(stmt)

    def check_allowed(self) -> None:
        """Raises ``BuildError`` if the open body takes no statements."""
        if (refusal := self.frames[-1].refusal) is not None:
            fail(*refusal)

    def emit_in_loop(self, stmt: Stmt, what: str) -> None:
        """Appends a statement that is legal in loops only."""
        if not self._loops:
            fail(f"{what} is outside any loop", "use it inside p.for_ or p.while_; p.return_() ends the lane.")
        if self._loops[-1] is self.grid_loop:
            fail(
                f"{what} is in a grid loop, whose rounds all lanes of the grid run together",
                "put a condition around the rest of the round; the loop ends after a round that leaves its flag 0.",
            )
        self.emit(stmt)

    def announce(self, block: BlockContext[T]) -> BlockContext[T]:
        """Requires that ``block`` is entered before anything else is recorded."""
        self.check_entered()
        self._pending = block
        return block

    def forget(self, block: BlockContext[Any]) -> None:
        """No longer requires that ``block`` is entered, because it was refused."""
        if self._pending is block:
            self._pending = None

    def check_entered(self) -> None:
        """Raises ``BuildError`` if the last block was called without ``with``."""
        if self._pending is not None:
            what, loc = self._pending.what, self._pending.loc
            self._pending = None
            self.failure = self.failure or f"the {what} block of {loc} was never entered"
            fail(f"{what}(...) at {loc} was never entered", f"write `with {what}(...):`.")

    def note_failure(self, block: str, error: BaseException) -> None:
        """Remembers the first exception that ended a block, after which the recorded block is incomplete."""
        self.failure = self.failure or f"{block} ended with {type(error).__name__}"

    def open(self, block: BlockContext[T], *, is_loop: bool, refusal: tuple[str, str] | None = None) -> Frame:
        """Opens a body; its locals end with it."""
        if self._pending is not block:
            fail(f"{block.what}(...) at {block.loc} is entered late or twice", f"write `with {block.what}(...):`.")
        self._pending = None
        self.clock += 1
        frame = Frame(self.clock, is_loop=is_loop, refusal=refusal)
        self.frames.append(frame)
        if is_loop:
            self._loops.append(frame)
        return frame

    def close(self, frame: Frame) -> Body:
        """Ends the body ``frame``, and after an exception also the bodies inside it that did not end."""
        while frame in self.frames:
            last = self.frames.pop()
            if last.is_loop:
                self._loops.remove(last)
            for origin in last.locals:
                origin.closed = True
        return frame.body

    def consume(self, value: Value) -> Expr:
        """Returns the expression of a value that a statement evaluates at this point."""
        check_in_scope(value)
        reads = value.reads
        if reads:
            for origin, stamp in reads.items():
                self.check_readable(origin, stamp)
        return value.expr

    def check_readable(self, origin: Origin, stamp: int) -> None:
        """Raises ``BuildError`` for a read, written at clock ``stamp``, of a value that has changed since."""
        if origin.recorder is not self:
            fail(f"{origin.label} belongs to another program", "use buffers and values of this builder only.")
        if origin.closed:
            refuse_closed(origin)
        if origin.pending:
            fail(f"{origin.label} is used inside the grid loop that counts them", "use it behind the `with` block.")
        if origin.written > stamp:
            fail(
                f"this value reads {origin.label}, which may have changed at {origin.written_at}, after the value was "
                "written down",
                "read it before the change: write value = p.let(...) there, and use that.",
            )
        for loop in self._loops:
            if stamp < loop.started:
                loop.earlier_reads.setdefault(origin, caller_location())

    def mark_written(self, *origins: Origin) -> None:
        """Marks these as changed; values that read them before are stale from now on."""
        self.clock += 1
        for origin in origins:
            origin.written = self.clock
            origin.written_at = caller_location()
            for loop in self._loops:
                if origin in loop.earlier_reads:
                    fail(
                        f"{origin.label} changes in a loop that uses ({loop.earlier_reads[origin]}) a value read from "
                        "it before the loop, so later rounds would see the change",
                        "name that value before the loop: value = p.let(...).",
                    )

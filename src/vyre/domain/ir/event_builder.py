"""``EventBuilder``: programs from a stream of events, for compilers that lower one statement after the other.

    b = EventBuilder("double", workgroup=64)
    b.buffer("y", ScalarType.U32, Access.READ_WRITE)
    i = LaunchId(IdKind.GLOBAL, 0)
    b.if_(Binary(BinaryOp.LT, i, BufferLength("y")))
    b.store("y", i, Binary(BinaryOp.ADD, Load("y", i), Load("y", i)))
    b.close()
    double = b.build()

Expressions are plain nodes.  The builder keeps the open bodies and nothing else: it looks neither at the caller's
frames nor at what expressions read, and each event costs the same, however many came before.  The rules of the
language are left to the validator, which ``build`` asks once for the whole program.
"""

from __future__ import annotations

from typing import Final, NoReturn

from vyre.domain.errors import UnfinishedProgram
from vyre.domain.ir import arguments
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.buffers import Buffer
from vyre.domain.ir.caller import caller_location, fail, given_location, located
from vyre.domain.ir.chains import IfChain, Link
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.definitions_in_use import warn_of_deprecated
from vyre.domain.ir.numpy_scalars import Size, python_number
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import with_body
from vyre.domain.ir.shared_builder import SharedBuilder
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.value import Value
from vyre.domain.printable import shown
from vyre.domain.source_location import SourceLocation

_EXPRESSIONS: Final = frozenset(ir.EXPR_TYPES)
_STATEMENTS: Final = frozenset(ir.STMT_TYPES)
_ONE: Final = ir.Literal(ScalarType.U32, 1)
_SHOWN: Final = 8
"""The largest number of open bodies that an error names."""


class _Open:
    """An open body: the statement that it becomes, whose own bodies are still empty, and its statements so far.

    ``chain`` has the finished branches of an ``If`` whose second branch or ``else`` is open.
    """

    __slots__ = ("body", "chain", "head", "loc", "test")
    takes_statements: Final = True

    def __init__(self, head: ir.If | ir.Loop | ir.GridLoop | ir.Block | ir.Region) -> None:
        self.head: ir.If | ir.Loop | ir.GridLoop | ir.Block | ir.Region = head
        self.body: list[ir.Stmt] = []
        self.chain: IfChain | None = None
        self.test: ir.Expr | None = head.condition if isinstance(head, ir.If) else None
        self.loc: SourceLocation | None = head.loc

    @property
    def text(self) -> str:
        """Returns the name of the body in messages."""
        match self.head:
            case ir.If():
                what = "the `if`" if self.chain is None else "the `else`" if self.test is None else "the `else if`"
            case ir.Loop(var=var):
                what = f"the loop over `{var}`"
            case ir.GridLoop(name=name):
                what = f"the grid loop `{name}`"
            case ir.Block():
                what = "the block"
            case ir.Region(generator=generator):
                what = f"the region `{generator}`"
        return what if self.loc is None else f"{what} of {self.loc}"

    def branch(self, test: ir.Expr | None, loc: SourceLocation | None) -> None:
        """Ends the open branch of an ``If``, and opens the one with another condition, or with None the ``else``."""
        self._end_branch()
        self.test = test
        self.loc = loc

    def closed(self) -> ir.Stmt:
        """Returns the finished statement."""
        body, head = tuple(self.body), self.head
        match head:
            case ir.If():
                if self.chain is None:
                    return ir.If(head.condition, body, loc=head.loc)
                return self.chain.statement(body) if self.test is None else self._end_branch().statement()
            case _:
                stmt: ir.Stmt = with_body(head, body)
                return stmt

    def _end_branch(self) -> IfChain:
        assert self.test is not None
        link = Link(self.test, tuple(self.body), self.loc)
        if self.chain is None:
            self.chain = IfChain(link)
        else:
            self.chain.links.append(link)
        self.body = []
        return self.chain


class _OpenSwitch:
    """An open ``Switch``: its finished arms, and the statements of the arm or the default that is open.

    ``labels`` are those of the open arm; None before the first arm and in the default.
    """

    __slots__ = ("arm_loc", "arms", "body", "is_default", "known", "labels", "loc", "selector")

    def __init__(self, selector: ir.Expr, loc: SourceLocation | None) -> None:
        self.selector = selector
        self.loc: SourceLocation | None = loc
        self.arms: list[ir.Arm] = []
        self.arm_loc: SourceLocation | None = None
        self.body: list[ir.Stmt] = []
        self.is_default = False
        self.known: set[ir.Literal] = set()
        self.labels: tuple[ir.Literal, ...] | None = None

    @property
    def text(self) -> str:
        """Returns the name of the body in messages."""
        part = "the default of " if self.is_default else "" if self.labels is None else "a case of "
        return f"{part}the switch" if self.loc is None else f"{part}the switch of {self.loc}"

    @property
    def takes_statements(self) -> bool:
        """Returns whether an arm or the default is open."""
        return self.is_default or self.labels is not None

    def open_arm(self, labels: tuple[ir.Literal, ...] | None, loc: SourceLocation | None) -> None:
        """Ends the open arm, and opens the one with these labels, or with None the default."""
        if self.labels is not None:
            self.arms.append(ir.Arm(self.labels, tuple(self.body), loc=self.arm_loc))
            self.body = []
        self.labels, self.arm_loc, self.is_default = labels, loc, labels is None

    def closed(self) -> ir.Stmt:
        """Returns the finished statement."""
        if not self.is_default:
            self.open_arm(None, None)
        return ir.Switch(self.selector, tuple(self.arms), tuple(self.body), loc=self.loc)


class EventBuilder(SharedBuilder[ir.Expr, str, Buffer]):
    """Builds one program from events in program order; expressions are nodes of ``vyre.ir``.

    ``name``: label of the program.  ``workgroup``: lanes per workgroup, along x or as a tuple of up to three axes.
    ``loc`` is, here and in every method, the position in the source that the reports of the validator name; None: that
    of ``with b.at(loc)``, or no position.

    A method raises ``BuildError`` for an operand that is no expression, for an event that does not fit what is open,
    and for every event after ``build``.  An event that raised has changed nothing.
    """

    __slots__ = ("_body", "_is_built", "_open")

    @located
    def __init__(
        self, name: str | None = None, *, workgroup: Size | tuple[Size, ...], loc: SourceLocation | None = None
    ) -> None:
        self._begin(name, workgroup, given_location())
        self._body: list[ir.Stmt] = []
        self._open: list[_Open | _OpenSwitch] = []
        self._is_built = False

    # -- buffers --------------------------------------------------------------------------------------

    def declare(self, buffer: Buffer) -> Buffer:
        """Adds a buffer as it is recorded, with its own binding number, and returns it."""
        if not isinstance(buffer, Buffer):
            fail(f"{buffer!r} is no Buffer", "pass a vyre.ir.Buffer, or describe it to buffer(...).")
        self._check_declaration(buffer.name)
        return self._declared(buffer)

    def define(self, definition: Definition | str) -> Definition:
        """Adds the definition of an operation, or that of an id from the registry, and returns it.

        ``Call`` nodes can name it from then on.  Warns (``FutureWarning``) of one that is out of use.
        """
        self._check_unbuilt()
        known = self._definitions
        defined = known.named(definition) if isinstance(definition, str) else known.add(definition)
        warn_of_deprecated(defined, caller_location())
        return defined

    # -- statements -----------------------------------------------------------------------------------

    def append(self, stmt: ir.Stmt) -> None:
        """Appends a finished statement, bodies and all, to the innermost open body."""
        if type(stmt) not in _STATEMENTS:
            fail(f"{stmt!r} is no statement", "append a statement node of vyre.ir, such as Store(...).")
        self._emit(stmt)

    @located
    def let(self, name: str, value: ir.Expr, *, loc: SourceLocation | None = None) -> None:
        """Declares the local ``name``, whose scope is the innermost open body; ``Var(name)`` reads it."""
        name = arguments.text(name, "the name of a local")
        self._emit(ir.Let(name, _expression(value, "the value of a let"), loc=given_location()))

    @located
    def assign(self, name: str, value: ir.Expr, *, loc: SourceLocation | None = None) -> None:
        """Overwrites the visible local ``name`` with a value of the same type."""
        name = arguments.text(name, "the name of a local")
        self._emit(ir.Assign(name, _expression(value, "the value of an assignment"), loc=given_location()))

    @located
    def store(self, buffer: str, index: ir.Expr, value: ir.Expr, *, loc: SourceLocation | None = None) -> None:
        """Writes the element ``index`` (any integer type) of a buffer; ``buffer`` is its name."""
        name, where = _buffer_name(buffer), _expression(index, "the index of a store")
        self._emit(ir.Store(name, where, _expression(value, "the value of a store"), loc=given_location()))

    # -- bodies ---------------------------------------------------------------------------------------

    @located
    def for_(
        self, name: str, start: ir.Expr, stop: ir.Expr, step: ir.Expr = _ONE, *, loc: SourceLocation | None = None
    ) -> None:
        """Opens the body of a loop: ``Var(name)`` counts up from ``start`` by ``step`` while it is below ``stop``.

        With a negative step it counts down while it is above ``stop``.  The bounds are read once, before the first
        round, and have one integer type, which ``Var(name)`` takes; the step is the u32 1 unless another one is given.
        """
        bounds = (
            _expression(start, "the start of a loop"),
            _expression(stop, "the stop of a loop"),
            _expression(step, "the step of a loop"),
        )
        self._enter(ir.Loop(arguments.text(name, "the variable of a loop"), *bounds, (), loc=given_location()))

    @located
    def grid_loop(self, name: str, limit: ir.Expr, flag: str, *, loc: SourceLocation | None = None) -> None:
        """Opens the body of a loop whose rounds all lanes of the grid run together, at most ``limit`` (u32) of them.

        ``flag`` is the name of a u32 buffer, whose element 0 is 0 when a round starts; the loop ends after a round that
        left it 0.  Behind the loop ``Var(name)`` is the number of rounds run (u32).  Top level only.
        """
        name = arguments.text(name, "the name of a number of rounds")
        most = _expression(limit, "the limit of a grid loop")
        self._enter(ir.GridLoop(name, most, _buffer_name(flag), (), loc=given_location()))

    @located
    def if_(self, test: ir.Expr, *, loc: SourceLocation | None = None) -> None:
        """Opens the body that runs where ``test`` (bool) holds."""
        self._enter(ir.If(_expression(test, "the condition of an if"), (), loc=given_location()))

    @located
    def elif_(self, test: ir.Expr, *, loc: SourceLocation | None = None) -> None:
        """Ends the body of the ``if`` that is open innermost, and opens the one that runs where ``test`` (bool)
        holds and no earlier condition did; only these lanes evaluate it.

        One ``close()`` ends all bodies of the ``if``, however many there are.
        """
        self._open_if("elif_").branch(_expression(test, "the condition of an else-if"), given_location())

    def else_(self) -> None:
        """Ends the body of the ``if`` that is open innermost, and opens the one that runs where no condition held.

        One ``close()`` ends both.
        """
        opened = self._open_if("else_")
        opened.branch(None, opened.head.loc)

    @located
    def switch(self, selector: ir.Expr, *, loc: SourceLocation | None = None) -> None:
        """Opens a switch over ``selector``, of any integer type, which is evaluated once.

        ``case(...)`` opens its first arm and each further one, ``default()`` the body for all other values; one
        ``close()`` ends the switch.  No lane falls through from one arm to the next.
        """
        self._check_open()
        self._open.append(_OpenSwitch(_expression(selector, "the selector of a switch"), given_location()))

    @located
    def case(self, *labels: ir.Literal, loc: SourceLocation | None = None) -> None:
        """Opens the arm for the values ``labels``, literals of the selector's type, of the switch that is open
        innermost.
        """
        opened = self._open_switch("case")
        if not labels:
            fail("case() has no label", "give it the literals that it is for: case(Literal.of(ScalarType.U32, 1)).")
        for label in labels:
            if type(label) is not ir.Literal:
                if type(label) in _EXPRESSIONS:
                    fail(f"a label of a case is no literal but {label!r}", "compare other values in if_(...).")
                _refuse_operand(label, "a label of a case")
            if not label.dtype.is_integer:
                fail(f"a label of a case is {label.dtype.text}", "use literals of the selector's integer type.")
        if len({*labels} - opened.known) < len(labels):
            fail(f"a label of {[label.value for label in labels]} stands in the switch twice", "give it to one arm.")
        opened.known |= {*labels}
        opened.open_arm(labels, given_location())

    def default(self) -> None:
        """Opens the body of the switch that is open innermost for the values that no arm has; it comes last."""
        self._open_switch("default").open_arm(None, None)

    @located
    def block(self, *, loc: SourceLocation | None = None) -> None:
        """Opens a scope."""
        self._enter(ir.Block((), loc=given_location()))

    @located
    def region(self, generator: str, source: str | None = None, *, loc: SourceLocation | None = None) -> None:
        """Opens a scope with a provenance label, which changes no result."""
        if source is not None:
            arguments.text(source, "the source of a region")
        self._enter(ir.Region(arguments.text(generator, "the label of a region"), (), source, loc=given_location()))

    def close(self) -> ir.Stmt:
        """Ends the body that is open innermost, and returns the statement that it has become."""
        self._check_unbuilt()
        if not self._open:
            fail("close() has nothing to close: no body is open", "call it once for every body that was opened.")
        stmt = self._open.pop().closed()
        self._emit(stmt)
        return stmt

    # -- the program ----------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Returns the number of open bodies."""
        return len(self._open)

    def build(self, *, check: bool = True) -> Program:
        """Returns the finished program, after which no event is accepted.

        Raises ``UnfinishedProgram`` (an ``UnfinishedBuild``) while bodies are open, and names them; the builder can be
        used further then.  Raises ``InvalidProgram`` with the full report if the program breaks a rule; with
        ``check=False`` that is left to ``vyre.validate``.
        """
        if self._open:
            count = len(self._open)
            named = ", ".join(body.text for body in reversed(self._open[-_SHOWN:]))
            more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
            raise UnfinishedProgram(
                f"build() is called with {count} open {'body' if count == 1 else 'bodies'}, innermost first: "
                f"{named}{more}",
                fix="call close() for each of them.",
            )
        self._is_built = True
        return self._built(tuple(self._body), check=check)

    # -- internals ------------------------------------------------------------------------------------

    def _emit(self, stmt: ir.Stmt) -> None:
        last = self._open[-1] if self._open else None
        if self._is_built or (last is not None and not last.takes_statements):
            self._check_open()
        (self._body if last is None else last.body).append(stmt)

    def _enter(self, head: ir.If | ir.Loop | ir.GridLoop | ir.Block | ir.Region) -> None:
        if self._is_built or (self._open and not self._open[-1].takes_statements):
            self._check_open()
        self._open.append(_Open(head))

    def _open_if(self, event: str) -> _Open:
        """Returns the ``if`` that is open innermost, to which an event adds a branch."""
        self._check_unbuilt()
        last = self._open[-1] if self._open else None
        if not isinstance(last, _Open) or last.test is None:
            inside = "no body is open" if last is None else f"{last.text} is open innermost"
            fail(f"{event}() has no `if`: {inside}", "call it between if_(...) and its close(), before else_().")
        return last

    def _open_switch(self, event: str) -> _OpenSwitch:
        """Returns the switch that is open innermost, to which an event adds an arm."""
        self._check_unbuilt()
        last = self._open[-1] if self._open else None
        if not isinstance(last, _OpenSwitch) or last.is_default:
            inside = "no body is open" if last is None else f"{last.text} is open innermost"
            fail(
                f"{event}() has no switch: {inside}",
                "call it between switch(...) and its close(), default() last.",
            )
        return last

    def _check_open(self) -> None:
        """Raises ``BuildError`` if no statement can be added: the program is built, or a switch has no arm yet."""
        self._check_unbuilt()
        last = self._open[-1] if self._open else None
        if isinstance(last, _OpenSwitch) and not last.takes_statements:
            fail(f"a statement stands in {last.text} before its first case", "call case(...) or default() first.")

    def _check_unbuilt(self) -> None:
        if self._is_built:
            fail("the program is built already", "send every event before build(), or make a new EventBuilder.")

    def _place(self) -> SourceLocation | None:
        return given_location()

    def _operand(self, operand: ir.Expr, role: str) -> ir.Expr:
        return _expression(operand, role)

    def _array_name(self, array: str, role: str) -> str:
        return _buffer_name(array)

    def _model(self, like: str, name: str) -> str:
        return arguments.text(like, f"the buffer whose length `{name}` has")

    def _check_declaration(self, name: str) -> None:
        self._check_unbuilt()
        if name in self._buffers:
            fail(f"there is a buffer `{name}` already", "give every buffer a name of its own.")

    def _declared(self, buffer: Buffer) -> Buffer:
        self._keep(buffer)
        return buffer

    def _emit_in_loop(self, stmt: ir.Stmt, what: str) -> None:
        self._emit(stmt)


def _expression(expr: ir.Expr, what: str) -> ir.Expr:
    if type(expr) not in _EXPRESSIONS:
        _refuse_operand(expr, what)
    return expr


def _refuse_operand(node: object, what: str) -> NoReturn:
    if isinstance(python_number(node), bool | int | float):
        fail(f"{what} is the number {shown(node)}", "write its type too: Literal.of(ScalarType.U32, 1).")
    if isinstance(node, Value):
        fail(
            f"{what} is a value of a ProgramBuilder",
            "pass the node itself, such as Load(...); operators make no nodes.",
        )
    fail(f"{what} is no expression but {node!r}", "give an expression node of vyre.ir, such as Var(...) or Load(...).")


def _buffer_name(buffer: object) -> str:
    if isinstance(buffer, Buffer):
        fail(f"the buffer `{buffer.name}` is given itself", "give its name: buffer.name.")
    return arguments.text(buffer, "the name of a buffer")

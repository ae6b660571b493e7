"""One traversal that checks scopes, types of statements, and rules on single statements."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, Final, NamedTuple

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.branches import branches
from vyre.domain.ir.definition_nodes import DEFINITION_EXPRESSIONS, DEFINITION_STATEMENTS
from vyre.domain.ir.definitions import MAX_VERSION_NUMBER, Definition, is_operation_id
from vyre.domain.ir.limits import MAX_PARAMETERS, U32_MAX, U64_MAX
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import ATOMIC_TEXT, MERGEABLE, AtomicOp, Ordering
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import operands, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.validation.findings import Findings, Path
from vyre.domain.validation.typing import ExpressionTyper, Local

_U32: Final = ScalarType.U32
_NO_END: Final = U32_MAX + 1
_SELF_EXCLUSIVE: Final = "#self-exclusive"
_ENDS_BODY: Final = {ir.Return: "return", ir.Break: "break", ir.Continue: "continue"}


class _BoundAtomic(NamedTuple):
    """An atomic whose old value is bound to a local and used nowhere else."""

    local: Local
    atomic: ir.Atomic
    stmt: ir.Stmt
    path: Path


class StatementChecker:
    """Checks every statement of a program that is within the size limits.

    ``order_sensitive`` is valid after ``run``.
    """

    def __init__(self, program: Program, findings: Findings) -> None:
        self._program = program
        self._buffers = program.buffers_by_name
        self._findings = findings
        self._definitions: dict[str, Definition] = {}
        self._typer = ExpressionTyper(self._buffers, findings, self._definitions)
        self._declared: list[set[str]] = []
        self._loops = 0
        self._generators: set[str] = set()
        self._bound: list[_BoundAtomic] = []
        self._operators: dict[str, dict[int | None, AtomicOp]] = {}
        """The first atomic operator on each element with a literal index, and on elements known at run time (None)."""
        self.order_sensitive: bool = False

    def run(self) -> None:
        """Checks the whole program."""
        self._check_definitions()
        self._body(self._program.body, 0)
        for local, atomic, stmt, path in self._bound:
            if local.is_read:
                self._note_used(atomic, stmt, path)

    def _error(self, code: str, message: str, *nodes: Node) -> None:
        self._findings.add(code, message, *nodes)

    # Definitions.

    def _check_definitions(self) -> None:
        """Checks each definition, with those before it defined; their findings come before those of the body."""
        count = len(self._program.definitions)
        for number, definition in enumerate(self._program.definitions):
            self._findings.path.append(number - count)
            if definition.id in self._definitions:
                self._error("V225", f"`{definition.id}` is defined twice", definition)
            elif check_signature(definition, self._findings):
                self._check_definition(definition)
            self._findings.path.pop()
            self._definitions.setdefault(definition.id, definition)

    def _check_definition(self, definition: Definition) -> None:
        names = self._typer.locals
        mark = names.mark
        for parameter in definition.parameters:
            names.declare(parameter.name, Local(parameter.dtype, is_counter=True, is_parameter=True))
        buffers, self._buffers = self._buffers, {}

        def result() -> None:
            self._typer.begin(definition)
            dtype = self._typer.type_of(definition.result)
            if dtype is not None and dtype is not definition.result_type:
                message = f"the result of `{definition.id}` is {dtype.text}, not {definition.result_type.text}"
                self._error("V225", message, definition.result, definition)

        self._body(definition.body, 0, last=result)
        self._buffers = buffers
        names.leave(mark)

    # Scopes.

    def _body(
        self,
        body: ir.Body,
        branch: int,
        counter: tuple[str, ScalarType | None] | None = None,
        last: Callable[[], None] | None = None,
    ) -> None:
        """Checks a body; ``last`` is called with its locals visible."""
        if not body and last is None:
            return
        names = self._typer.locals
        mark = names.mark
        if counter is not None:
            name, dtype = counter
            names.declare(name, Local(dtype, is_counter=True))
        self._declared.append(set())
        path, ended = self._findings.path, False
        path += (branch, 0)
        for index, stmt in enumerate(body):
            path[-1] = index
            self._typer.begin(stmt)
            _CHECKS[type(stmt)](self, stmt)
            if type(stmt) in _ENDS_BODY and index + 1 < len(body) and not ended:
                ended = True
                path[-1] = index + 1
                self._error("V119", f"statements after `{_ENDS_BODY[type(stmt)]}` never run", body[index + 1])
        if last is not None:
            last()
        del path[-2:]
        self._declared.pop()
        names.leave(mark)

    def _declare(self, name: str, local: Local, stmt: ir.Stmt) -> None:
        if name in self._declared[-1]:
            self._error("V032", f"local `{name}` is declared twice in one scope", stmt)
        elif name in self._typer.locals:
            self._error("V008", f"local `{name}` is visible already", stmt)
        self._declared[-1].add(name)
        self._typer.locals.declare(name, local)

    # Statements.

    def _let(self, stmt: ir.Let) -> None:
        local = Local(self._typer.type_of(stmt.value))
        self._note_atomics(stmt, local)
        self._declare(stmt.name, local, stmt)

    def _assign(self, stmt: ir.Assign) -> None:
        dtype, local = self._typer.type_of(stmt.value), self._typer.locals.get(stmt.name)
        self._note_atomics(stmt, local)
        if local is None:
            if stmt.name in self._buffers:
                self._error("V118", f"`{stmt.name}` is a buffer and cannot be assigned", stmt)
            else:
                self._error("V117", f"no local `{stmt.name}` is visible here", stmt)
        elif local.is_parameter:
            self._error("V225", f"`{stmt.name}` is a parameter and cannot be assigned", stmt)
        elif local.is_counter:
            self._error("V011", f"`{stmt.name}` is the variable of a loop", stmt)
        elif dtype is not None and local.dtype is not None and dtype is not local.dtype:
            message = f"local `{stmt.name}` is {local.dtype.text}, the value assigned is {dtype.text}"
            self._error("V045", message, stmt)

    def _store(self, stmt: ir.Store) -> None:
        self._typer.require_integer(stmt.index, "V114", f"the index of a store to `{stmt.buffer}`")
        dtype = self._typer.type_of(stmt.value)
        self._note_atomics(stmt)
        self._require_writable(stmt.buffer, "store to", stmt)
        buffer = self._buffers.get(stmt.buffer)
        if buffer is None or not isinstance(buffer.element, ScalarType):
            return
        wanted = buffer.element.widened
        if dtype is not None and dtype is not wanted:
            message = f"a store to `{stmt.buffer}` takes {wanted.text}, got {dtype.text}"
            self._error("V113", message, stmt.value, stmt)
        index = stmt.index
        if (
            isinstance(index, ir.Literal)
            and index.dtype.is_integer
            and not 0 <= index.value < (buffer.count or _NO_END)
        ):
            which = f"which has {buffer.count}" if buffer.count else "which does not exist"
            message = f"store to element {index.value} of `{stmt.buffer}`, {which}"
            self._error("V036", message, index, stmt)

    def _require_writable(self, name: str, what: str, stmt: ir.Stmt) -> None:
        buffer = self._buffers.get(name)
        if buffer is None:
            self._error("V111", f"{what} `{name}`, which is no buffer", stmt)
        elif not buffer.is_writable:
            access = buffer.access.name.lower().replace("_", "-")
            self._error("V112", f"{what} `{name}`, which is {access}", stmt)

    def _if(self, stmt: ir.If) -> None:
        self._condition(stmt)
        for body, number, link in branches(stmt):
            if link is not None:
                self._findings.path.append(number - 1)
                self._typer.begin(link)
                self._condition(link)
                self._findings.path.pop()
            self._body(body, number)

    def _condition(self, link: ir.If) -> None:
        self._typer.require(link.condition, ScalarType.BOOL, "V115", "the condition of `if`")
        self._note_atomics(link)

    def _switch(self, stmt: ir.Switch) -> None:
        dtype = self._typer.require_integer(stmt.selector, "V221", "the selector of `switch`")
        self._note_atomics(stmt)
        seen: set[int] = set()
        for arm in stmt.arms:
            if not arm.labels:
                self._error("V221", "an arm of `switch` has no label", arm, stmt)
            for label in arm.labels:
                if type(label) is not ir.Literal:
                    self._error("V221", "a label of `switch` is no literal", label, arm, stmt)
                    continue
                if dtype is not None and label.dtype is not dtype:
                    message = f"the label {label.value} of `switch` is {label.dtype.text}, not {dtype.text}"
                    self._error("V221", message, label, arm, stmt)
                elif label.bits in seen:
                    self._error("V221", f"`switch` has the label {label.value} twice", label, arm, stmt)
                seen.add(label.bits)
        for branch in branches(stmt):
            self._body(branch.body, branch.number)

    def _loop(self, stmt: ir.Loop) -> None:
        dtype: ScalarType | None = None
        for role, bound in (("start", stmt.start), ("stop", stmt.stop), ("step", stmt.step)):
            bound_type = self._typer.require_integer(bound, "V116", f"the {role} of the loop over `{stmt.var}`")
            if dtype is not None and bound_type is not None and bound_type is not dtype:
                message = f"the {role} of the loop over `{stmt.var}` is {bound_type.text}, its start {dtype.text}"
                self._error("V116", message, bound, stmt)
            dtype = dtype or bound_type
        self._note_atomics(stmt)
        if isinstance(stmt.step, ir.Literal) and stmt.step.dtype.is_integer and stmt.step.bits == 0:
            self._error("V206", f"the loop over `{stmt.var}` has the step 0", stmt.step, stmt)
        if stmt.var in self._typer.locals:
            self._error("V008", f"loop variable `{stmt.var}` is visible already", stmt)
        self._loops += 1
        self._body(stmt.body, 0, (stmt.var, dtype))
        self._loops -= 1

    def _grid_loop(self, stmt: ir.GridLoop) -> None:
        self._typer.require(stmt.limit, _U32, "V222", f"the limit of the grid loop `{stmt.name}`")
        self._note_atomics(stmt)
        self._require_writable(stmt.flag, "grid loop with the flag", stmt)
        flag = self._buffers.get(stmt.flag)
        if flag is not None and flag.is_writable and (flag.element is not _U32 or not flag.is_bound):
            kind = flag.element.name.lower() if flag.is_bound else flag.access.name.lower()
            self._error("V222", f"the flag `{stmt.flag}` of the grid loop `{stmt.name}` is {kind} memory", stmt)
        around, self._loops = self._loops, 0
        self._body(stmt.body, 0)
        self._loops = around
        self._declare(stmt.name, Local(_U32, is_counter=True), stmt)

    def _leave(self, stmt: ir.Break | ir.Continue) -> None:
        if not self._loops:
            self._error("V205", f"`{_ENDS_BODY[type(stmt)]}` outside a loop", stmt)

    def _return(self, stmt: ir.Return) -> None:
        """Does nothing: a return is legal anywhere; its position is checked with the flow."""

    def _block(self, stmt: ir.Block) -> None:
        self._body(stmt.body, 0)

    def _region(self, stmt: ir.Region) -> None:
        if stmt.generator.endswith(_SELF_EXCLUSIVE):
            if stmt.generator in self._generators:
                self._error("V124", f"two regions of the generator `{stmt.generator}`", stmt)
            self._generators.add(stmt.generator)
        self._body(stmt.body, 0)

    def _barrier(self, stmt: ir.Barrier) -> None:
        if stmt.ordering is Ordering.RELAXED:
            self._error("V043", "a relaxed barrier orders nothing", stmt)

    def _async_copy(self, stmt: ir.AsyncLoad | ir.AsyncStore) -> None:
        what = f"asynchronous copy `{stmt.tag}`"
        self._typer.require(stmt.offset, _U32, "V114", f"the offset of {what}")
        self._typer.require(stmt.size, _U32, "V114", f"the size of {what}")
        self._note_atomics(stmt)
        source = self._buffers.get(stmt.source)
        if source is None:
            self._error("V108", f"{what} from `{stmt.source}`, which is no buffer", stmt)
        elif source.is_push:
            self._error("V212", f"{what} from parameter `{stmt.source}`", stmt)
        self._require_writable(stmt.destination, f"{what} to", stmt)
        for name in (stmt.source, stmt.destination):
            buffer = self._buffers.get(name)
            if buffer is not None and buffer.is_private:
                message = f"{what} with `{name}`, which is private memory"
                self._findings.add("V214", message, stmt, fix="copy the elements by loads and stores.")

    def _async_wait(self, stmt: ir.AsyncWait) -> None:
        """Does nothing: the pairing of a wait is checked with the flow."""

    def _trap(self, stmt: ir.Trap) -> None:
        self._typer.require(stmt.address, _U32, "V114", f"the address of trap `{stmt.tag}`")
        self._note_atomics(stmt)

    def _indirect_dispatch(self, stmt: ir.IndirectDispatch) -> None:
        if stmt.buffer not in self._buffers:
            self._error("V121", f"indirect dispatch by `{stmt.buffer}`, which is no buffer", stmt)
        if stmt.offset < 0 or stmt.offset % 4:
            message = f"the offset {stmt.offset} of an indirect dispatch by `{stmt.buffer}` is no multiple of 4"
            self._error("V120", message, stmt)
        elif stmt.offset > U64_MAX:
            self._error("V217", f"the offset of an indirect dispatch by `{stmt.buffer}` exceeds 64 bits", stmt)

    # Order of atomics.

    def _note_atomics(self, stmt: ir.Stmt, bound: Local | None = None) -> None:
        """Records atomics whose old values are used; ``bound`` is the local to which the statement's value is bound."""
        if not self._typer.atomics:
            return
        root: ir.Expr | None = stmt.value if isinstance(stmt, ir.Let | ir.Assign) else None
        path = tuple(self._findings.path)
        for atomic in self._typer.atomics:
            if atomic is root and bound is not None:
                self._bound.append(_BoundAtomic(bound, atomic, stmt, path))
            else:
                self._note_used(atomic, stmt, path)
            text = f"`{ATOMIC_TEXT[atomic.op]}` on `{atomic.buffer}`"
            if atomic.op not in MERGEABLE:
                self._note(f"{text} does not commute", atomic, stmt, path)
            elif self._is_mixed(atomic):
                self._note(f"{text} may meet another operator on one element", atomic, stmt, path)

    def _is_mixed(self, atomic: ir.Atomic) -> bool:
        """Returns whether another operator, with which this one does not commute, may change the element."""
        element = atomic.index.bits if isinstance(atomic.index, ir.Literal) else None
        operators = self._operators.setdefault(atomic.buffer, {})
        if element is None and None not in operators:
            known = set(operators.values())
        else:
            known = {operators[key] for key in (element, None) if key in operators}
        operators.setdefault(element, atomic.op)
        return bool(known - {atomic.op})

    def _note_used(self, atomic: ir.Atomic, stmt: ir.Stmt, path: Path) -> None:
        message = f"the old value of `{ATOMIC_TEXT[atomic.op]}` on `{atomic.buffer}` is used"
        self._note(message, atomic, stmt, path)

    def _note(self, message: str, atomic: ir.Atomic, stmt: ir.Stmt, path: Path) -> None:
        self.order_sensitive = True
        self._findings.add("V218", message, atomic, stmt, path=path)


_CHECKS: Final[dict[type[Node], Callable[[StatementChecker, Any], None]]] = {
    ir.Let: StatementChecker._let,
    ir.Assign: StatementChecker._assign,
    ir.Store: StatementChecker._store,
    ir.If: StatementChecker._if,
    ir.Switch: StatementChecker._switch,
    ir.Loop: StatementChecker._loop,
    ir.GridLoop: StatementChecker._grid_loop,
    ir.Break: StatementChecker._leave,
    ir.Continue: StatementChecker._leave,
    ir.Return: StatementChecker._return,
    ir.Block: StatementChecker._block,
    ir.Region: StatementChecker._region,
    ir.Barrier: StatementChecker._barrier,
    ir.AsyncLoad: StatementChecker._async_copy,
    ir.AsyncStore: StatementChecker._async_copy,
    ir.AsyncWait: StatementChecker._async_wait,
    ir.Trap: StatementChecker._trap,
    ir.IndirectDispatch: StatementChecker._indirect_dispatch,
}


def check_signature(definition: Definition, findings: Findings) -> bool:
    """Reports defects of a definition that its types do not tell; returns whether its body can be checked further."""
    name = f"`{definition.id}`"
    defects: list[str] = []
    if not is_operation_id(definition.id):
        defects.append(f"the id {name} is no dialect and name joined by a dot")
    version = definition.version
    if not all(0 <= number <= MAX_VERSION_NUMBER for number in (version.major, version.minor, version.patch)):
        defects.append(f"the version {version} of {name} has a number outside 0..{MAX_VERSION_NUMBER}")
    if len(definition.parameters) > MAX_PARAMETERS:
        defects.append(f"{name} has {len(definition.parameters)} parameters; the limit is {MAX_PARAMETERS}")
    seen: set[str] = set()
    for parameter in definition.parameters:
        if parameter.name in seen:
            defects.append(f"two parameters of {name} are named `{parameter.name}`")
        seen.add(parameter.name)
        if not _is_executable(parameter.dtype):
            defects.append(f"parameter `{parameter.name}` of {name} has no executable type")
    if not _is_executable(definition.result_type):
        defects.append(f"the result of {name} has no executable type")
    for defect in defects:
        findings.add("V225", defect, definition)
    return _check_kinds(definition, findings) and not defects


def _is_executable(dtype: object) -> bool:
    return isinstance(dtype, ScalarType) and dtype.is_executable


def _check_kinds(definition: Definition, findings: Findings) -> bool:
    """Reports the statements and expressions that no definition may have; returns whether there are none."""
    statements = list(walk_statements(definition.body))
    expressions = unique_nodes(chain(chain.from_iterable(map(operands, statements)), [definition.result]))
    bad_statements = [stmt for stmt in statements if type(stmt) not in DEFINITION_STATEMENTS]
    bad_expressions = [expr for expr in expressions if type(expr) not in DEFINITION_EXPRESSIONS]
    for node in (*bad_statements, *bad_expressions):
        what = f"`{definition.id}` contains {type(node).__name__}, which depends on more than its locals"
        findings.add("V225", what, node, definition)
    return not bad_statements and not bad_expressions

"""``expanded``: a program in which every call is replaced by the body of its definition.

The arguments of a call become locals, in order, then the statements of the body follow, with locals of new names, and
the result becomes one more local, all of them before the statement that contains the call.  What that statement
evaluates before the call, and what loads or changes memory or exchanges values between lanes, becomes a local before
them if an argument does so too, so that all effects keep their order.

The condition of a link of ``else if`` is evaluated only by lanes that took no earlier link.  If it contains a call, the
link is nested in an ``else`` of its own, behind the locals of the call, and adds one level of depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from vyre.domain.ir.definitions import Definition, Parameter
from vyre.domain.ir.expr import LEAVES, ORDERED, Call, Expr, SpecConst, Var, children
from vyre.domain.ir.limits import MAX_PROGRAM_NODES, MAX_STATEMENT_DEPTH
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt, same_statements, with_body, with_branches, with_children, with_operands
from vyre.domain.ir.stmt import (
    WITH_BODIES,
    Assign,
    Block,
    Body,
    GridLoop,
    If,
    Let,
    Loop,
    Region,
    Stmt,
    Switch,
    if_chain,
    nested,
    operands,
    own_size,
    walk_statements,
)
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.ir.walk import declared_names, measure, operands_first, unique_expressions
from vyre.domain.program_report import InvalidProgram
from vyre.domain.source_location import SourceLocation

_CACHED: Final = "expanded"


_Root = TypeVar("_Root", "Body", "Expr")


class _Ready(NamedTuple):
    """A definition whose body and result have no calls."""

    parameters: tuple[Parameter, ...]
    body: Body
    result: Expr


def expanded(program: Program) -> Program:
    """Returns a program without calls and definitions that has the same bytes and errors for all inputs.

    It is the same object if nothing is called.  The definitions and calls of ``program`` must be valid.  Cached on the
    program.  O(nodes of the result).  Raises ``InvalidProgram`` if the result would have more than 262144 nodes or
    statements nested more than 64 deep.
    """
    cached = program._cache.get(_CACHED)
    if isinstance(cached, Program):
        return cached
    result = _expanded(program) if Call in node_facts(program).types else program
    result._cache[_CACHED] = result
    program._cache[_CACHED] = result
    return result


def without_calls_inside(definitions: Sequence[Definition]) -> Definition:
    """Returns the last of these valid definitions with its calls of the others expanded; each calls earlier ones only.

    Raises ``InvalidProgram`` for statements nested more than 64 deep.
    """
    names = UniqueNames(_names_of(definitions))
    ready: dict[str, _Ready] = {}
    for definition in definitions:
        ready[definition.id] = ready_one = _without_calls(definition, ready, names)
    return replace(definitions[-1], body=ready_one.body, result=ready_one.result)


def _expanded(program: Program) -> Program:
    _check_size(program)
    names = UniqueNames(_names_in(program))
    ready: dict[str, _Ready] = {}
    for definition in program.definitions:
        ready.setdefault(definition.id, _without_calls(definition, ready, names))
    body = _Expansion(ready, names).body(program.body)
    _check_depth(body, "the program")
    return replace(program, body=body, definitions=())


def _without_calls(definition: Definition, ready: Mapping[str, _Ready], names: UniqueNames) -> _Ready:
    expansion = _Expansion(ready, names)
    (*body, last) = expansion.body((*definition.body, Let("", definition.result)))
    assert type(last) is Let
    _check_depth(tuple(body), f"`{definition.id}`")
    return _Ready(definition.parameters, tuple(body), last.value)


def _names_in(program: Program) -> Iterable[str]:
    yield from program.buffers_by_name
    yield from _names_of(program.definitions)
    yield from declared_names(program.body)
    for node in unique_expressions(program):
        if type(node) is SpecConst:
            yield node.name


def _names_of(definitions: Iterable[Definition]) -> Iterable[str]:
    for definition in definitions:
        for parameter in definition.parameters:
            yield parameter.name
        yield from declared_names(definition.body)


def _check_size(program: Program) -> None:
    """Raises ``InvalidProgram`` if the expanded program would be too large; computed without expanding it."""
    sizes: dict[str, int] = {}
    for definition in program.definitions:
        size = _size((*definition.body, Let("", definition.result)), sizes)
        sizes.setdefault(definition.id, size + 2 * len(definition.parameters))
    if _size(program.body, sizes) > MAX_PROGRAM_NODES:
        raise InvalidProgram(
            f"with its calls expanded, the program has more than {MAX_PROGRAM_NODES} nodes",
            fix="call the operations in a loop, keep results in locals, or split the program.",
        )


def _size(body: Body, sizes: Mapping[str, int]) -> int:
    """Returns the number of nodes that a body has when its calls are expanded, at most a bit more than the limit."""
    known: dict[int, tuple[int, int]] = {}
    total = 0
    for stmt in walk_statements(body):
        total += own_size(stmt)
        for root in operands(stmt):
            total += measure(root, known, MAX_PROGRAM_NODES + 1)[1] + _called_size(root, sizes)
        if total > MAX_PROGRAM_NODES:
            return MAX_PROGRAM_NODES + 1
    return total


def _called_size(root: Expr, sizes: Mapping[str, int]) -> int:
    """Returns the number of nodes that the calls in an expression add, at every use of a shared one."""
    total, stack = 0, [root]
    while stack:
        node = stack.pop()
        if type(node) is Call:
            total += sizes[node.op]
            if total > MAX_PROGRAM_NODES:
                return total
        if type(node) not in LEAVES:
            stack += children(node)
    return total


def _check_depth(body: Body, what: str) -> None:
    pending = [(body, 0)]
    while pending:
        inner, depth = pending.pop()
        if inner and depth > MAX_STATEMENT_DEPTH:
            raise InvalidProgram(
                f"with its calls expanded, {what} has statements nested {depth} bodies deep; the limit is "
                f"{MAX_STATEMENT_DEPTH}",
                fix="call the operation outside of the nesting, or keep results of calls in locals before a chain of "
                "`else if`.",
            )
        for stmt in inner:
            if type(stmt) in WITH_BODIES:
                pending += nested(stmt, depth)


class _Expansion:
    """One walk over a body in program order.  It recurses once a level of nesting, which the limits bound."""

    def __init__(self, ready: Mapping[str, _Ready], names: UniqueNames) -> None:
        self._ready = ready
        self._names = names
        self._out: list[Stmt] = []
        self._kinds: dict[int, tuple[bool, bool]] = {}
        """Whether an expression contains a call, and whether it contains one of ``ORDERED``, by its identity."""

    def body(self, body: Body) -> Body:
        outer, self._out = self._out, []
        for stmt in body:
            self._out.append(self._statement(stmt))
        rewritten, self._out = self._out, outer
        return same_statements(body, rewritten)

    def _statement(self, stmt: Stmt) -> Stmt:
        if type(stmt) is If:
            return self._chain(stmt)
        rewritten: Stmt = self._with_operands(stmt)
        match rewritten:
            case Switch(_, arms, default):
                return with_branches(rewritten, [self.body(arm.body) for arm in arms], self.body(default))
            case Loop() | GridLoop() | Block() | Region():
                rewritten = with_body(rewritten, self.body(rewritten.body))
        return rewritten

    def _chain(self, first: If) -> Stmt:
        """Expands a chain of ``else if`` of any length without recursion over its links."""
        links, last = if_chain(first)
        done: list[tuple[If, list[Stmt], If, Body]] = []
        outer = self._out
        for link in links:
            self._out = before = outer if link is first else []
            tested = self._with_operands(link)
            self._out = outer
            done.append((link, before, tested, self.body(link.then)))
        otherwise = self.body(last)
        unchanged = dict(zip(map(id, links), [(), *[link.otherwise for link in links]], strict=False))
        following: If = first
        for link, before, tested, then in reversed(done):
            if then is tested.then and otherwise is tested.otherwise:
                following = tested
            else:
                following = replace(tested, then=then, otherwise=otherwise)
            otherwise = unchanged[id(link)] if following is link else (*before, following)
        return following

    def _with_operands(self, stmt: Any) -> Any:
        """Returns a statement with expanded operands, and appends what comes before it."""
        values = operands(stmt)
        if not any(self._kind(value)[0] for value in values):
            return stmt
        return with_operands(stmt, self._sequence(values, stmt.loc))

    # Expressions.

    def _kind(self, root: Expr) -> tuple[bool, bool]:
        kinds = self._kinds
        for node in operands_first(root, kinds):
            below = [kinds[id(child)] for child in children(node)]
            kinds[id(node)] = (
                type(node) is Call or any(calls for calls, _ in below),
                type(node) in ORDERED or any(ordered for _, ordered in below),
            )
        return kinds[id(root)]

    def _sequence(self, exprs: Sequence[Expr], loc: SourceLocation | None) -> list[Expr]:
        """Returns expressions without calls that have the values of ``exprs``, evaluated in order."""
        done: list[Expr] = []
        is_ordered: list[bool] = []
        for expr in exprs:
            calls, ordered = self._kind(expr)
            if calls and ordered and self._hoists_ordered(expr):
                done = [self._local("kept", e, loc) if late else e for e, late in zip(done, is_ordered, strict=True)]
                is_ordered = [False] * len(done)
            done.append(self._tree(expr, loc) if calls else expr)
            is_ordered.append(ordered)
        return done

    def _hoists_ordered(self, root: Expr) -> bool:
        """Returns whether an argument of a call in an expression contains one of ``ORDERED``."""
        stack = [root]
        while stack:
            node = stack.pop()
            calls, ordered = self._kind(node)
            if calls and ordered:
                if type(node) is Call:
                    return True
                stack += children(node)
        return False

    def _tree(self, node: Any, loc: SourceLocation | None) -> Expr:
        """Returns an expression without calls; recurses once a level of a bounded depth."""
        loc = node.loc or loc
        below = self._sequence(children(node), loc)
        if type(node) is Call:
            return self._inlined(node, below, loc)
        return with_children(node, below)

    def _local(self, hint: str, value: Expr, loc: SourceLocation | None) -> Expr:
        """Returns a new local with this value; a local stands for itself, since no statement of the call assigns it."""
        if type(value) is Var:
            return value
        name = self._names.unique(hint)
        self._out.append(Let(name, value, loc=loc))
        return Var(name, loc=loc)

    def _inlined(self, call: Call, arguments: Sequence[Expr], loc: SourceLocation | None) -> Expr:
        """Returns the result of a call, and appends the statements of its body."""
        ready = self._ready[call.op]
        prefix = call.op.rpartition(".")[2]
        shown: dict[str, Expr] = {}
        for parameter, value in zip(ready.parameters, arguments, strict=True):
            name = parameter.name  # an attribute stays the constant that it is
            shown[name] = value if parameter.is_attribute else self._local(f"{prefix}_{name}", value, loc)
        self._out += _copied(ready.body, shown, self._names, prefix, loc)
        return self._local(f"{prefix}_result", _copied(ready.result, shown, self._names, prefix, loc), loc)


def _copied(root: _Root, shown: dict[str, Expr], names: UniqueNames, prefix: str, loc: SourceLocation | None) -> _Root:
    """Returns a part of a definition with its parameters replaced and its locals renamed, as ``shown`` says, to which
    new names are added.

    A definition declares no name where it is visible, so one table serves all scopes: what a scope declares is not
    read behind it.
    """

    def local(name: str) -> Expr:
        if name not in shown:
            shown[name] = Var(names.unique(f"{prefix}_{name}"), loc=loc)
        return shown[name]

    def renamed(name: str) -> str:
        target = local(name)
        assert type(target) is Var
        return target.name

    def change(node: Any) -> Any:
        match node:
            case Var(name):
                return local(name)
            case Let(name) | Assign(name):
                return replace(node, name=renamed(name), loc=node.loc or loc)
            case Loop(var):
                return replace(node, var=renamed(var), loc=node.loc or loc)
        return replace(node, loc=loc) if type(node) in WITH_BODIES and node.loc is None else node

    return rebuilt(root, change)

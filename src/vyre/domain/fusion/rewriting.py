"""The body of a stage in the words of the joined program: names, ids, lengths and elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.fusion.elements import from_held, to_held
from vyre.domain.fusion.stages import Refused
from vyre.domain.ir.expr import (
    Atomic,
    Binary,
    BufferLength,
    Expr,
    IdKind,
    LaunchId,
    Literal,
    Load,
    Select,
    SpecConst,
    Var,
    walk,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.rebuilding import rebuilt, with_branches, with_operands
from vyre.domain.ir.stmt import (
    Assign,
    AsyncLoad,
    AsyncStore,
    AsyncWait,
    Barrier,
    Block,
    Body,
    Break,
    Continue,
    If,
    Let,
    Loop,
    Region,
    Stmt,
    Store,
    Switch,
    if_chain,
    operands,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.names import Dim3

ExpressionMap: TypeAlias = Callable[[Expr, dict[int, Expr]], Expr]
StatementMap: TypeAlias = Callable[[Stmt], Stmt | None]


class View(NamedTuple):
    """How a stage sees a buffer of the joined program.

    ``element`` is the stage's own type and ``held`` that of the joined buffer.  ``length`` is the stage's number of
    elements; ``own`` is that number if the joined buffer has more, and then accesses are masked by it.  ``value``: what
    stands for a parameter that is no buffer of the joined program.
    """

    name: str
    element: ScalarType
    held: ScalarType
    length: Expr
    own: int | None = None
    value: Expr | None = None


def map_body(body: Body, expression: ExpressionMap, statement: StatementMap) -> Body:
    """Returns a body whose own expressions and then statements have been replaced, those of nested bodies first.

    ``expression`` gets each expression that a statement evaluates, and a memo of that statement.  A statement for which
    ``statement`` returns None is left out.
    """
    found = (_mapped(stmt, expression, statement) for stmt in body)
    return tuple(stmt for stmt in found if stmt is not None)


SUPPORTED: Final[frozenset[type[Node]]] = frozenset(
    {
        *(Let, Assign, Store, If, Switch, Loop, Break, Continue, Block, Region),
        *(Barrier, AsyncLoad, AsyncStore, AsyncWait),
    }
)
"""The types of statements that a stage without ``return`` may have."""


def mapped_operands(stmt: Stmt, expression: ExpressionMap) -> Stmt:
    """Returns a statement whose own expressions have been replaced; ``expression`` gets a memo of this statement."""
    made: dict[int, Expr] = {}
    return with_operands(stmt, [expression(operand, made) for operand in operands(stmt)])


def with_bodies(stmt: Stmt, change: Callable[[Body], Body]) -> Stmt:
    """Returns a statement of which each body has been changed; in a chain of ``else if`` those of all links."""
    match stmt:
        case If():
            links, rest = if_chain(stmt)
            rest = change(rest)
            for link in reversed(links):
                rest = (replace(link, then=change(link.then), otherwise=rest),)
            return rest[0]
        case Switch():
            return with_branches(stmt, [change(arm.body) for arm in stmt.arms], change(stmt.default))
        case Loop() | Block() | Region():
            return replace(stmt, body=change(stmt.body))
    return stmt


def _mapped(stmt: Stmt, expression: ExpressionMap, statement: StatementMap) -> Stmt | None:
    if not isinstance(stmt, If):
        found = with_bodies(stmt, lambda body: map_body(body, expression, statement))
        return statement(mapped_operands(found, expression))
    links, otherwise = if_chain(stmt)
    rest = map_body(otherwise, expression, statement)
    for link in reversed(links):
        then = map_body(link.then, expression, statement)
        mapped = statement(mapped_operands(replace(link, then=then, otherwise=rest), expression))
        rest = () if mapped is None else (mapped,)
    return rest[0] if rest else None


class Rewriter:
    """Rewrites the body of one stage; every access in the result is an object of its own.

    ``views`` has an entry for each buffer of the stage.  ``sizes``: the stage's workgroups and lanes in a workgroup if
    the workgroups of the joined program differ, else None; ``grid``: its workgroups if only their number differs.
    ``ids``: the expressions that replace the ids of a launch, in place of both.
    """

    def __init__(
        self,
        stage: int,
        views: Mapping[str, View],
        names: UniqueNames,
        spec: Mapping[str, Literal],
        grid: Dim3 | None,
        workgroup: Dim3 | None,
        ids: Callable[[LaunchId], Expr] | None = None,
    ) -> None:
        self._stage = stage
        self._views = views
        self._names = names
        self._spec = spec
        self._grid = grid
        self._workgroup = workgroup
        self._ids = ids
        self._renamed: dict[str, str] = {}
        self._constants: dict[str, str] = {}
        self._tags: dict[str, str] = {}

    def body(self, body: Body) -> Body:
        """Returns the rewritten body."""
        return map_body(body, self._expression, self._statement)

    def local(self, name: str) -> str:
        """Returns the new name of a local."""
        found = self._renamed.get(name)
        if found is None:
            found = self._renamed[name] = self._names.unique(name)
        return found

    # ---- expressions
    def _expression(self, expr: Expr, made: dict[int, Expr]) -> Expr:
        return rebuilt(expr, self._node, made)

    def _node(self, node: Expr) -> Expr:
        match node:
            case Var():
                return replace(node, name=self.local(node.name))
            case Load():
                return self._load(node)
            case BufferLength():
                return self._views[node.buffer].length
            case Atomic():
                view = self._views[node.buffer]
                if view.own is not None or view.element is not view.held:
                    raise Refused(f"an atomic updates `{node.buffer}`, which other stages see otherwise", self._stage)
                return replace(node, buffer=view.name)
            case SpecConst():
                if node.name not in self._constants:
                    self._constants[node.name] = self._names.unique(node.name)
                return replace(node, name=self._constants[node.name], default=self._spec.get(node.name, node.default))
            case LaunchId():
                return self._id(node) if self._ids is None else self._ids(node)
            case _:
                return node

    def _load(self, node: Load) -> Expr:
        view = self._views[node.buffer]
        if view.value is not None:
            return view.value
        loaded: Expr = replace(node, buffer=view.name)
        if view.own is not None:
            bound = self._below(node.index, view.own)
            loaded = Select(bound, loaded, Literal(view.held.widened, 0), loc=node.loc)
        return from_held(view.element, view.held, loaded)

    def _below(self, index: Expr, count: int) -> Expr:
        """Returns ``index < count``; only indices of type u32 can be masked so."""
        if any(isinstance(node, Atomic) for node in walk(index)):
            raise Refused("an index with an atomic cannot be masked by a length", self._stage)
        return Binary(BinaryOp.LT, index, Literal(ScalarType.U32, count))

    def _id(self, node: LaunchId) -> Expr:
        axis = node.axis
        if node.kind is IdKind.NUM_GROUPS and self._grid is not None:
            return Literal(ScalarType.U32, self._grid[axis])
        if self._workgroup is None or node.kind in (IdKind.GLOBAL, IdKind.NUM_GROUPS):
            return node
        lanes = self._workgroup[axis]
        whole = replace(node, kind=IdKind.GLOBAL)
        if lanes == 1:
            return whole if node.kind is IdKind.GROUP else Literal(ScalarType.U32, 0)
        op = BinaryOp.DIV if node.kind is IdKind.GROUP else BinaryOp.MOD
        return Binary(op, whole, Literal(ScalarType.U32, lanes))

    # ---- statements
    def _statement(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Let() | Assign():
                return replace(stmt, name=self.local(stmt.name))
            case Loop():
                return replace(stmt, var=self.local(stmt.var))
            case Store():
                return self._store(stmt)
            case AsyncLoad() | AsyncStore():
                views = self._views[stmt.source], self._views[stmt.destination]
                if any(view.own is not None or view.element is not view.held for view in views):
                    raise Refused("an asynchronous copy of memory that other stages see otherwise", self._stage)
                return replace(stmt, source=views[0].name, destination=views[1].name, tag=self._tag(stmt.tag))
            case AsyncWait():
                return replace(stmt, tag=self._tag(stmt.tag))
            case _:
                return stmt

    def _tag(self, tag: str) -> str:
        if tag not in self._tags:
            self._tags[tag] = self._names.unique(tag)
        return self._tags[tag]

    def _store(self, stmt: Store) -> Stmt:
        view = self._views[stmt.buffer]
        store = replace(stmt, buffer=view.name, value=to_held(view.element, view.held, stmt.value))
        if view.own is None:
            return store
        if any(isinstance(node, Atomic) for root in operands(stmt) for node in walk(root)):
            raise Refused("a store of an atomic's result cannot be masked by a length", self._stage)
        # The index stands in the condition and in the store; each occurrence is evaluated and has no effect.
        return If(self._below(stmt.index, view.own), (store,), loc=stmt.loc)

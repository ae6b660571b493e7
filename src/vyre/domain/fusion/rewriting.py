"""The body of a stage in the words of the joined program: names, ids, lengths and elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.fusion.elements import from_held, to_held
from vyre.domain.fusion.stages import Refused
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.rebuilding import rebuilt, with_bodies, with_operands
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.names import Dim3

ExpressionMap: TypeAlias = Callable[[ir.Expr, dict[int, ir.Expr]], ir.Expr]
StatementMap: TypeAlias = Callable[[ir.Stmt], ir.Stmt | None]


class View(NamedTuple):
    """How a stage sees a buffer of the joined program.

    ``element`` is the stage's own type and ``held`` that of the joined buffer.  ``length`` is the stage's number of
    elements; ``own`` is that number if the joined buffer has more, and then accesses are masked by it.  ``value``: what
    stands for a parameter that is no buffer of the joined program.
    """

    name: str
    element: ScalarType
    held: ScalarType
    length: ir.Expr
    own: int | None = None
    value: ir.Expr | None = None


def map_body(body: ir.Body, expression: ExpressionMap, statement: StatementMap) -> ir.Body:
    """Returns a body whose own expressions and then statements have been replaced, those of nested bodies first.

    ``expression`` gets each expression that a statement evaluates, and a memo of that statement.  A statement for which
    ``statement`` returns None is left out.
    """
    mapped = (_mapped(stmt, expression, statement) for stmt in body)
    return tuple(stmt for stmt in mapped if stmt is not None)


SUPPORTED: Final[frozenset[type[Node]]] = frozenset(
    {
        *(ir.Let, ir.Assign, ir.Store, ir.If, ir.Switch, ir.Loop, ir.Break, ir.Continue, ir.Block, ir.Region),
        *(ir.Barrier, ir.AsyncLoad, ir.AsyncStore, ir.AsyncWait),
    }
)
"""The types of statements that a stage without ``return`` may have."""


def mapped_operands(stmt: ir.Stmt, expression: ExpressionMap) -> ir.Stmt:
    """Returns a statement whose own expressions have been replaced; ``expression`` gets a memo of this statement."""
    memo: dict[int, ir.Expr] = {}
    return with_operands(stmt, [expression(operand, memo) for operand in ir.operands(stmt)])


def _mapped(stmt: ir.Stmt, expression: ExpressionMap, statement: StatementMap) -> ir.Stmt | None:
    if not isinstance(stmt, ir.If):
        inside = with_bodies(stmt, lambda body: map_body(body, expression, statement))
        return statement(mapped_operands(inside, expression))
    links, otherwise = ir.if_chain(stmt)
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
        spec: Mapping[str, ir.Literal],
        grid: Dim3 | None,
        workgroup: Dim3 | None,
        ids: Callable[[ir.LaunchId], ir.Expr] | None = None,
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

    def body(self, body: ir.Body) -> ir.Body:
        """Returns the rewritten body."""
        return map_body(body, self._expression, self._statement)

    def local(self, name: str) -> str:
        """Returns the new name of a local."""
        new = self._renamed.get(name)
        if new is None:
            new = self._renamed[name] = self._names.unique(name)
        return new

    # ---- expressions
    def _expression(self, expr: ir.Expr, memo: dict[int, ir.Expr]) -> ir.Expr:
        return rebuilt(expr, self._node, memo)

    def _node(self, node: ir.Expr) -> ir.Expr:
        match node:
            case ir.Var():
                return replace(node, name=self.local(node.name))
            case ir.Load():
                return self._load(node)
            case ir.BufferLength():
                return self._views[node.buffer].length
            case ir.Atomic():
                view = self._views[node.buffer]
                if view.own is not None or view.element is not view.held:
                    raise Refused(f"an atomic updates `{node.buffer}`, which other stages see otherwise", self._stage)
                return replace(node, buffer=view.name)
            case ir.SpecConst():
                if node.name not in self._constants:
                    self._constants[node.name] = self._names.unique(node.name)
                return replace(node, name=self._constants[node.name], default=self._spec.get(node.name, node.default))
            case ir.LaunchId():
                return self._id(node) if self._ids is None else self._ids(node)
            case _:
                return node

    def _load(self, node: ir.Load) -> ir.Expr:
        view = self._views[node.buffer]
        if view.value is not None:
            return view.value
        loaded: ir.Expr = replace(node, buffer=view.name)
        if view.own is not None:
            bound = self._below(node.index, view.own)
            loaded = ir.Select(bound, loaded, ir.Literal(view.held.widened, 0), loc=node.loc)
        return from_held(view.element, view.held, loaded)

    def _below(self, index: ir.Expr, count: int) -> ir.Expr:
        """Returns ``index < count``; only indices of type u32 can be masked so."""
        if any(isinstance(node, ir.Atomic) for node in ir.walk(index)):
            raise Refused("an index with an atomic cannot be masked by a length", self._stage)
        return ir.Binary(BinaryOp.LT, index, ir.Literal(ScalarType.U32, count))

    def _id(self, node: ir.LaunchId) -> ir.Expr:
        axis = node.axis
        if node.kind is ir.IdKind.NUM_GROUPS and self._grid is not None:
            return ir.Literal(ScalarType.U32, self._grid[axis])
        if self._workgroup is None or node.kind in (ir.IdKind.GLOBAL, ir.IdKind.NUM_GROUPS):
            return node
        lanes = self._workgroup[axis]
        whole = replace(node, kind=ir.IdKind.GLOBAL)
        if lanes == 1:
            return whole if node.kind is ir.IdKind.GROUP else ir.Literal(ScalarType.U32, 0)
        op = BinaryOp.DIV if node.kind is ir.IdKind.GROUP else BinaryOp.MOD
        return ir.Binary(op, whole, ir.Literal(ScalarType.U32, lanes))

    # ---- statements
    def _statement(self, stmt: ir.Stmt) -> ir.Stmt:
        match stmt:
            case ir.Let() | ir.Assign():
                return replace(stmt, name=self.local(stmt.name))
            case ir.Loop():
                return replace(stmt, var=self.local(stmt.var))
            case ir.Store():
                return self._store(stmt)
            case ir.AsyncLoad() | ir.AsyncStore():
                views = self._views[stmt.source], self._views[stmt.destination]
                if any(view.own is not None or view.element is not view.held for view in views):
                    raise Refused("an asynchronous copy of memory that other stages see otherwise", self._stage)
                return replace(stmt, source=views[0].name, destination=views[1].name, tag=self._tag(stmt.tag))
            case ir.AsyncWait():
                return replace(stmt, tag=self._tag(stmt.tag))
            case _:
                return stmt

    def _tag(self, tag: str) -> str:
        if tag not in self._tags:
            self._tags[tag] = self._names.unique(tag)
        return self._tags[tag]

    def _store(self, stmt: ir.Store) -> ir.Stmt:
        view = self._views[stmt.buffer]
        store = replace(stmt, buffer=view.name, value=to_held(view.element, view.held, stmt.value))
        if view.own is None:
            return store
        if any(isinstance(node, ir.Atomic) for root in ir.operands(stmt) for node in ir.walk(root)):
            raise Refused("a store of an atomic's result cannot be masked by a length", self._stage)
        # The index stands in the condition and in the store; each occurrence is evaluated and has no effect.
        return ir.If(self._below(stmt.index, view.own), (store,), loc=stmt.loc)

"""``with_unique_locals``: a program whose locals have names of their own, so that a name identifies a declaration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt, with_operands
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.ir.walk import declared_names

_CACHED: Final = "unique_locals"


def with_unique_locals(program: Program) -> Program:
    """Returns ``program`` if every local of it has a name of its own, else one in which locals are renamed.

    Locals are what ``Let``, ``Loop`` and ``GridLoop`` declare.  The first local of a name keeps it.  Cached on the
    program.  O(nodes).
    """
    cached = program._cache.get(_CACHED)
    if isinstance(cached, Program):
        return cached
    names = list(declared_names(program.body))
    unique = program if len(set(names)) == len(names) else _Renaming(names).program(program)
    unique._cache[_CACHED] = unique
    program._cache[_CACHED] = unique
    return unique


def names_of(program: Program) -> UniqueNames:
    """Returns the names of the buffers and locals of a program."""
    return UniqueNames((*program.buffers_by_name, *declared_names(program.body)))


class _Renaming:
    """One walk in program order.  ``_shown`` maps the visible locals that have another name now to that name."""

    def __init__(self, names: list[str]) -> None:
        self._taken = UniqueNames(names)
        self._declared: set[str] = set()
        self._shown: dict[str, str] = {}

    def program(self, program: Program) -> Program:
        return replace(program, body=self._body(program.body))

    def _body(self, body: ir.Body) -> ir.Body:
        outer = self._shown
        self._shown = dict(outer)
        renamed = tuple([self._statement(stmt) for stmt in body])
        self._shown = outer
        return renamed

    def _declare(self, name: str) -> str:
        if name not in self._declared:
            self._declared.add(name)
            return name
        self._shown[name] = renamed = self._taken.unique(name)
        return renamed

    def _expressions(self, stmt: ir.Stmt) -> ir.Stmt:
        """Returns a statement with its own operands renamed; bodies and names are left as they are."""
        if not self._shown:
            return stmt
        memo: dict[int, Any] = {}
        return with_operands(stmt, [rebuilt(each, self._visible, memo) for each in ir.operands(stmt)])

    def _visible(self, node: Any) -> Any:
        if type(node) is ir.Var and node.name in self._shown:
            return replace(node, name=self._shown[node.name])
        return node

    def _statement(self, stmt: ir.Stmt) -> ir.Stmt:
        renamed: Any = self._expressions(stmt)
        match renamed:
            case ir.Let():
                return replace(renamed, name=self._declare(renamed.name))
            case ir.Assign():
                return replace(renamed, name=self._shown.get(renamed.name, renamed.name))
            case ir.If():
                return self._chain(renamed)
            case ir.Switch():
                arms = tuple([replace(arm, body=self._body(arm.body)) for arm in renamed.arms])
                return replace(renamed, arms=arms, default=self._body(renamed.default))
            case ir.Loop():
                outer, self._shown = self._shown, dict(self._shown)
                var = self._declare(renamed.var)
                loop = replace(renamed, var=var, body=self._body(renamed.body))
                self._shown = outer
                return loop
            case ir.GridLoop():
                body = self._body(renamed.body)
                return replace(renamed, body=body, name=self._declare(renamed.name))
            case ir.Block() | ir.Region():
                return replace(renamed, body=self._body(renamed.body))
        return cast("ir.Stmt", renamed)

    def _link(self, link: ir.If, first: ir.If) -> Any:
        return link if link is first else self._expressions(link)

    def _chain(self, first: ir.If) -> ir.Stmt:
        """Renames in a chain of ``else if`` of any length without recursion over its links."""
        links, last = ir.if_chain(first)
        done = [(self._link(link, first), self._body(link.then)) for link in links]
        otherwise = self._body(last)
        for link, then in reversed(done):
            otherwise = (replace(link, then=then, otherwise=otherwise),)
        return otherwise[0]

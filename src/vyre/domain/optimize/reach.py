"""The statements that can run: branches on literals are decided, and what stands behind the end of a path goes."""

from __future__ import annotations

from typing import NamedTuple

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.rebuilding import same_statements, with_body, with_branches
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.walking import linked


class Reached(NamedTuple):
    """Statements, and whether no lane comes to their end."""

    body: ir.Body
    ends: bool


def reached(body: ir.Body, counts: Counts) -> ir.Body:
    """Returns the body of a program without statements that never run, and without blocks.

    Locals must have names of their own.  Counts ``unreachable`` statements, ``decided`` branches and ``opened`` blocks.
    """
    rest = _Reach(counts).body(body).body
    return rest[:-1] if rest and type(rest[-1]) is ir.Return else rest


class _Reach:
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def body(self, body: ir.Body) -> Reached:
        out: list[ir.Stmt] = []
        for index, stmt in enumerate(body):
            if type(stmt) in ir.LEAVING:
                out.append(stmt)
                ends = True
            else:
                ends = self._statement(stmt, out)
            if ends:
                self._counts["unreachable"] += len(body) - index - 1
                return Reached(same_statements(body, out), True)
        return Reached(same_statements(body, out), False)

    def _statement(self, stmt: ir.Stmt, out: list[ir.Stmt]) -> bool:
        """Adds what a statement becomes to ``out``; returns whether no lane comes to its end."""
        match stmt:
            case ir.If():
                return self._if(stmt, out)
            case ir.Switch():
                return self._switch(stmt, out)
            case ir.Block():
                self._counts["opened"] += 1
                return self._splice(self.body(stmt.body), out)
            case ir.Region():
                inner = self.body(stmt.body)
                out.append(with_body(stmt, inner.body))
                return inner.ends
            case ir.Loop():
                self._loop(stmt, out)
            case ir.GridLoop():
                out.append(with_body(stmt, self.body(stmt.body).body))
            case _:
                out.append(stmt)
        return False

    def _splice(self, inner: Reached, out: list[ir.Stmt]) -> bool:
        out += inner.body
        return inner.ends

    def _if(self, stmt: ir.If, out: list[ir.Stmt]) -> bool:
        links, last = ir.if_chain(stmt)
        kept: list[tuple[ir.If, Reached]] = []
        for link in links:
            if type(link.condition) is not ir.Literal:
                kept.append((link, self.body(link.then)))
                continue
            self._counts["decided"] += 1
            if link.condition.bits:
                last = link.then
                break
        rest = self.body(last)
        if not kept:
            return self._splice(rest, out)
        ends = rest.ends and all(then.ends for _, then in kept)
        otherwise = rest.body
        for link, then in reversed(kept):
            otherwise = (linked(link, link.condition, then.body, otherwise),)
        out += otherwise
        return ends

    def _switch(self, stmt: ir.Switch, out: list[ir.Stmt]) -> bool:
        selector = stmt.selector
        if type(selector) is ir.Literal:
            self._counts["decided"] += 1
            chosen = [arm.body for arm in stmt.arms if any(label.bits == selector.bits for label in arm.labels)]
            return self._splice(self.body(chosen[0] if chosen else stmt.default), out)
        arms = [self.body(arm.body) for arm in stmt.arms]
        default = self.body(stmt.default)
        out.append(with_branches(stmt, [arm.body for arm in arms], default.body))
        return default.ends and all(arm.ends for arm in arms)

    def _loop(self, stmt: ir.Loop, out: list[ir.Stmt]) -> None:
        if _never_runs(stmt):
            self._counts["decided"] += 1
            return
        body = self.body(stmt.body).body
        while body and type(body[-1]) is ir.Continue:
            body = body[:-1]
            self._counts["unreachable"] += 1
        out.append(with_body(stmt, body))


def _never_runs(stmt: ir.Loop) -> bool:
    """Returns whether literal bounds leave a loop without a round."""
    start, stop, step = stmt.start, stmt.stop, stmt.step
    if type(start) is not ir.Literal or type(stop) is not ir.Literal or type(step) is not ir.Literal:
        return False
    return start.value <= stop.value if step.value < 0 else start.value >= stop.value

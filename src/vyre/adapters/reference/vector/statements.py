"""Statements as closures: they take the active lanes and return those that continue (None if none do)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from vyre.adapters.lanes.types import Lanes
from vyre.adapters.reference.vector.affine import Extent, Split, share_workgroups
from vyre.adapters.reference.vector.async_copies import async_load, async_store, async_wait
from vyre.adapters.reference.vector.chunk import Chunk, Local
from vyre.adapters.reference.vector.expressions import ExpressionCompiler, Invariants
from vyre.adapters.reference.vector.lanes_context import Context, merge, select, union, without
from vyre.adapters.reference.vector.value_types import Word
from vyre.adapters.reference.vector.values import U32, Compiled, Evaluate, EvaluateTruth, EvaluateWord, dense, full
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.expr import Atomic, Expr, Literal, Var
from vyre.domain.ir.program import Program
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
    IndirectDispatch,
    Let,
    Loop,
    Region,
    Return,
    Stmt,
    Store,
    Switch,
    Trap,
    walk_statements,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_expressions

Execute: TypeAlias = Callable[[Chunk, Context], "Context | None"]


class StatementCompiler:
    """Compiles bodies; one slot for each declared local."""

    def __init__(self, program: Program, elements: Mapping[str, ScalarType], spec: Mapping[str, Literal]) -> None:
        self.expressions: ExpressionCompiler = ExpressionCompiler(elements, _written(program), spec)
        self.used: set[str] = {e.name for e in unique_expressions(program) if isinstance(e, Var)}
        self.used |= {s.name for s in walk_statements(program.body) if isinstance(s, Assign)}
        self.slot_count: int = 0
        self.loop_count: int = 0
        self.loops: list[_Rounds] = []

    def body(self, body: Body) -> Execute:
        """Compiles a scope: each statement runs for the lanes that are still active."""
        mark = self.expressions.slots.mark
        steps = tuple([self.stmt(s) for s in body])
        self._leave(mark)
        if len(steps) == 1:
            return steps[0]

        def run(chunk: Chunk, ctx: Context) -> Context | None:
            for step in steps:
                lanes = step(chunk, ctx)
                if lanes is None:
                    return None
                ctx = lanes
            return ctx

        return run

    def declare(self, name: str, dtype: ScalarType) -> int:
        """Returns a new slot for a local."""
        slot = self._new_slot()
        self.expressions.types.declare(name, dtype)
        self.expressions.slots.declare(name, slot)
        return slot

    def _leave(self, mark: int) -> None:
        """Ends the scope that began at ``mark`` of the slots."""
        self.expressions.types.leave(mark)
        self.expressions.slots.leave(mark)

    def stmt(self, stmt: Stmt) -> Execute:
        """Compiles a statement."""
        compile_expr, held = self.expressions.compile, self.expressions.held
        match stmt:
            case Let(name, value):
                return self._let(name, value)
            case Assign(name, value):
                evaluate, dtype, _, _ = held(value)
                return _assign(self.expressions.slots[name], evaluate, dtype)
            case Store(buffer, index, value):
                unread = not self.expressions.reads(value, buffer)
                return self._store(buffer, held(index).words, held(value), unread=unread)
            case If(condition, then, otherwise):
                taken = compile_expr(condition).truths
                return _branch(taken, self.body(then), self.body(otherwise) if otherwise else None)
            case Switch():
                raise UnsupportedFeature(feature="switch", backend="reference")
            case Loop():
                return self._loop(stmt)
            case Break():
                return _break
            case Continue():
                rounds = self.loops[-1]
                rounds.continued = True
                return _continue(rounds.number)
            case Return():
                return _return
            case Block(body) | Region(_, body):
                return self.body(body)
            case Barrier():
                return lambda chunk, ctx: ctx
            case AsyncLoad(source, destination, offset, size, tag):
                return async_load(source, destination, compile_expr(offset).words, compile_expr(size).words, tag)
            case AsyncStore(source, destination, offset, size, tag):
                return async_store(source, destination, compile_expr(offset).words, compile_expr(size).words, tag)
            case AsyncWait(tag):
                return async_wait(tag)
            case Trap(address, tag):
                return _trap(compile_expr(address).words, tag)
            case IndirectDispatch():
                raise UnsupportedFeature(feature="indirect dispatch", backend="reference")

    def _let(self, name: str, value: Expr) -> Execute:
        if isinstance(value, Atomic) and name not in self.used:
            effect = self.expressions.unused_atomic(value)
            if effect is not None:
                self.declare(name, self.expressions.elements[value.buffer])

                def update(chunk: Chunk, ctx: Context) -> Context:
                    effect(chunk, ctx)
                    return ctx

                return update
        evaluate, dtype, _, _ = self.expressions.held(value)
        slot = self.declare(name, dtype)

        def execute(chunk: Chunk, ctx: Context) -> Context:
            chunk.locals[slot] = Local(evaluate(chunk, ctx), ctx)
            return ctx

        return execute

    def _store(self, buffer: str, index: EvaluateWord, value: Compiled, *, unread: bool) -> Execute:
        element = self.expressions.elements[buffer]
        evaluate, dtype, _, into = value
        direct = into if element is dtype else None

        def execute(chunk: Chunk, ctx: Context) -> Context:
            at = index(chunk, ctx)
            storage = chunk.buffers[buffer]
            target = storage.target(ctx, at) if direct is not None else None
            if target is None:
                storage.store(ctx, at, dense(evaluate(chunk, ctx), ctx, dtype))
            else:
                assert direct is not None
                direct(chunk, ctx, target, unread)
                storage.canonicalise(target)
            return ctx

        return execute

    def _loop(self, loop: Loop) -> Execute:
        start, stop, step = (self.expressions.held(e).words for e in (loop.start, loop.stop, loop.step))
        mark = self.expressions.slots.mark
        around = self.expressions.loop
        kept = self.expressions.loop = Invariants(_varying(loop), self.expressions.written, self._new_slot)
        slot = self.declare(loop.var, U32)
        rounds = _Rounds(self.loop_count)
        self.loop_count += 1
        self.loops.append(rounds)
        body = self.body(loop.body)
        self.loops.pop()
        self.expressions.loop = around
        self._leave(mark)
        return _Loop((start, stop, step), slot, rounds, tuple(kept.slots), body).run

    def _new_slot(self) -> int:
        self.slot_count += 1
        return self.slot_count - 1


def _written(program: Program) -> frozenset[str]:
    """Returns the buffers whose content may change while the program runs."""
    found = {b.name for b in program.buffers if b.is_workgroup}
    for stmt in walk_statements(program.body):
        match stmt:
            case Store(buffer, _, _):
                found.add(buffer)
            case AsyncLoad(_, destination) | AsyncStore(_, destination):
                found.add(destination)
            case _:
                pass
    found.update(e.buffer for e in unique_expressions(program) if isinstance(e, Atomic))
    return frozenset(found)


def _varying(loop: Loop) -> frozenset[str]:
    """Returns the locals that a round of the loop may change or declare."""
    found = {loop.var}
    for stmt in walk_statements(loop.body):
        match stmt:
            case Let(name, _) | Assign(name, _):
                found.add(name)
            case Loop(var):
                found.add(var)
            case _:
                pass
    return frozenset(found)


class _Rounds:
    """The number of a loop, and whether lanes may leave a round of it for the next one."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.continued = False


def _assign(slot: int, evaluate: Evaluate, dtype: ScalarType) -> Execute:
    def execute(chunk: Chunk, ctx: Context) -> Context:
        local, value = chunk.locals[slot], evaluate(chunk, ctx)
        assert local is not None
        if local.home is ctx or local.home.size == ctx.size:
            local.value, local.home = value, ctx
        else:
            old = full(local.value, local.home, dtype)
            local.value = merge(old, local.home, dense(value, ctx, dtype), ctx)
        return ctx

    return execute


def _parts(chunk: Chunk, boxes: tuple[Extent, ...]) -> list[Context]:
    """Returns the boxes, one after another; as one where a workgroup in two of them would fall out of phase."""
    if len(boxes) < 2 or not chunk.in_phase:
        return [chunk.grid.box(box) for box in boxes]
    parts: list[Context] = [chunk.grid.box(box) for box in sorted(boxes)]
    if not share_workgroups(boxes):
        return parts
    whole = union(parts)
    assert whole is not None
    return [whole]


def _branch(condition: EvaluateTruth, then: Execute, otherwise: Execute | None) -> Execute:
    def execute(chunk: Chunk, ctx: Context) -> Context | None:
        taken = condition(chunk, ctx)
        if taken is True:
            return then(chunk, ctx)
        if taken is False:
            return ctx if otherwise is None else otherwise(chunk, ctx)
        if isinstance(taken, Split):
            yes = _parts(chunk, taken.true)
            no: list[Context] | None = None
        else:
            chosen = select(ctx, taken)
            yes = [] if chosen is None else [chosen]
            no = None
            if otherwise is not None or chosen is None:
                rest = select(ctx, ~taken)
                no = [] if rest is None else [rest]
        left = [then(chunk, part) for part in yes]
        lost = any(a is not b for a, b in zip(left, yes, strict=True))
        if otherwise is None and not lost:
            return ctx
        if no is None:
            if isinstance(taken, Split):
                no = _parts(chunk, taken.false)
            else:
                rest = select(ctx, ~taken)
                no = [] if rest is None else [rest]
        if otherwise is None:
            after: list[Context | None] = list(no)
        else:
            after = [otherwise(chunk, part) for part in no]
            if not lost and all(a is b for a, b in zip(after, no, strict=True)):
                return ctx
        return union([part for part in left + after if part is not None])

    return execute


def _break(chunk: Chunk, ctx: Context) -> None:
    """Ends the loop for the lanes."""


def _continue(loop: int) -> Execute:
    def execute(chunk: Chunk, ctx: Context) -> None:
        chunk.continuing[loop].append(ctx)

    return execute


def _return(chunk: Chunk, ctx: Context) -> None:
    chunk.ended.append(ctx)


def _trap(address: EvaluateWord, tag: str) -> Execute:
    def execute(chunk: Chunk, ctx: Context) -> None:
        chunk.trap(ctx, dense(address(chunk, ctx), ctx, U32), tag)

    return execute


class _Loop:
    """A counted loop: plain while all lanes agree on the bounds, else on the lanes that are still in it."""

    def __init__(
        self,
        bounds: tuple[EvaluateWord, EvaluateWord, EvaluateWord],
        slot: int,
        rounds: _Rounds,
        kept: tuple[int, ...],
        body: Execute,
    ) -> None:
        self.bounds = bounds
        self.slot = slot
        self.rounds = rounds
        self.kept = kept
        self.body = body

    def run(self, chunk: Chunk, ctx: Context) -> Context | None:
        """Runs the loop; returns the lanes that continue after it."""
        start, stop, step = (bound(chunk, ctx) for bound in self.bounds)
        for slot in self.kept:
            chunk.locals[slot] = None
        chunk.locals[self.slot] = Local(start, ctx)
        ended = len(chunk.ended)
        if type(start) is int and type(stop) is int and type(step) is int:
            self._uniform(chunk, ctx, start, stop, step)
        else:
            self._divergent(chunk, ctx, *(full(v, ctx, U32).reshape(-1) for v in (start, stop, step)))
        gone = chunk.ended[ended:]
        return without(ctx, gone) if gone else ctx

    def _round(self, chunk: Chunk, lanes: Context, value: Word) -> Context | None:
        """Runs one iteration; returns the lanes that may take another."""
        counter = chunk.locals[self.slot]
        assert counter is not None
        counter.value, counter.home = value, lanes
        if not self.rounds.continued:
            return self.body(chunk, lanes)
        continuing: list[Context] = []
        chunk.continuing[self.rounds.number] = continuing
        left = self.body(chunk, lanes)
        if continuing:
            return union(([left] if left is not None else []) + continuing)
        return left

    def _uniform(self, chunk: Chunk, ctx: Context, start: int, stop: int, step: int) -> None:
        if not step:
            return
        watched = chunk.options.step_budget is not None or chunk.options.deadline_ns is not None
        counter = chunk.locals[self.slot]
        assert counter is not None
        if not (watched or self.rounds.continued):
            body = self.body
            for counter.value in range(start, stop, step):
                lanes = body(chunk, ctx)
                if lanes is None:
                    return
                counter.home = ctx = lanes
            return
        value = start
        while value < stop:
            lanes = self._round(chunk, ctx, value)
            value += step
            if lanes is None or value >= stop:
                return
            if watched:
                lanes = chunk.take_step(lanes)
                if lanes is None:
                    return
            ctx = lanes

    def _divergent(self, chunk: Chunk, ctx: Context, start: Lanes, stop: Lanes, step: Lanes) -> None:
        lanes: Context | None = select(ctx, ((start < stop) & (step != 0)).reshape(ctx.shape))
        if lanes is None:
            return
        outer: Context = ctx
        value, stop, step = (np.asarray(v, np.int64) for v in (start, stop, step))
        while lanes is not None:
            if lanes is not outer:
                chosen = np.searchsorted(outer.numbers, lanes.numbers)
                value, stop, step = value[chosen], stop[chosen], step[chosen]
                outer = lanes
            left = self._round(chunk, lanes, value.astype(np.uint32).reshape(lanes.shape))
            if left is None:
                return
            if left is not lanes:
                chosen = np.searchsorted(outer.numbers, left.numbers)
                value, stop, step = value[chosen], stop[chosen], step[chosen]
                outer = left
            value = value + step  # may exceed 32 bits where the loop ends
            lanes = select(left, (value < stop).reshape(left.shape))
            if lanes is not None:
                lanes = chunk.take_step(lanes)

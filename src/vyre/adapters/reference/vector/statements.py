"""Statements as closures: they take the active lanes and return those that continue (None if none do)."""

from __future__ import annotations

from collections.abc import Mapping

from vyre.adapters.reference.vector.async_copies import async_copy, async_wait
from vyre.adapters.reference.vector.branches import Execute, branch, chain, switch
from vyre.adapters.reference.vector.chunk import Chunk, Local
from vyre.adapters.reference.vector.expressions import ExpressionCompiler, Invariants
from vyre.adapters.reference.vector.integers import index_words, numbers
from vyre.adapters.reference.vector.lanes_context import Context, merge
from vyre.adapters.reference.vector.loops import CountedLoop, Rounds
from vyre.adapters.reference.vector.values import U32, Compiled, Evaluate, EvaluateWord, dense, full
from vyre.domain.errors import INDIRECT_FIX, UnsupportedFeature
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_expressions


class StatementCompiler:
    """Compiles bodies; one slot for each declared local."""

    def __init__(self, program: Program, elements: Mapping[str, ScalarType], spec: Mapping[str, ir.Literal]) -> None:
        self.expressions: ExpressionCompiler = ExpressionCompiler(elements, _written(program), spec)
        self.used: set[str] = {e.name for e in unique_expressions(program) if isinstance(e, ir.Var)}
        self.used |= {s.name for s in ir.walk_statements(program.body) if isinstance(s, ir.Assign)}
        self.slot_count: int = 0
        self.loop_count: int = 0
        self.loops: list[Rounds] = []

    def body(self, body: ir.Body) -> Execute:
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

    def stmt(self, stmt: ir.Stmt) -> Execute:
        """Compiles a statement."""
        compile_expr, keep = self.expressions.compile, self.expressions.held
        match stmt:
            case ir.Let(name, value):
                return self._let(name, value)
            case ir.Assign(name, value):
                evaluate, dtype, _, _ = keep(value)
                return _assign(self.expressions.slots[name], evaluate, dtype)
            case ir.Store(buffer, index, value):
                unread = not self.expressions.reads(value, buffer)
                return self._store(buffer, index_words(keep(index)), keep(value), unread=unread)
            case ir.If(condition, then, otherwise):
                if ir.is_chained(otherwise):
                    return self._chain(stmt)
                taken = compile_expr(condition).truths
                return branch(taken, self.body(then), self.body(otherwise) if otherwise else None)
            case ir.Switch(selector, arms, default):
                chosen = compile_expr(selector)
                labels = [[int(label.value) for label in arm.labels] for arm in arms]
                return switch(
                    numbers(chosen), chosen.dtype, labels, [self.body(a.body) for a in arms], self.body(default)
                )
            case ir.Loop():
                return self._loop(stmt)
            case ir.Break():
                return _break
            case ir.Continue():
                rounds = self.loops[-1]
                rounds.continued = True
                return _continue(rounds.number)
            case ir.Return():
                return lambda chunk, ctx: chunk.ended.append(ctx)
            case ir.Block(body) | ir.Region(_, body):
                return self.body(body)
            case ir.Barrier():
                return lambda chunk, ctx: ctx
            case ir.AsyncLoad(_, _, offset, size) | ir.AsyncStore(_, _, offset, size):
                return async_copy(stmt, compile_expr(offset).words, compile_expr(size).words)
            case ir.AsyncWait(tag):
                return async_wait(tag)
            case ir.Trap(address, tag):
                return _trap(compile_expr(address).words, tag)
            case ir.GridLoop():
                raise AssertionError("grid loops are split into programs before")
            case ir.IndirectDispatch():
                raise UnsupportedFeature(feature="indirect dispatch", backend="reference", fix=INDIRECT_FIX)

    def _let(self, name: str, value: ir.Expr) -> Execute:
        if isinstance(value, ir.Atomic) and name not in self.used:
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
            indices = index(chunk, ctx)
            storage = chunk.buffers[buffer]
            target = storage.target(ctx, indices) if direct is not None else None
            if target is None:
                storage.store(ctx, indices, dense(evaluate(chunk, ctx), ctx, dtype))
            else:
                assert direct is not None
                direct(chunk, ctx, target, unread)
                storage.canonicalise(target)
            return ctx

        return execute

    def _chain(self, stmt: ir.If) -> Execute:
        links, last = ir.if_chain(stmt)
        parts = [(self.expressions.compile(link.condition).truths, self.body(link.then)) for link in links]
        return chain(parts, self.body(last) if last else None)

    def _loop(self, loop: ir.Loop) -> Execute:
        start, stop, step = (self.expressions.held(e) for e in (loop.start, loop.stop, loop.step))
        dtype = start.dtype
        mark = self.expressions.slots.mark
        around = self.expressions.loop
        kept = self.expressions.loop = Invariants(_varying(loop), self.expressions.written, self._new_slot)
        slot = self.declare(loop.var, dtype)
        rounds = Rounds(self.loop_count)
        self.loop_count += 1
        self.loops.append(rounds)
        body = self.body(loop.body)
        self.loops.pop()
        self.expressions.loop = around
        self._leave(mark)
        return CountedLoop(
            (numbers(start), numbers(stop), numbers(step)), dtype, slot, rounds, tuple(kept.slots), body
        ).run

    def _new_slot(self) -> int:
        self.slot_count += 1
        return self.slot_count - 1


def _written(program: Program) -> frozenset[str]:
    """Returns the buffers whose content may change while the program runs."""
    names = {b.name for b in program.buffers if b.is_workgroup}
    for stmt in ir.walk_statements(program.body):
        match stmt:
            case ir.Store(buffer, _, _):
                names.add(buffer)
            case ir.AsyncLoad(_, destination) | ir.AsyncStore(_, destination):
                names.add(destination)
            case _:
                pass
    names.update(e.buffer for e in unique_expressions(program) if isinstance(e, ir.Atomic))
    return frozenset(names)


def _varying(loop: ir.Loop) -> frozenset[str]:
    """Returns the locals that a round of the loop may change or declare."""
    names = {loop.var}
    for stmt in ir.walk_statements(loop.body):
        match stmt:
            case ir.Let(name, _) | ir.Assign(name, _):
                names.add(name)
            case ir.Loop(var):
                names.add(var)
            case _:
                pass
    return frozenset(names)


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


def _break(chunk: Chunk, ctx: Context) -> None:
    """Ends the loop for the lanes."""


def _continue(loop: int) -> Execute:
    def execute(chunk: Chunk, ctx: Context) -> None:
        chunk.continuing[loop].append(ctx)

    return execute


def _trap(address: EvaluateWord, tag: str) -> Execute:
    def execute(chunk: Chunk, ctx: Context) -> None:
        chunk.trap(ctx, dense(address(chunk, ctx), ctx, U32), tag)

    return execute

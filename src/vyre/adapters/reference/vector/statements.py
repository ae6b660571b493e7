"""Statements as closures: they take the active lanes and return those that continue (None if none do).

The bytes of asynchronous copies are captured lane by lane at the start, and written lane by lane at the wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from vyre.adapters.reference.vector.branches import CountedLoop, Execute, Rounds, branch, chain, switch
from vyre.adapters.reference.vector.chunk import Captured, Chunk, Local
from vyre.adapters.reference.vector.expressions import ExpressionCompiler, Invariants
from vyre.adapters.reference.vector.integers import index_words, numbers
from vyre.adapters.reference.vector.lanes_context import Context, merge
from vyre.adapters.reference.vector.storage import Storage
from vyre.adapters.reference.vector.values import U32, Compiled, Evaluate, EvaluateWord, dense, full
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_expressions
from vyre.domain.op_ids import INDIRECT_FIX
from vyre.domain.sites import site_of, trap_label

if TYPE_CHECKING:
    from numpy.typing import NDArray


def async_copy(copy: AsyncLoad | AsyncStore, offset: EvaluateWord, size: EvaluateWord) -> Execute:
    """Captures bytes [offset, offset + size) of the source for byte 0 of the destination of a load, and the first
    ``size`` bytes for byte ``offset`` of that of a store; zeros past the end of the source.
    """
    destination = copy.destination

    def execute(chunk: Chunk, ctx: Context) -> Context:
        starts, sizes = _numbers(offset, chunk, ctx), _numbers(size, chunk, ctx)
        room = _nbytes(chunk.buffers[destination])
        captured = chunk.pending.setdefault(copy.tag, {})
        for lane, start, length in zip(ctx.numbers.tolist(), starts, sizes, strict=True):
            first, to = (start, 0) if isinstance(copy, AsyncLoad) else (0, start)
            length = max(0, min(length, room - to))
            payload = _bytes_of(chunk, copy.source, lane)[first : first + length].tobytes()
            captured[lane] = Captured(destination, to, payload.ljust(length, b"\0"))
        return ctx

    return execute


def async_wait(tag: str) -> Execute:
    """Writes the captured bytes, clipped to the destination."""

    def execute(chunk: Chunk, ctx: Context) -> Context:
        captured = chunk.pending[tag]
        for lane in ctx.numbers.tolist():
            destination, start, payload = captured.pop(lane)
            data = _bytes_of(chunk, destination, lane)
            end = min(start + len(payload), len(data))
            if start < end:
                data[start:end] = np.frombuffer(payload[: end - start], np.uint8)
        return ctx

    return execute


def _numbers(evaluate: EvaluateWord, chunk: Chunk, ctx: Context) -> list[int]:
    numbers: list[int] = full(evaluate(chunk, ctx), ctx, U32).reshape(-1).tolist()
    return numbers


def _nbytes(storage: Storage) -> int:
    return storage.count * storage.itemsize


def _bytes_of(chunk: Chunk, name: str, lane: int) -> NDArray[np.uint8]:
    """Returns the bytes of a buffer as one lane sees it."""
    storage = chunk.buffers[name]
    if not storage.per_group:
        return storage.array.view(np.uint8)[: _nbytes(storage)]
    group = lane // (chunk.grid.lanes // chunk.grid.dims[0])
    return storage.array[group * storage.count : (group + 1) * storage.count].view(np.uint8)


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
            case ir.Trap(address):
                return _trap(compile_expr(address).words, trap_label(stmt))
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
            (numbers(start), numbers(stop), numbers(step)), dtype, slot, rounds, tuple(kept.slots), body, site_of(loop)
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

"""The scalar oracle: a literal implementation of the canonical schedule.  Slow and obvious on purpose.

Workgroups run one after another, x fastest.  Inside a workgroup a statement is executed in phases: its expressions node
by node in evaluation order, each for all active lanes ascending, then its effect for all active lanes ascending;
``then`` before ``else``; a loop repeats until no lane is left in it.  Values are bit patterns (Python ints), arithmetic
is ``vyre.domain.numerics.scalar``.

A program is compiled to closures once: an expression becomes ``lanes -> values``, a statement ``lanes -> lanes that
continue``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from vyre.adapters.reference.engine import Memory, RunOptions
from vyre.adapters.reference.scalar_state import (
    ElementBuffer,
    Evaluate,
    Execute,
    Lanes,
    Location,
    Tracer,
    Values,
    Workgroup,
)
from vyre.adapters.reference.scalar_statements import (
    async_copy,
    async_wait,
    barrier,
    branches,
    break_rounds,
    continue_rounds,
    loop,
    private_store,
    set_local,
    store,
    switch,
    trap,
)
from vyre.domain.errors import DispatchTimeout, UnsupportedFeature
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.expr import IdKind
from vyre.domain.ir.operators import SUBGROUP, AtomicOp, Span, SubgroupRow
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch import Launch
from vyre.domain.numerics import scalar
from vyre.domain.numerics.constants import FOLD
from vyre.domain.op_ids import INDIRECT_FIX
from vyre.domain.scoped_names import ScopedNames
from vyre.domain.sites import site_of, trap_label

U32 = ScalarType.U32


class ScalarKernel:
    """The ``Engine`` of the canonical schedule: a program compiled to closures; ``run`` executes it on memory."""

    def __init__(self, program: Program, spec: Mapping[str, ir.Literal]) -> None:
        self._program = program
        self._spec = spec
        self._shared = tuple(b for b in program.buffers if b.is_workgroup)
        self._elements = {b.name: b.element for b in program.buffers if isinstance(b.element, ScalarType)}
        self._counts = {b.name: b.count for b in program.buffers}
        self._execute = ScalarCompiler(program, spec).body(program.body)

    def run(self, memory: Memory, launch: Launch, options: RunOptions, tracer: Tracer | None = None, /) -> None:
        """Runs every workgroup in ascending linear id.

        Raises ``TrapError`` or ``StepBudgetExceeded`` for the lane with the lowest linear global id, once all ran.
        """
        if options.chunk_workgroups not in (None, 1):
            raise UnsupportedFeature(
                feature="several workgroups at once", backend="reference-scalar", fix="leave chunk_workgroups out."
            )
        buffers = {name: ElementBuffer(data.data, self._elements[name]) for name, data in memory.items()}
        state = Workgroup(buffers, launch, options, tracer, self._zeros)
        state.size = launch.workgroup[0] * launch.workgroup[1] * launch.workgroup[2]
        gx, gy, gz = launch.grid
        for linear in range(gx * gy * gz):
            state.group = (linear % gx, linear // gx % gy, linear // (gx * gy))
            self._run_workgroup(state)
            if options.is_late is not None and options.is_late():
                raise DispatchTimeout(f"the deadline passed after {linear + 1} of {gx * gy * gz} workgroups")
        failures = [f for f in (state.trap, state.over_budget) if f is not None]
        if failures:
            raise min(failures, key=lambda failure: failure[0])[1]

    def _zeros(self, name: str) -> ElementBuffer:
        """Returns new memory for a workgroup or private buffer."""
        element = self._elements[name]
        return ElementBuffer(memoryview(bytearray(self._counts[name] * element.size)), element)

    def _run_workgroup(self, state: Workgroup) -> None:
        for buffer in self._shared:
            state.buffers[buffer.name] = self._zeros(buffer.name)
        state.private.clear()
        state.locals.clear()
        state.pending.clear()
        state.broke.clear()
        state.continued.clear()
        state.steps.clear()
        if state.tracer is not None:
            state.tracer.workgroup(state)
        self._execute(state, list(range(state.size)))


class ScalarCompiler:
    """Compiles statements and expressions to closures; records the type of every compiled local."""

    def __init__(self, program: Program, spec: Mapping[str, ir.Literal]) -> None:
        self.elements: dict[str, ScalarType] = {
            b.name: b.element for b in program.buffers if isinstance(b.element, ScalarType)
        }
        self.private: dict[str, int] = {b.name: b.count for b in program.buffers if b.is_private}
        self.spec = spec
        self.types: ScopedNames[ScalarType] = ScopedNames()

    # -- statements -----------------------------------------------------------------------------------

    def body(self, body: ir.Body) -> Execute:
        """Compiles a scope: each statement runs for the lanes that are still active."""
        mark = self.types.mark
        steps = [self.stmt(s) for s in body]
        self.types.leave(mark)

        def run(wg: Workgroup, lanes: Lanes) -> Lanes:
            for step in steps:
                if not lanes:
                    break
                lanes = step(wg, lanes)
            return lanes

        return run

    def stmt(self, stmt: ir.Stmt) -> Execute:
        """Compiles a statement."""
        match stmt:
            case ir.Let(name, value):
                evaluate, dtype = self.expr(value)
                self.types.declare(name, dtype)
                return set_local(name, evaluate)
            case ir.Assign(name, value):
                return set_local(name, self.expr(value)[0])
            case ir.Store(buffer, index, value):
                if buffer in self.private:
                    return private_store(buffer, self._integers(index), self.expr(value)[0])
                return store(buffer, self._integers(index), self.expr(value)[0], stmt.loc)
            case ir.If():
                links, otherwise = ir.if_chain(stmt)
                parts = [(self.expr(link.condition)[0], self.body(link.then)) for link in links]
                return branches(parts, self.body(otherwise))
            case ir.Switch(selector, arms, default):
                choose = self.expr(selector)[0]
                arm_of = {label.bits: number for number, arm in enumerate(arms) for label in arm.labels}
                return switch(choose, arm_of, [self.body(arm.body) for arm in arms], self.body(default))
            case ir.Loop():
                return self._loop(stmt)
            case ir.Break():
                return break_rounds
            case ir.Continue():
                return continue_rounds
            case ir.Return():
                return lambda wg, lanes: []
            case ir.Block(body) | ir.Region(_, body):
                return self.body(body)
            case ir.Barrier():
                return barrier
            case ir.AsyncLoad() | ir.AsyncStore():
                return async_copy(stmt, self.expr(stmt.offset)[0], self.expr(stmt.size)[0])
            case ir.AsyncWait(tag):
                return async_wait(tag)
            case ir.Trap(address):
                return trap(self.expr(address)[0], trap_label(stmt))
            case ir.GridLoop():
                raise AssertionError("grid loops are split into programs before")
            case ir.IndirectDispatch():
                raise UnsupportedFeature(feature="indirect dispatch", backend="reference-scalar", fix=INDIRECT_FIX)

    def _loop(self, stmt: ir.Loop) -> Execute:
        start, dtype = self.expr(stmt.start)
        bounds = integers(start, dtype), self._integers(stmt.stop), self._integers(stmt.step)
        mark = self.types.mark
        self.types.declare(stmt.var, dtype)
        inner = self.body(stmt.body)
        self.types.leave(mark)
        return loop(stmt.var, dtype, bounds, inner, site_of(stmt))

    # -- expressions ----------------------------------------------------------------------------------

    def _integers(self, expr: ir.Expr) -> Evaluate:
        """Compiles an expression of an integer type; its closure returns numbers, negative ones among them."""
        return integers(*self.expr(expr))

    def expr(self, expr: ir.Expr) -> tuple[Evaluate, ScalarType]:
        """Compiles an expression; returns its closure and its type."""
        match expr:
            case ir.Literal(dtype, bits):
                return constant(bits), dtype
            case ir.SpecConst(name, default):
                chosen = self.spec.get(name, default)
                return constant(chosen.bits), default.dtype
            case ir.Var(name):
                return local(name), self.types[name]
            case ir.Load(buffer, index):
                loaded = self.elements[buffer].widened
                if buffer in self.private:
                    return private_load(buffer, self._integers(index)), loaded
                return load(buffer, self._integers(index), expr.loc), loaded
            case ir.BufferLength(buffer):
                if buffer in self.private:
                    return constant(self.private[buffer]), U32
                return (lambda wg, lanes: [wg.buffers[buffer].count] * len(lanes)), U32
            case ir.LaunchId(kind, axis):
                return launch_id(kind, axis), U32
            case ir.SubgroupLane():
                return (lambda wg, lanes: [lane % WIDTH for lane in lanes]), U32
            case ir.SubgroupSize():
                return constant(WIDTH), U32
            case ir.Atomic():
                return self._atomic(expr)
            case ir.SubgroupReduce(subgroup, value):
                evaluate, dtype = self.expr(value)
                return subgroup_reduce(SUBGROUP[subgroup], evaluate, dtype), dtype
            case ir.SubgroupBallot(condition):
                return subgroup_ballot(self.expr(condition)[0]), U32
            case ir.SubgroupShuffle(value, lane):
                evaluate, dtype = self.expr(value)
                return subgroup_shuffle(evaluate, self.expr(lane)[0]), dtype
            case ir.Call() | ir.Native():
                raise AssertionError("calls are expanded before, and native text is none of the reference's")
            case _:
                return self._operation(expr)

    def _operation(self, expr: ir.Expr) -> tuple[Evaluate, ScalarType]:
        """Compiles an operation whose value depends on its operands alone, by its scalar rule for each lane."""
        parts = [self.expr(operand) for operand in ir.children(expr)]
        rule = partial(FOLD[type(expr)], ir.DISTINCTIONS[type(expr)](expr), parts[0][1])

        def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
            return list(map(rule, *[part(wg, lanes) for part, _ in parts]))

        return evaluate, ir.result_type(expr, *[dtype for _, dtype in parts])

    def _atomic(self, node: ir.Atomic) -> tuple[Evaluate, ScalarType]:
        name, op, dtype = node.buffer, node.op, self.elements[node.buffer]
        index = self._integers(node.index)
        expected = self.expr(node.expected)[0] if node.expected is not None else constant(0)
        value = self.expr(node.value)[0]
        assert op is not AtomicOp.COMPARE_EXCHANGE or node.expected is not None

        def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
            indices, wanted, values = index(wg, lanes), expected(wg, lanes), value(wg, lanes)
            buffer, olds = wg.buffers[name], []
            for lane, i, e, v in zip(lanes, indices, wanted, values, strict=True):
                old = buffer.load(i)
                olds.append(old)
                if 0 <= i < buffer.count:
                    if wg.tracer is not None:
                        wg.tracer.atomic(name, i * buffer.size, buffer.size, lane, node.loc)
                    buffer.store(i, scalar.atomic(op, dtype, old, e, v))
            return olds

        return evaluate, dtype


WIDTH: Final = 32


def constant(bits: int) -> Evaluate:
    """Returns the same bits for every lane."""
    return lambda wg, lanes: [bits] * len(lanes)


def local(name: str) -> Evaluate:
    """Returns the value of a local."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        values = wg.locals[name]
        return [values[lane] for lane in lanes]

    return evaluate


def load(name: str, index: Evaluate, loc: Location) -> Evaluate:
    """Returns elements of a buffer."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        buffer, indices = wg.buffers[name], index(wg, lanes)
        if wg.tracer is not None:
            for lane, i in zip(lanes, indices, strict=True):
                if 0 <= i < buffer.count:
                    wg.tracer.load(name, i * buffer.size, buffer.size, lane, loc)
        return [buffer.load(i) for i in indices]

    return evaluate


def private_load(name: str, index: Evaluate) -> Evaluate:
    """Returns elements of the lanes' own memory."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        return [wg.private_buffer(name, lane).load(i) for lane, i in zip(lanes, index(wg, lanes), strict=True)]

    return evaluate


def integers(evaluate: Evaluate, dtype: ScalarType) -> Evaluate:
    """Returns the numbers whose bit patterns of an integer type are given."""
    if not dtype.is_signed:
        return evaluate
    sign, turn = 1 << (dtype.bits - 1), 1 << dtype.bits
    return map_values(lambda bits: bits - turn if bits & sign else bits, evaluate)


def map_values(rule: Callable[[int], int], operand: Evaluate) -> Evaluate:
    """Returns a function of each lane's value."""
    return lambda wg, lanes: [rule(a) for a in operand(wg, lanes)]


def launch_id(kind: IdKind, axis: int) -> Evaluate:
    """Returns an id of each lane, or a size of the grid."""
    match kind:
        case IdKind.GLOBAL:
            return lambda wg, lanes: [wg.global_id(lane)[axis] for lane in lanes]
        case IdKind.LOCAL:
            return lambda wg, lanes: [wg.local_id(lane)[axis] for lane in lanes]
        case IdKind.GROUP:
            return lambda wg, lanes: [wg.group[axis]] * len(lanes)
        case IdKind.NUM_GROUPS:
            return lambda wg, lanes: [wg.launch.grid[axis]] * len(lanes)


def _subgroups(lanes: Lanes, values: Values) -> dict[int, dict[int, int]]:
    """Returns values by subgroup and lane of the subgroup."""
    subgroups: dict[int, dict[int, int]] = {}
    for lane, value in zip(lanes, values, strict=True):
        subgroups.setdefault(lane // WIDTH, {})[lane % WIDTH] = value
    return subgroups


def subgroup_reduce(row: SubgroupRow, operand: Evaluate, dtype: ScalarType) -> Evaluate:
    """Returns the values of each subgroup, folded in ascending lanes."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        results: dict[int, int] = {}
        for group, members in _subgroups(lanes, operand(wg, lanes)).items():
            total, first = row.start(dtype), group * WIDTH
            for lane, value in sorted(members.items()):
                before, total = total, scalar.binary(row.operator, dtype, total, value)
                results[first + lane] = before if row.span is Span.EXCLUSIVE else total
            if row.span is Span.ALL:
                results.update(dict.fromkeys([first + lane for lane in members], total))
        return [results[lane] for lane in lanes]

    return evaluate


def subgroup_ballot(operand: Evaluate) -> Evaluate:
    """Returns a u32 whose bit k is the vote of lane k of the subgroup."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        groups = _subgroups(lanes, operand(wg, lanes))
        votes = {g: sum(1 << lane for lane, vote in members.items() if vote) for g, members in groups.items()}
        return [votes[lane // WIDTH] for lane in lanes]

    return evaluate


def subgroup_shuffle(operand: Evaluate, source: Evaluate) -> Evaluate:
    """Returns the value of another lane of the subgroup, 0 where there is none."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        groups = _subgroups(lanes, operand(wg, lanes))
        sources = source(wg, lanes)
        return [groups[lane // WIDTH].get(wanted, 0) for lane, wanted in zip(lanes, sources, strict=True)]

    return evaluate

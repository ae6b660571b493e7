"""The scalar oracle: a literal implementation of the canonical schedule.  Slow and obvious on purpose.

Workgroups run one after another, x fastest.  Inside a workgroup a statement is executed in phases: its expressions node
by node in evaluation order, each for all active lanes ascending, then its effect for all active lanes ascending;
``then`` before ``else``; a loop repeats until no lane is left in it.  Values are bit patterns (Python ints), arithmetic
is ``vyre.domain.numerics.scalar``.

A program is compiled to closures once: an expression becomes ``lanes -> values``, a statement ``lanes -> lanes that
continue``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from vyre.adapters.reference.engine import Memory, RunOptions
from vyre.domain.errors import DispatchTimeout, StepBudgetExceeded, TrapError, UnsupportedFeature
from vyre.domain.ir.expr import (
    Atomic,
    Binary,
    Bitcast,
    BufferLength,
    Cast,
    Expr,
    Fma,
    IdKind,
    LaunchId,
    Literal,
    Load,
    Narrow,
    Pack,
    Select,
    SpecConst,
    SubgroupAdd,
    SubgroupBallot,
    SubgroupLane,
    SubgroupShuffle,
    SubgroupSize,
    Unary,
    Unpack,
    Var,
    WrapCast,
)
from vyre.domain.ir.node import SourceLocation
from vyre.domain.ir.operators import AtomicOp, BinaryOp, binary_result, unary_result
from vyre.domain.ir.program import Dim3, Program
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
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch import Launch
from vyre.domain.numerics import scalar
from vyre.domain.races import LanePlace
from vyre.domain.scoped_names import ScopedNames

SUBGROUP: Final = 32
_U32: Final = 0xFFFF_FFFF
U32, BOOL = ScalarType.U32, ScalarType.BOOL

Lanes: TypeAlias = list[int]
"""Active lanes of the workgroup by linear local id, ascending."""
Values: TypeAlias = list[int]
"""Bit patterns, one per active lane."""
Evaluate: TypeAlias = Callable[["Workgroup", Lanes], Values]
Execute: TypeAlias = Callable[["Workgroup", Lanes], Lanes]
Location: TypeAlias = "SourceLocation | None"


class Tracer(Protocol):
    """Observes every access to existing elements, as bytes of a buffer, in the order in which they happen.

    ``lane`` is the linear local id; the last announced workgroup gives its place in the grid.  ``loc`` is the source
    location of the access; a copy's is that of its start.
    """

    def workgroup(self, workgroup: Workgroup, /) -> None:
        """Called when a workgroup starts."""

    def barrier(self) -> None:
        """Called after each barrier of the workgroup."""

    def load(self, buffer: str, start: int, nbytes: int, lane: int, loc: Location, /) -> None:
        """Called for a load of ``nbytes`` bytes from ``start``."""

    def store(self, buffer: str, start: int, data: bytes, lane: int, loc: Location, /) -> None:
        """Called for a store of ``data`` to ``start``."""

    def atomic(self, buffer: str, start: int, nbytes: int, lane: int, loc: Location, /) -> None:
        """Called for an atomic on ``nbytes`` bytes from ``start``."""


class _Buffer:
    """Typed element access to bytes: loads widen, stores narrow; loads out of range are zero, stores are dropped."""

    __slots__ = ("count", "data", "element", "size")

    def __init__(self, data: memoryview, element: ScalarType) -> None:
        self.data = data
        self.element = element
        self.size = element.size
        self.count = min(len(data) // element.size, _U32)

    def load(self, index: int) -> int:
        """Returns the bits of an element."""
        if index >= self.count:
            return 0
        start = index * self.size
        return scalar.load_element(self.element, bytes(self.data[start : start + self.size]))

    def store(self, index: int, bits: int) -> None:
        """Stores the bits of an element."""
        if index < self.count:
            start = index * self.size
            self.data[start : start + self.size] = scalar.store_element(self.element, bits)


@dataclass(slots=True)
class Workgroup:
    """State of the running workgroup; lanes are linear local ids."""

    buffers: dict[str, _Buffer]
    launch: Launch
    options: RunOptions
    tracer: Tracer | None
    group: Dim3 = (0, 0, 0)
    size: int = 0
    locals: dict[str, Values] = field(default_factory=dict)
    broke: set[int] = field(default_factory=set)
    continued: set[int] = field(default_factory=set)
    pending: dict[tuple[str, int], tuple[str, int, bytes, Location]] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)
    trap: tuple[int, TrapError] | None = None
    over_budget: tuple[int, StepBudgetExceeded] | None = None

    def local_id(self, lane: int) -> Dim3:
        """Returns the local id of a lane along x, y, z."""
        x, y, _ = self.launch.workgroup
        return lane % x, lane // x % y, lane // (x * y)

    def global_id(self, lane: int) -> Dim3:
        """Returns the global id of a lane along x, y, z, each modulo 2^32."""
        x, y, z = (
            (g * w + i) & _U32 for g, w, i in zip(self.group, self.launch.workgroup, self.local_id(lane), strict=True)
        )
        return x, y, z

    def place(self, lane: int) -> LanePlace:
        """Returns the place of a lane in the grid."""
        return LanePlace.of(self.launch.grid, self.launch.workgroup, self.group, self.local_id(lane))

    def linear_global_id(self, lane: int) -> int:
        """Returns the linear global id of a lane."""
        x, y, z = self.global_id(lane)
        gx, gy, _ = self.launch.grid
        wx, wy, _ = self.launch.workgroup
        return (z * gy * wy + y) * gx * wx + x


class ScalarKernel:
    """A program compiled to closures; ``run`` executes it on memory."""

    def __init__(self, program: Program, spec: Mapping[str, Literal]) -> None:
        self._program = program
        self._spec = spec
        self._shared = tuple(b for b in program.buffers if b.is_workgroup)
        self._elements = {b.name: b.element for b in program.buffers if isinstance(b.element, ScalarType)}
        self._execute = _Compiler(self._elements, spec).body(program.body)

    def run(self, memory: Memory, launch: Launch, options: RunOptions, tracer: Tracer | None = None, /) -> None:
        """Runs every workgroup in ascending linear id.

        Raises ``TrapError`` or ``StepBudgetExceeded`` for the lane with the lowest linear global id, once all ran.
        """
        if options.chunk_workgroups not in (None, 1):
            raise UnsupportedFeature(
                feature="several workgroups at once", backend="reference-scalar", fix="leave chunk_workgroups out."
            )
        buffers = {name: _Buffer(data.data, self._elements[name]) for name, data in memory.items()}
        state = Workgroup(buffers, launch, options, tracer)
        state.size = launch.workgroup[0] * launch.workgroup[1] * launch.workgroup[2]
        gx, gy, gz = launch.grid
        for linear in range(gx * gy * gz):
            state.group = (linear % gx, linear // gx % gy, linear // (gx * gy))
            self._run_workgroup(state)
            if options.deadline_ns is not None and time.monotonic_ns() > options.deadline_ns:
                raise DispatchTimeout(f"the deadline passed after {linear + 1} of {gx * gy * gz} workgroups")
        failures = [f for f in (state.trap, state.over_budget) if f is not None]
        if failures:
            raise min(failures, key=lambda failure: failure[0])[1]

    def _run_workgroup(self, state: Workgroup) -> None:
        for buffer in self._shared:
            element = self._elements[buffer.name]
            state.buffers[buffer.name] = _Buffer(memoryview(bytearray(buffer.count * element.size)), element)
        state.locals.clear()
        state.pending.clear()
        state.broke.clear()
        state.continued.clear()
        state.steps.clear()
        if state.tracer is not None:
            state.tracer.workgroup(state)
        self._execute(state, list(range(state.size)))


class ScalarEngine:
    """Prepares programs for the canonical schedule."""

    def prepare(self, program: Program, spec: Mapping[str, Literal], /) -> ScalarKernel:
        """Implements ``Engine.prepare``."""
        return ScalarKernel(program, spec)


class _Compiler:
    """Compiles statements and expressions to closures; records the type of every compiled local."""

    def __init__(self, elements: dict[str, ScalarType], spec: Mapping[str, Literal]) -> None:
        self.elements = elements
        self.spec = spec
        self.types: ScopedNames[ScalarType] = ScopedNames()

    # -- statements -----------------------------------------------------------------------------------

    def body(self, body: Body) -> Execute:
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

    def stmt(self, stmt: Stmt) -> Execute:
        """Compiles a statement."""
        match stmt:
            case Let(name, value):
                evaluate, dtype = self.expr(value)
                self.types.declare(name, dtype)
                return _set_local(name, evaluate)
            case Assign(name, value):
                return _set_local(name, self.expr(value)[0])
            case Store(buffer, index, value):
                return _store(buffer, self.expr(index)[0], self.expr(value)[0], stmt.loc)
            case If(condition, then, otherwise):
                return _branch(self.expr(condition)[0], self.body(then), self.body(otherwise))
            case Switch():
                raise UnsupportedFeature(feature="switch", backend="reference-scalar")
            case Loop(var, start, stop, step, body):
                bounds = [self.expr(e)[0] for e in (start, stop, step)]
                mark = self.types.mark
                self.types.declare(var, U32)
                inner = self.body(body)
                self.types.leave(mark)
                return _loop(var, bounds[0], bounds[1], bounds[2], inner)
            case Break():
                return _break
            case Continue():
                return _continue
            case Return():
                return lambda wg, lanes: []
            case Block(body) | Region(_, body):
                return self.body(body)
            case Barrier():
                return _barrier
            case AsyncLoad(source, destination, offset, size, tag):
                return _async_load(source, destination, self.expr(offset)[0], self.expr(size)[0], tag, stmt.loc)
            case AsyncStore(source, destination, offset, size, tag):
                return _async_store(source, destination, self.expr(offset)[0], self.expr(size)[0], tag, stmt.loc)
            case AsyncWait(tag):
                return _async_wait(tag)
            case Trap(address, tag):
                return _trap(self.expr(address)[0], tag)
            case IndirectDispatch():
                raise UnsupportedFeature(feature="indirect dispatch", backend="reference-scalar")

    # -- expressions ----------------------------------------------------------------------------------

    def expr(self, expr: Expr) -> tuple[Evaluate, ScalarType]:
        """Compiles an expression; returns its closure and its type."""
        match expr:
            case Literal(dtype, bits):
                return _constant(bits), dtype
            case SpecConst(name, default):
                chosen = self.spec.get(name, default)
                return _constant(chosen.bits), default.dtype
            case Var(name):
                return _local(name), self.types[name]
            case Load(buffer, index):
                return _load(buffer, self.expr(index)[0], expr.loc), self.elements[buffer].widened
            case BufferLength(buffer):
                return (lambda wg, lanes: [wg.buffers[buffer].count] * len(lanes)), U32
            case LaunchId(kind, axis):
                return _launch_id(kind, axis), U32
            case SubgroupLane():
                return (lambda wg, lanes: [lane % SUBGROUP for lane in lanes]), U32
            case SubgroupSize():
                return _constant(SUBGROUP), U32
            case Binary(op, left, right):
                return self._binary(op, left, right)
            case Unary(op, operand):
                evaluate, dtype = self.expr(operand)
                result = unary_result(op, dtype)
                assert result is not None
                return (lambda wg, lanes: [scalar.unary(op, dtype, a) for a in evaluate(wg, lanes)]), result
            case Select(condition, on_true, on_false):
                return self._select(condition, on_true, on_false)
            case Cast(target, operand):
                evaluate, source = self.expr(operand)
                return (lambda wg, lanes: [scalar.cast(source, target, a) for a in evaluate(wg, lanes)]), target
            case Bitcast(target, operand):
                evaluate, source = self.expr(operand)
                return (lambda wg, lanes: [scalar.bitcast(source, target, a) for a in evaluate(wg, lanes)]), target
            case Narrow() | Pack() | Unpack() | WrapCast():
                raise UnsupportedFeature(feature="narrow values", backend="reference-scalar")
            case Fma(a, b, c):
                return self._fma(a, b, c)
            case Atomic():
                return self._atomic(expr)
            case SubgroupAdd(value):
                evaluate, dtype = self.expr(value)
                return _subgroup_add(evaluate, dtype), dtype
            case SubgroupBallot(condition):
                return _subgroup_ballot(self.expr(condition)[0]), U32
            case SubgroupShuffle(value, lane):
                evaluate, dtype = self.expr(value)
                return _subgroup_shuffle(evaluate, self.expr(lane)[0]), dtype

    def _binary(self, op: BinaryOp, left: Expr, right: Expr) -> tuple[Evaluate, ScalarType]:
        (evaluate_left, dtype), (evaluate_right, right_type) = self.expr(left), self.expr(right)
        result = binary_result(op, dtype, right_type)
        assert result is not None

        def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
            a = evaluate_left(wg, lanes)
            b = evaluate_right(wg, lanes)
            return [scalar.binary(op, dtype, x, y) for x, y in zip(a, b, strict=True)]

        return evaluate, result

    def _select(self, condition: Expr, on_true: Expr, on_false: Expr) -> tuple[Evaluate, ScalarType]:
        parts = [self.expr(e) for e in (condition, on_true, on_false)]

        def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
            c, t, f = (part(wg, lanes) for part, _ in parts)
            return [x if k else y for k, x, y in zip(c, t, f, strict=True)]

        return evaluate, parts[1][1]

    def _fma(self, a: Expr, b: Expr, c: Expr) -> tuple[Evaluate, ScalarType]:
        parts = [self.expr(e) for e in (a, b, c)]
        dtype = parts[0][1]

        def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
            x, y, z = (part(wg, lanes) for part, _ in parts)
            return [scalar.fma(dtype, *abc) for abc in zip(x, y, z, strict=True)]

        return evaluate, dtype

    def _atomic(self, node: Atomic) -> tuple[Evaluate, ScalarType]:
        name, op, dtype = node.buffer, node.op, self.elements[node.buffer]
        index = self.expr(node.index)[0]
        expected = self.expr(node.expected)[0] if node.expected is not None else _constant(0)
        value = self.expr(node.value)[0]
        assert op is not AtomicOp.COMPARE_EXCHANGE or node.expected is not None

        def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
            indices, wanted, values = index(wg, lanes), expected(wg, lanes), value(wg, lanes)
            buffer, olds = wg.buffers[name], []
            for lane, i, e, v in zip(lanes, indices, wanted, values, strict=True):
                old = buffer.load(i)
                olds.append(old)
                if i < buffer.count:
                    if wg.tracer is not None:
                        wg.tracer.atomic(name, i * buffer.size, buffer.size, lane, node.loc)
                    buffer.store(i, scalar.atomic(op, dtype, old, e, v))
            return olds

        return evaluate, dtype


# ---------------------------------------------------------------- expressions
def _constant(bits: int) -> Evaluate:
    return lambda wg, lanes: [bits] * len(lanes)


def _local(name: str) -> Evaluate:
    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        values = wg.locals[name]
        return [values[lane] for lane in lanes]

    return evaluate


def _load(name: str, index: Evaluate, loc: Location) -> Evaluate:
    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        buffer, indices = wg.buffers[name], index(wg, lanes)
        if wg.tracer is not None:
            for lane, i in zip(lanes, indices, strict=True):
                if i < buffer.count:
                    wg.tracer.load(name, i * buffer.size, buffer.size, lane, loc)
        return [buffer.load(i) for i in indices]

    return evaluate


def _launch_id(kind: IdKind, axis: int) -> Evaluate:
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
    found: dict[int, dict[int, int]] = {}
    for lane, value in zip(lanes, values, strict=True):
        found.setdefault(lane // SUBGROUP, {})[lane % SUBGROUP] = value
    return found


def _subgroup_add(operand: Evaluate, dtype: ScalarType) -> Evaluate:
    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        sums: dict[int, int] = {}
        for group, members in _subgroups(lanes, operand(wg, lanes)).items():
            total = 0  # +0 for floats
            for _, value in sorted(members.items()):
                total = scalar.binary(BinaryOp.ADD, dtype, total, value)
            sums[group] = total
        return [sums[lane // SUBGROUP] for lane in lanes]

    return evaluate


def _subgroup_ballot(operand: Evaluate) -> Evaluate:
    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        groups = _subgroups(lanes, operand(wg, lanes))
        votes = {g: sum(1 << lane for lane, vote in members.items() if vote) for g, members in groups.items()}
        return [votes[lane // SUBGROUP] for lane in lanes]

    return evaluate


def _subgroup_shuffle(operand: Evaluate, source: Evaluate) -> Evaluate:
    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        groups = _subgroups(lanes, operand(wg, lanes))
        sources = source(wg, lanes)
        return [groups[lane // SUBGROUP].get(wanted, 0) for lane, wanted in zip(lanes, sources, strict=True)]

    return evaluate


# ---------------------------------------------------------------- statements
def _set_local(name: str, evaluate: Evaluate) -> Execute:
    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        values = evaluate(wg, lanes)
        slots = wg.locals.get(name)
        if slots is None:
            slots = wg.locals[name] = [0] * wg.size
        for lane, value in zip(lanes, values, strict=True):
            slots[lane] = value
        return lanes

    return execute


def _store(name: str, index: Evaluate, value: Evaluate, loc: Location) -> Execute:
    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        indices, values, buffer = index(wg, lanes), value(wg, lanes), wg.buffers[name]
        for lane, i, v in zip(lanes, indices, values, strict=True):
            if wg.tracer is not None and i < buffer.count:
                wg.tracer.store(name, i * buffer.size, scalar.store_element(buffer.element, v), lane, loc)
            buffer.store(i, v)
        return lanes

    return execute


def _branch(condition: Evaluate, then: Execute, otherwise: Execute) -> Execute:
    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        taken = condition(wg, lanes)
        yes = [lane for lane, c in zip(lanes, taken, strict=True) if c]
        no = [lane for lane, c in zip(lanes, taken, strict=True) if not c]
        return sorted(then(wg, yes) + otherwise(wg, no))

    return execute


def _loop(var: str, start: Evaluate, stop: Evaluate, step: Evaluate, body: Execute) -> Execute:
    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        first, last, by = (dict(zip(lanes, e(wg, lanes), strict=True)) for e in (start, stop, step))
        outer_broke, outer_continued = wg.broke, wg.continued
        wg.broke, wg.continued = set(), set()
        counter = dict(first)
        active = [lane for lane in lanes if by[lane] and first[lane] < last[lane]]
        done = [lane for lane in lanes if not (by[lane] and first[lane] < last[lane])]
        slots = wg.locals[var] = [0] * wg.size
        while active:
            for lane in active:
                slots[lane] = counter[lane]
            through = sorted(set(body(wg, active)) | wg.continued)
            done += wg.broke
            wg.broke, wg.continued = set(), set()
            active = []
            for lane in through:
                # in unbounded arithmetic: the next value may exceed 32 bits
                counter[lane] += by[lane]
                if counter[lane] >= last[lane]:
                    done.append(lane)
                elif _take_step(wg, lane):
                    active.append(lane)
        wg.broke, wg.continued = outer_broke, outer_continued
        return sorted(done)

    return execute


def _take_step(wg: Workgroup, lane: int) -> bool:
    """Counts one loop back-edge of the lane; returns False and ends the lane if its budget is used up."""
    if wg.options.deadline_ns is not None and time.monotonic_ns() > wg.options.deadline_ns:
        raise DispatchTimeout("the deadline passed inside a loop")
    budget = wg.options.step_budget
    if budget is None:
        return True
    linear = wg.linear_global_id(lane)
    carried = wg.options.steps_used
    used = (int(carried[linear]) if carried is not None else wg.steps.get(lane, 0)) + 1
    if carried is not None:
        carried[linear] = used
    else:
        wg.steps[lane] = used
    if used <= budget:
        return True
    if wg.over_budget is None or linear < wg.over_budget[0]:
        wg.over_budget = linear, StepBudgetExceeded(budget=budget, global_id=wg.global_id(lane))
    return False


def _break(wg: Workgroup, lanes: Lanes) -> Lanes:
    wg.broke.update(lanes)
    return []


def _continue(wg: Workgroup, lanes: Lanes) -> Lanes:
    wg.continued.update(lanes)
    return []


def _barrier(wg: Workgroup, lanes: Lanes) -> Lanes:
    if wg.tracer is not None:
        wg.tracer.barrier()
    return lanes


def _trap(address: Evaluate, tag: str) -> Execute:
    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        for lane, where in zip(lanes, address(wg, lanes), strict=True):
            linear = wg.linear_global_id(lane)
            if wg.trap is None or linear < wg.trap[0]:
                wg.trap = linear, TrapError(tag=tag, address=where, global_id=wg.global_id(lane))
        return []

    return execute


def _captured(wg: Workgroup, source: str, start: int, length: int, lane: int, loc: Location) -> bytes:
    """Returns ``length`` bytes of a buffer from ``start``, zeros past its end."""
    payload = bytes(wg.buffers[source].data[start : start + length])
    if wg.tracer is not None and payload:
        wg.tracer.load(source, start, len(payload), lane, loc)
    return payload.ljust(length, b"\0")


def _async_load(source: str, destination: str, offset: Evaluate, size: Evaluate, tag: str, loc: Location) -> Execute:
    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        offsets, sizes = offset(wg, lanes), size(wg, lanes)
        room = len(wg.buffers[destination].data)
        for lane, start, length in zip(lanes, offsets, sizes, strict=True):
            length = min(length, room)  # the rest would be clipped at the wait
            wg.pending[tag, lane] = destination, 0, _captured(wg, source, start, length, lane, loc), loc
        return lanes

    return execute


def _async_store(source: str, destination: str, offset: Evaluate, size: Evaluate, tag: str, loc: Location) -> Execute:
    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        offsets, sizes = offset(wg, lanes), size(wg, lanes)
        room = len(wg.buffers[destination].data)
        for lane, start, length in zip(lanes, offsets, sizes, strict=True):
            length = min(length, max(room - start, 0))
            wg.pending[tag, lane] = destination, start, _captured(wg, source, 0, length, lane, loc), loc
        return lanes

    return execute


def _async_wait(tag: str) -> Execute:
    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        for lane in lanes:
            destination, start, payload, loc = wg.pending.pop((tag, lane))
            data = wg.buffers[destination].data
            end = min(start + len(payload), len(data))
            if start < end:
                data[start:end] = payload[: end - start]
                if wg.tracer is not None:
                    wg.tracer.store(destination, start, payload[: end - start], lane, loc)
        return lanes

    return execute

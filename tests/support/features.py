"""What a random program contains, and the full list of what programs can contain.

A feature is a short text such as ``"binary add u32"``.  ``ALL_FEATURES`` is derived from the operator tables
and the node unions, so a new node or operator that the generator does not reach fails the coverage test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from support.programs import Case
from vyre.domain.ir.expr import (
    EXPR_TYPES,
    Atomic,
    Binary,
    Bitcast,
    Call,
    Cast,
    Expr,
    Fma,
    IdKind,
    LaunchId,
    Literal,
    Load,
    Narrow,
    Native,
    Pack,
    Select,
    SpecConst,
    SubgroupReduce,
    SubgroupShuffle,
    Unary,
    Unpack,
    Var,
    WrapCast,
    children,
)
from vyre.domain.ir.operators import (
    ATOMIC_ELEMENTS,
    BINARY,
    SUBGROUP,
    UNARY,
    AtomicOp,
    Ordering,
    Result,
    binary_result,
    bitcast_is_legal,
    unary_result,
)
from vyre.domain.ir.program import Access, Buffer, MemoryKind, Program
from vyre.domain.ir.stmt import (
    STMT_TYPES,
    Assign,
    AsyncLoad,
    AsyncStore,
    Barrier,
    Body,
    Break,
    Continue,
    If,
    Let,
    Loop,
    Return,
    Stmt,
    Store,
    Switch,
    bodies,
    if_chain,
    is_chained,
    operands,
    walk_statements,
)
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType

_BOUND_KINDS: Final = (MemoryKind.GLOBAL, MemoryKind.UNIFORM, MemoryKind.READONLY, MemoryKind.PUSH)
_KINDS: Final = (*_BOUND_KINDS, MemoryKind.SHARED, MemoryKind.PRIVATE)
_INTEGERS: Final = tuple(t for t in EXECUTABLE_TYPES if t.is_integer)
_BARRIERS: Final = tuple(o for o in Ordering if o is not Ordering.RELAXED)
_MANY: Final = 8
"""The arms or links from which on there are many."""
_SPACES: Final = ("storage", "workgroup")


def _all_features() -> Iterator[str]:
    yield from (f"statement {kind.__name__}" for kind in STMT_TYPES)
    # Calls are expanded before engines see a program, and native text replaces some; tests/unit/dialects has both.
    yield from (f"expression {kind.__name__}" for kind in EXPR_TYPES if kind not in (Call, Native))
    yield from (row.text for row in SUBGROUP.values())
    for dtype in EXECUTABLE_TYPES:
        for what in ("literal", "local", "load", "store", "select", "push", "shuffle", "reduction", "variable"):
            yield f"{what} {dtype.text}"
        for other in EXECUTABLE_TYPES:
            yield f"cast {other.text} to {dtype.text}"
            if bitcast_is_legal(other, dtype):
                yield f"bitcast {other.text} to {dtype.text}"
            yield from (
                f"binary {op.name} {dtype.text} {other.text}" for op in BINARY if binary_result(op, dtype, other)
            )
        yield from (f"unary {op.name} {dtype.text}" for op in UNARY if unary_result(op, dtype))
    for dtype in (ScalarType.F32, ScalarType.F64):
        yield f"fma {dtype.text}"
    for dtype in (ScalarType.U32, ScalarType.I32, ScalarType.F32, ScalarType.BOOL):
        yield f"spec constant {dtype.text}"
    for narrow in NARROW_TYPES:
        yield from (f"{what} {narrow.text}" for what in ("narrow", "pack", "unpack"))
        yield f"arithmetic of {narrow.text}"
    for dtype in _INTEGERS:
        yield from (f"wrap_cast {source} to {dtype.text}" for source in ("f32", "f64"))
        yield from (f"{what} at {dtype.text}" for what in ("load", "store", "atomic", "private element"))
        yield from (f"loop over {dtype.text}", f"loop over {dtype.text} to its limit", f"switch on {dtype.text}")
        yield from (f"label {dtype.text} {edge}" for edge in ("0", "lowest", "highest"))
        if dtype.is_signed:
            yield from (f"loop down over {dtype.text}", f"loop over {dtype.text} in either direction")
    yield from (
        *("arm with several labels", "switch without default", "switch with many arms"),
        *("else if", "long chain of else if", "else if in a switch", "private array of one segment"),
        *(f"{kind.__name__} in a switch" for kind in (Break, Continue, Return, Barrier, Loop, Switch)),
    )
    for element in ScalarType:
        yield from (f"{access.name} buffer of {element.text}" for access in Access)
        yield from (f"load from {element.text}", f"store to {element.text}")
    for op in AtomicOp:
        for element in sorted(ATOMIC_ELEMENTS, key=lambda t: t.tag):
            for space in _SPACES:
                yield from (f"atomic {op.name} {element.text} {space} {use}" for use in ("used", "unused"))
    yield from (f"atomic ordering {o.text}" for o in Ordering if o is not Ordering.GRID_SYNC)
    yield from (f"barrier {o.text}" for o in _BARRIERS)
    yield from (f"memory kind {kind.name}" for kind in _KINDS)
    yield from (f"{kind.name} axis {axis}" for kind in IdKind for axis in range(3))
    yield from (f"workgroup of {n} axes" for n in (1, 2, 3))
    yield from (
        *("like", "output count", "output range", "runtime-sized input", "static input", "hints", "empty body"),
        *("loop with literal bounds", "loop with computed bounds", "loop with computed step", "while loop"),
        *("else", "divergent branch candidate", "async load", "async store", "async copy in a loop"),
        *("barrier in a loop", "atomic in a loop", "subgroup in a loop", "nested loop", "shared sub-expression"),
        *("grid", "extent", "inferred grid", "step budget", "specialized"),
    )


ALL_FEATURES: Final = frozenset(_all_features())


class _Types:
    """Static types of expressions, enough for valid programs; names are resolved in program order."""

    def __init__(self, program: Program) -> None:
        self.buffers = program.buffers_by_name
        self.locals: dict[str, ScalarType] = {}
        self.found: dict[int, ScalarType] = {}

    def of(self, expr: Expr) -> ScalarType:
        match expr:
            case Literal(dtype) | Cast(dtype) | Bitcast(dtype) | WrapCast(dtype):
                return dtype
            case Narrow(dtype) | Unpack(dtype):
                return dtype.widened
            case Var(name):
                return self.locals[name]
            case Load(buffer):
                return _element(self.buffers[buffer]).widened
            case Atomic(_, buffer):
                return _element(self.buffers[buffer])
            case Binary(op, left):
                return ScalarType.BOOL if BINARY[op].result is Result.BOOL else self.of(left)
            case Unary(unary, operand):
                return ScalarType.BOOL if UNARY[unary].result is Result.BOOL else self.of(operand)
            case Select(_, value) | Fma(value) | SubgroupReduce(_, value) | SubgroupShuffle(value):
                return self.of(value)
            case SpecConst(_, default):
                return default.dtype
            case _:
                return ScalarType.U32


def _element(buffer: Buffer) -> ScalarType:
    assert isinstance(buffer.element, ScalarType)
    return buffer.element


def features(case: Case) -> set[str]:
    """Every feature that the program and its dispatch have."""
    found = set(_launch_features(case))
    for buffer in case.program.buffers:
        found.update(_buffer_features(buffer, case))
    walker = _Walker(case.program)
    walker.body(case.program.body, ())
    return found | walker.found


def _launch_features(case: Case) -> Iterator[str]:
    yield f"workgroup of {max((k + 1 for k in range(3) if case.program.workgroup_size[k] > 1), default=1)} axes"
    config = case.config
    yield "grid" if config.grid else "extent" if config.extent else "inferred grid"
    if config.step_budget is not None:
        yield "step budget"
    if config.spec:
        yield "specialized"


def _buffer_features(buffer: Buffer, case: Case) -> Iterator[str]:
    element = _element(buffer)
    yield f"{buffer.access.name} buffer of {element.text}"
    yield f"memory kind {buffer.kind.name}"
    if buffer.is_push:
        yield f"push {element.text}"
    elif buffer.takes_input:
        yield "static input" if buffer.count else "runtime-sized input"
    if buffer.like is not None:
        yield "like"
    if buffer.name in (case.config.output_counts or {}):
        yield "output count"
    if buffer.output_range is not None:
        yield "output range"
    if buffer.hints.preferred_alignment:
        yield "hints"
    if buffer.is_private and Barrier(Ordering.GRID_SYNC) in walk_statements(case.program.body):
        yield "private array of one segment"


class _Walker:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.types = _Types(program)
        self.found: set[str] = set()
        self.used = {
            e.name for s in walk_statements(program.body) for x in operands(s) for e in _nodes(x) if isinstance(e, Var)
        }

    def body(self, body: Body, around: tuple[Stmt, ...]) -> None:
        if not body:
            self.found.add("empty body")
        for stmt in body:
            self.statement(stmt, around)
            for nested in bodies(stmt):
                self.body(nested, (*around, stmt))

    def statement(self, stmt: Stmt, around: tuple[Stmt, ...]) -> None:
        self.found.add(f"statement {type(stmt).__name__}")
        in_loop = any(isinstance(outer, Loop) for outer in around)
        unused = isinstance(stmt, Let) and isinstance(stmt.value, Atomic) and stmt.name not in self.used
        for expr in operands(stmt):
            nodes = list(_nodes(expr))
            if len({id(node) for node in nodes}) < len(nodes):
                self.found.add("shared sub-expression")
            for node in nodes:
                self.expression(node, unused=unused and node is expr)
                if in_loop and isinstance(node, Atomic):
                    self.found.add("atomic in a loop")
                if in_loop and isinstance(node, SubgroupReduce | SubgroupShuffle):
                    self.found.add("subgroup in a loop")
        self.found.update(self.own_features(stmt, in_loop))
        if any(isinstance(outer, Switch) for outer in around):
            if isinstance(stmt, Break | Continue | Return | Barrier | Loop | Switch):
                self.found.add(f"{type(stmt).__name__} in a switch")
            if isinstance(stmt, If) and is_chained(stmt.otherwise):
                self.found.add("else if in a switch")

    def own_features(self, stmt: Stmt, in_loop: bool) -> Iterator[str]:
        match stmt:
            case Let(name, value):
                self.types.locals[name] = self.types.of(value)
                yield f"local {self.types.locals[name].text}"
            case Assign(name):
                yield f"variable {self.types.locals[name].text}"
            case Store(buffer):
                element = _element(self.program.buffer(buffer))
                yield from (f"store to {element.text}", f"store {element.widened.text}")
                yield f"store at {self.types.of(stmt.index).text}"
            case Loop(var, start, stop, step):
                dtype = self.types.locals[var] = self.types.of(start)
                yield from _loop_features(stmt, dtype)
                if isinstance(stop, Literal) and stop.bits == 0xFFFF_FFFF and step == Literal.of(ScalarType.U32, 1):
                    yield "while loop"
                yield "loop with literal bounds" if isinstance(stop, Literal) else "loop with computed bounds"
                if not isinstance(step, Literal):
                    yield "loop with computed step"
                if in_loop:
                    yield "nested loop"
            case Switch(selector, arms, default):
                dtype = self.types.of(selector)
                yield f"switch on {dtype.text}"
                if not default:
                    yield "switch without default"
                if len(arms) > _MANY:
                    yield "switch with many arms"
                for arm in arms:
                    if len(arm.labels) > 1:
                        yield "arm with several labels"
                    for label in arm.labels:
                        edges = ((0, "0"), (_lowest(dtype), "lowest"), (_highest(dtype), "highest"))
                        yield from (f"label {dtype.text} {edge}" for value, edge in edges if label.value == value)
            case If(_, _, otherwise):
                yield "divergent branch candidate"
                if is_chained(otherwise):
                    yield "else if"
                    if len(if_chain(stmt)[0]) > _MANY:
                        yield "long chain of else if"
                if otherwise:
                    yield "else"
            case Barrier(ordering):
                yield f"barrier {ordering.text}"
                if in_loop:
                    yield "barrier in a loop"
            case AsyncLoad() | AsyncStore():
                yield "async load" if isinstance(stmt, AsyncLoad) else "async store"
                if in_loop:
                    yield "async copy in a loop"
            case _:
                pass

    def expression(self, node: Expr, *, unused: bool) -> None:
        self.found.add(f"expression {type(node).__name__}")
        of = self.types.of
        match node:
            case Literal(dtype):
                self.found.add(f"literal {dtype.text}")
            case Load(buffer, index):
                element = _element(self.program.buffer(buffer))
                self.found.add(f"load at {of(index).text}")
                if self.program.buffer(buffer).is_private:
                    self.found.add(f"private element at {of(index).text}")
                self.found |= {f"load from {element.text}", f"load {element.widened.text}"}
            case LaunchId(kind, axis):
                self.found.add(f"{kind.name} axis {axis}")
            case Binary(op, left, right):
                self.found.add(f"binary {op.name} {of(left).text} {of(right).text}")
            case Unary(unary, operand):
                self.found.add(f"unary {unary.name} {of(operand).text}")
            case Select():
                self.found.add(f"select {of(node).text}")
            case Cast(dtype, operand):
                self.found.add(f"cast {of(operand).text} to {dtype.text}")
            case Narrow(dtype, operand):
                self.found.add(f"narrow {dtype.text}")
                if isinstance(operand, Binary) and isinstance(operand.left, Narrow) and operand.left.dtype is dtype:
                    self.found.add(f"arithmetic of {dtype.text}")
            case Pack(dtype):
                self.found.add(f"pack {dtype.text}")
            case Unpack(dtype):
                self.found.add(f"unpack {dtype.text}")
            case WrapCast(dtype, operand):
                self.found.add(f"wrap_cast {of(operand).text} to {dtype.text}")
            case Bitcast(dtype, operand):
                self.found.add(f"bitcast {of(operand).text} to {dtype.text}")
            case Fma():
                self.found.add(f"fma {of(node).text}")
            case SubgroupReduce(op):
                self.found |= {SUBGROUP[op].text, f"reduction {of(node).text}"}
            case SubgroupShuffle():
                self.found.add(f"shuffle {of(node).text}")
            case SpecConst(_, default):
                self.found.add(f"spec constant {default.dtype.text}")
            case Atomic(atomic, buffer, index, ordering=ordering):
                self.found.add(f"atomic at {of(index).text}")
                declared = self.program.buffer(buffer)
                space = "workgroup" if declared.is_workgroup else "storage"
                use = "unused" if unused else "used"
                self.found |= {
                    f"atomic {atomic.name} {_element(declared).text} {space} {use}",
                    f"atomic ordering {ordering.text}",
                }
            case _:
                pass


def _lowest(dtype: ScalarType) -> int:
    return -(1 << (dtype.bits - 1)) if dtype.is_signed else 0


def _highest(dtype: ScalarType) -> int:
    return _lowest(dtype) + (1 << dtype.bits) - 1


def _loop_features(loop: Loop, dtype: ScalarType) -> Iterator[str]:
    yield f"loop over {dtype.text}"
    limits = (_lowest(dtype), _highest(dtype))
    downwards = isinstance(loop.step, Literal) and loop.step.value < 0
    if isinstance(loop.stop, Literal) and loop.stop.value == limits[not downwards]:
        yield f"loop over {dtype.text} to its limit"
    if downwards:
        yield f"loop down over {dtype.text}"
    if dtype.is_signed and isinstance(loop.step, Select):
        yield f"loop over {dtype.text} in either direction"


def _nodes(expr: Expr) -> Iterator[Expr]:
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))

"""Lowers the linearized micro-operations (UOps) of a tinygrad kernel to a program of ``vyre.ir``.

When a kernel comes here, its loops are tiled and unrolled, and operators that ``NATIVE`` lacks are written with those
that it has.  A change of notation is left: values of 8 or 16 bits are held in the type that a load gives, and
``Narrow`` gives results the bits that they have in memory; vectors are tuples, and accumulators are locals.
"""

from __future__ import annotations  # noqa: I001

from itertools import count
from typing import Any, Final, NamedTuple

from tinygrad.dtype import DType, PtrDType, dtypes, truncate
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.decompositions import xexp2, xlog2, xsin
from tinygrad.uop.ops import PatternMatcher, UOp, UPat

# fmt: off
from vyre.ir import (
    Access, Binary, BinaryOp as B, Bitcast, Cast, EventBuilder, Expr, IdKind, LaunchId, Literal, Load, MemoryKind,
    Narrow, Pack, Program, ScalarType as S, Select, Unary, UnaryOp, Unpack, Var, WrapCast,
)

STORED: Final[dict[DType, S]] = {
    dtypes.bool: S.BOOL8, dtypes.float16: S.F16, dtypes.bfloat16: S.BF16, dtypes.float32: S.F32, dtypes.float64: S.F64,
    dtypes.int8: S.I8, dtypes.int16: S.I16, dtypes.int32: S.I32, dtypes.int64: S.I64,
    dtypes.uint8: S.U8, dtypes.uint16: S.U16, dtypes.uint32: S.U32, dtypes.uint64: S.U64,
}
"""The type that elements of a tinygrad type have in memory."""
HELD: Final = {S.BOOL8: S.BOOL, S.I8: S.I32, S.I16: S.I32, S.U8: S.U32, S.U16: S.U32, S.F16: S.F32, S.BF16: S.F32}
"""The type of the values of an element type that no expression has."""

BINARY: Final = {
    Ops.ADD: B.ADD, Ops.SUB: B.SUB, Ops.MUL: B.MUL, Ops.FDIV: B.DIV, Ops.IDIV: B.DIV, Ops.MOD: B.MOD, Ops.SHL: B.SHL,
    Ops.SHR: B.SHR, Ops.AND: B.BIT_AND, Ops.OR: B.BIT_OR, Ops.XOR: B.BIT_XOR, Ops.CMPLT: B.LT, Ops.CMPNE: B.NE,
    Ops.CMPEQ: B.EQ,
}
OF_BOOLS: Final = {
    Ops.ADD: B.OR, Ops.OR: B.OR, Ops.MUL: B.AND, Ops.AND: B.AND, Ops.XOR: B.NE, Ops.CMPNE: B.NE, Ops.CMPEQ: B.EQ,
}
UNARY: Final = {
    Ops.EXP2: UnaryOp.EXP2, Ops.LOG2: UnaryOp.LOG2, Ops.SIN: UnaryOp.SIN, Ops.SQRT: UnaryOp.SQRT,
    Ops.NEG: UnaryOp.NEGATE, Ops.TRUNC: UnaryOp.TRUNC,
}
# fmt: on
NATIVE: Final = frozenset({*BINARY, *UNARY, Ops.WHERE})
"""The operators that tinygrad need not write with others.  MULACC is not among them, so nothing is contracted."""
EXACT: Final = GroupOp.Comparison | {Ops.AND, Ops.OR, Ops.XOR, Ops.SHR, Ops.MOD, Ops.TRUNC}
"""The operators whose result fits a narrow type if their operands do."""

OF_F64: Final = PatternMatcher([
    (UPat(op, dtype=dtypes.float64, src=(UPat.var("d"),)), by)
    for op, by in ((Ops.EXP2, xexp2), (Ops.LOG2, xlog2), (Ops.SIN, xsin))
])  # fmt: skip
"""vyre has these functions for f32; for f64 they are tinygrad's own polynomials."""


class Pointer(NamedTuple):
    """An element of the memory that ``memory`` declares; with a gate it may be accessed only where that holds."""

    memory: UOp
    index: Expr
    dtype: DType
    gate: Expr | None


def held_as(dtype: DType) -> S:
    """Returns the type of the values of a tinygrad type."""
    return HELD.get(STORED[dtype], STORED[dtype])


def literal(dtype: DType, value: int | float | bool) -> Literal:
    """Returns a constant, wrapped or rounded to its type."""
    return Literal.of(held_as(dtype), truncate[dtype](value) if dtype in truncate else value)


def cast(value: Expr, source: DType, target: DType) -> Expr:
    """Returns a value converted as C converts it; modulo 2^width where C does not define the integer of a float."""
    if target == dtypes.bool:
        return value if source == dtypes.bool else Binary(B.NE, value, literal(source, 0))
    if dtypes.is_float(source) and dtypes.is_int(target):
        return narrow(WrapCast(held_as(target), value), target)
    return narrow(value if held_as(source) is held_as(target) else Cast(held_as(target), value), target)


def bitcast(value: Expr, source: DType, target: DType) -> Expr:
    """Returns the value of another type with the same bits in memory."""
    if STORED[source] in HELD:
        return Unpack(STORED[target], Pack(STORED[source], value))
    return Bitcast(STORED[target], value)


def narrow(value: Expr, dtype: DType) -> Expr:
    """Returns a value as a load finds it that was stored as ``dtype``."""
    return Narrow(STORED[dtype], value) if STORED[dtype] in HELD and dtype != dtypes.bool else value


def operator(op: Ops, dtype: DType, operand: DType, values: list[Expr]) -> Expr:
    """Returns an operator applied to values of the type ``operand``; its result is a ``dtype``."""
    if op is Ops.WHERE:
        return Select(*values)
    if op in UNARY:
        result: Expr = Unary(UNARY[op], *values)
    elif operand != dtypes.bool:
        result = Binary(BINARY[op], *values)
    elif op is Ops.CMPLT:
        return Binary(B.AND, Unary(UnaryOp.LOGICAL_NOT, values[0]), values[1])
    else:
        return Binary(OF_BOOLS[op], *values)
    return result if op in EXACT else narrow(result, dtype)


def memory_of(u: UOp) -> UOp:
    """Returns the declaration of the memory that a pointer points to."""
    while u.op not in GroupOp.Defines:
        u = u.src[0]
    return u


class Lowering:
    """The program of a kernel in the making."""

    def __init__(self, name: str, uops: list[UOp]) -> None:
        lanes = {u.arg: u.src[0].arg for u in uops if u.op is Ops.SPECIAL and u.arg[0] == "l"}
        self.builder = EventBuilder(name, workgroup=tuple(lanes.get(f"lidx{axis}", 1) for axis in range(3)))
        self.uops = uops
        self.names: dict[UOp, str] = {}  # of memory
        self.values: dict[UOp, Any] = {}  # an expression, a tuple of them (a vector), or a Pointer
        self.numbers = count()
        indexed = {memory_of(u) for u in uops if u.op is Ops.INDEX and u.src[1].op is not Ops.CONST}
        self.in_locals = {u for u in uops if u.op is Ops.DEFINE_REG} - indexed

    def program(self) -> Program:
        """Returns the program, whose buffers are tinygrad's in ascending order, and then its variables.

        Raises ``NotImplementedError`` for what only other devices have, such as text in the language of a device.
        """
        written = {memory_of(u.src[0]) for u in self.uops if u.op is Ops.STORE}
        for u in sorted((u for u in self.uops if u.op is Ops.DEFINE_GLOBAL), key=lambda u: u.arg):
            self.declare(u, f"data{u.arg}", Access.READ_WRITE if u in written else Access.READ_ONLY)
        for number, u in enumerate(sorted((u for u in self.uops if u.op is Ops.DEFINE_VAR), key=lambda u: u.arg)):
            buffer = self.builder.buffer(f"var{number}", STORED[u.dtype], Access.UNIFORM, 1, kind=MemoryKind.PUSH)
            self.values[u] = Load(buffer.name, Literal.of(S.U32, 0))
        for u in self.uops:
            self.lower(u)
        return self.builder.build()

    def declare(self, u: UOp, name: str, access: Access) -> None:
        size = u.ptrdtype.size * u.ptrdtype.base.count
        self.names[u] = self.builder.buffer(name, STORED[u.ptrdtype.base.scalar()], access, max(size, 0)).name

    def set(self, u: UOp, values: list[Expr]) -> None:
        """Names the values of the lanes of ``u``, which says when they are computed."""
        named = [Var(f"v{next(self.numbers)}") for _ in values]
        for var, value in zip(named, values, strict=True):
            self.builder.let(var.name, value)
        self.values[u] = tuple(named) if u.dtype.count > 1 else named[0]

    def of_lanes(self, u: UOp) -> list[list[Expr]]:
        """Returns the operands of ``u``, for each lane of its result."""
        operands = [self.values[source] for source in u.src]
        return [[v[lane] if isinstance(v, tuple) else v for v in operands] for lane in range(u.dtype.count)]

    def element(self, pointer: Pointer, lane: int) -> tuple[str, Expr]:
        """Returns the memory and the index of the element that lies ``lane`` elements behind a pointer."""
        index = pointer.index
        if isinstance(index, Literal):
            index = literal(pointer.dtype, int(index.value) + lane)
        elif lane:
            index = Binary(B.ADD, index, literal(pointer.dtype, lane))
        return self.names[pointer.memory], index

    def load(self, pointer: Pointer, lane: int) -> Expr:
        name, index = self.element(pointer, lane)
        return Var(f"{name}_{index.value}") if pointer.memory in self.in_locals else Load(name, index)

    def store(self, pointer: Pointer, lane: int, value: Expr) -> None:
        name, index = self.element(pointer, lane)
        if pointer.memory in self.in_locals:
            self.builder.assign(f"{name}_{index.value}", value)
        else:
            self.builder.store(name, index, value)

    def lower(self, u: UOp) -> None:
        """Records one micro-operation."""
        match u.op:
            case Ops.SINK | Ops.NOOP | Ops.GROUP | Ops.DEFINE_GLOBAL | Ops.DEFINE_VAR:
                pass
            case Ops.DEFINE_REG if u in self.in_locals:
                self.names[u] = f"acc{next(self.numbers)}"
                for element in range(u.ptrdtype.size * u.ptrdtype.base.count):
                    self.builder.let(f"{self.names[u]}_{element}", literal(u.ptrdtype.base.scalar(), 0))
            case Ops.DEFINE_LOCAL | Ops.DEFINE_REG:
                access = Access.WORKGROUP if u.op is Ops.DEFINE_LOCAL else Access.PRIVATE
                self.declare(u, f"{access.name.lower()}{next(self.numbers)}", access)
            case Ops.CONST:
                value = literal(u.dtype.scalar(), u.arg)
                self.values[u] = value if u.dtype.count == 1 else (value,) * u.dtype.count
            case Ops.SPECIAL:
                kind = {"g": IdKind.GROUP, "l": IdKind.LOCAL, "i": IdKind.GLOBAL}[u.arg[0]]
                self.set(u, [Cast(STORED[u.dtype], LaunchId(kind, int(u.arg[-1])))])
            case Ops.RANGE:
                var = self.values[u] = Var(f"i{next(self.numbers)}")
                self.builder.for_(var.name, literal(u.dtype, 0), self.values[u.src[0]], literal(u.dtype, 1))
            case Ops.IF:
                self.builder.if_(self.values[u.src[0]])
            case Ops.END | Ops.ENDIF | Ops.BARRIER:
                self.builder.barrier() if u.op is Ops.BARRIER else self.builder.close()
            case Ops.AFTER | Ops.CAST if u.op is Ops.AFTER or isinstance(u.dtype, PtrDType):
                if u.src[0] in self.values:
                    self.values[u] = self.values[u.src[0]]
            case Ops.INDEX:
                gate = self.values[u.src[2]] if len(u.src) > 2 else None
                self.values[u] = Pointer(memory_of(u), self.values[u.src[1]], u.src[1].dtype, gate)
            case Ops.LOAD:
                pointer, *others = (self.values[source] for source in u.src[:2])
                loaded = [self.load(pointer, lane) for lane in range(u.dtype.count)]
                if pointer.gate is not None:
                    instead = others[0] if isinstance(others[0], tuple) else others * len(loaded)
                    loaded = [Select(pointer.gate, *both) for both in zip(loaded, instead, strict=True)]
                self.set(u, loaded)
            case Ops.STORE:
                pointer, values = (self.values[source] for source in u.src[:2])
                for lane, value in enumerate(values if isinstance(values, tuple) else (values,)):
                    self.store(pointer, lane, value)
            case Ops.VECTORIZE:
                self.values[u] = tuple(self.values[source] for source in u.src)
            case Ops.GEP:
                parts = tuple(self.values[u.src[0]][part] for part in u.arg)
                self.values[u] = parts if len(parts) > 1 else parts[0]
            case Ops.CAST | Ops.BITCAST:
                convert = cast if u.op is Ops.CAST else bitcast
                source, target = u.src[0].dtype.scalar(), u.dtype.scalar()
                self.set(u, [convert(values[0], source, target) for values in self.of_lanes(u)])
            case op if op in NATIVE:
                operand = u.src[0].dtype.scalar()
                self.set(u, [operator(op, u.dtype.scalar(), operand, values) for values in self.of_lanes(u)])
            case _:
                raise NotImplementedError(f"no {u.op} of {u.dtype} with {u.arg} runs on vyre")

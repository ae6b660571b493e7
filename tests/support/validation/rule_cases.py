"""For every code of the validator: programs that break exactly that rule, each with a near twin that is legal."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from support.kernels import (
    BARRIER,
    BUFFERS,
    DIVERGENT,
    GRID_SYNC,
    INP,
    LID,
    SH,
    TRUE,
    UNIFORM,
    WGID,
    add,
    equal,
    kernel,
    lane_sum,
    less,
    lit,
    load,
    loop,
    op,
    store,
    var,
    when,
)
from vyre.domain.ir.expr import (
    Atomic,
    Bitcast,
    BufferLength,
    Cast,
    Expr,
    Fma,
    IdKind,
    LaunchId,
    Select,
    SpecConst,
    SubgroupBallot,
    SubgroupShuffle,
    Unary,
)
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering, UnaryOp
from vyre.domain.ir.program import Access, Buffer, BufferHints, MemoryKind, Program
from vyre.domain.ir.stmt import (
    Assign,
    AsyncLoad,
    AsyncStore,
    AsyncWait,
    Barrier,
    Block,
    Break,
    Continue,
    IndirectDispatch,
    Let,
    Region,
    Return,
    Stmt,
    Trap,
)
from vyre.domain.ir.types import DataType, ReservedType, ScalarType, bool_, f16, f32, f64, i32, u8, u64


class RuleCase(NamedTuple):
    """``broken`` breaks the rule ``code`` and no other; ``legal`` differs a little and breaks none."""

    code: str
    what: str
    broken: Program
    legal: Program


_CASES: Final[list[RuleCase]] = []


def _case(code: str, what: str, broken: Program | Stmt, legal: Program | Stmt) -> None:
    _CASES.append(RuleCase(code, what, _program(broken), _program(legal)))


def _program(made: Program | Stmt) -> Program:
    return made if isinstance(made, Program) else kernel(made)


def _let(value: Expr, *more: Stmt) -> Program:
    return kernel(Let("x", value), *more)


def _atomic(
    buffer: str = "out",
    *,
    operator: AtomicOp = AtomicOp.ADD,
    index: Expr | None = None,
    expected: Expr | None = None,
    value: Expr | None = None,
    ordering: Ordering = Ordering.SEQ_CST,
) -> Atomic:
    return Atomic(operator, buffer, index or lit(0), expected, value or lit(1), ordering)


def _with(*buffers: Buffer) -> Program:
    return kernel(buffers=buffers)


def _buffer(
    name: str = "b",
    binding: int = 7,
    access: Access = Access.READ_WRITE,
    element: DataType = ScalarType.U32,
    count: int = 0,
    **fields: Any,
) -> Buffer:
    return Buffer.make(name, binding, access, element, count, **fields)


def _output(like: str, count: int = 0, name: str = "b", binding: int = 7) -> Buffer:
    return _buffer(name, binding, count=count, is_output=True, like=like)


def _push(
    name: str = "p",
    binding: int = 9,
    element: ScalarType = ScalarType.U32,
    count: int = 1,
    access: Access = Access.UNIFORM,
    is_output: bool = False,
) -> Buffer:
    return _buffer(name, binding, access, element, count, is_output=is_output, kind=MemoryKind.PUSH)


def _copy(tag: str = "t", source: str = "inp", destination: str = "out") -> AsyncLoad:
    return AsyncLoad(source, destination, lit(0), lit(4), tag)


def _nested(depth: int) -> Program:
    body: tuple[Stmt, ...] = (Return(),)
    for _ in range(depth):
        body = (Block(body),)
    return kernel(*body)


def _deep(depth: int) -> Expr:
    expr: Expr = LID
    for _ in range(depth):
        expr = add(expr, lit(1))
    return expr


def _shared(doublings: int) -> Expr:
    expr: Expr = LID
    for _ in range(doublings):
        expr = add(expr, expr)
    return expr


_ONE: Final = lit(1)
_X: Final = var("x")
_ASSIGN: Final = Assign("x", lit(2))

# Names and scopes.
_case("V008", "a let in an inner scope", _let(LID, Block((Let("x", LID),))), _let(LID, Block((Let("y", LID),))))
_case("V008", "a loop variable", _let(LID, loop("x", lit(3))), kernel(loop("x", lit(3)), Let("x", LID)))
_case("V008", "a let of the loop variable", loop("k", lit(3), Let("k", LID)), loop("k", lit(3), Let("j", LID)))
_case("V011", "a loop variable", loop("k", lit(3), Assign("k", lit(1))), _let(LID, loop("k", lit(3), _ASSIGN)))
_case("V032", "two lets", _let(LID, Let("x", LID)), kernel(Block((Let("x", LID),)), Let("x", LID)))
_case("V107", "no let", store(_X), _let(LID, store(_X)))
_case(
    "V107", "a let in a region", kernel(Region("g", (Let("x", LID),)), store(_X)), _let(LID, Region("g", (store(_X),)))
)
_case("V107", "a let after", kernel(store(_X), Let("x", LID)), _let(LID, store(_X)))
_case("V107", "in the address of a trap", Trap(_X, "t"), _let(LID, Trap(_X, "t")))
_case("V117", "no let", _ASSIGN, _let(LID, _ASSIGN))
_case("V118", "a buffer", Assign("out", _ONE), store(_ONE))

# Types of expressions.
_case("V012", "a cast to a narrow type", _let(Cast(u8, LID)), _let(Cast(u64, LID)))
_case("V012", "a bitcast between widths", _let(Bitcast(f64, LID)), _let(Bitcast(f32, LID)))
_case("V012", "a bitcast of bool", _let(Bitcast(i32, TRUE)), _let(Cast(i32, TRUE)))
_case("V028", "integers", _let(Fma(lit(1), lit(2), lit(3))), _let(Fma(*(lit(1.0, f32),) * 3)))
_case(
    "V028",
    "mixed floats",
    _let(Fma(lit(1.0, f64), lit(1.0, f32), lit(1.0, f64))),
    _let(Fma(*(lit(1.0, f64),) * 3)),
)
_case("V029", "u32 and f32", _let(Select(TRUE, _ONE, lit(1.0, f32))), _let(Select(TRUE, _ONE, LID)))
_case("V035", "u64 to u32", _let(Cast(ScalarType.U32, lit(1, u64))), _let(Cast(u64, LID)))
_case("V109", "a length", _let(BufferLength("zz")), _let(BufferLength("inp")))
_case("V110", "axis 3", _let(LaunchId(IdKind.GLOBAL, 3)), _let(LaunchId(IdKind.GLOBAL, 2)))
_case("V110", "axis -1", _let(LaunchId(IdKind.NUM_GROUPS, -1)), _let(LaunchId(IdKind.NUM_GROUPS, 0)))
_case("V114", "a load", _let(load("inp", lit(0.0, f32))), _let(load("inp", lit(0))))
_case("V114", "a store", store(_ONE, index=lit(0.0, f32)), store(_ONE, index=lit(0)))
_case("V114", "a lane", _let(SubgroupShuffle(LID, lit(0, i32))), _let(SubgroupShuffle(LID, lit(0))))
_case(
    "V114",
    "the size of a copy",
    kernel(AsyncLoad("inp", "out", lit(0), lit(4, u64), "t"), AsyncWait("t")),
    kernel(AsyncStore("inp", "out", lit(0), lit(4), "t"), AsyncWait("t")),
)
_case("V114", "the address of a trap", Trap(TRUE, "t"), Trap(LID, "t"))
_case("V115", "an if", when(LID), when(Cast(bool_, LID)))
_case("V115", "a select", _let(Select(LID, LID, LID)), _let(Select(TRUE, LID, LID)))
_case("V115", "a ballot", _let(SubgroupBallot(LID)), _let(SubgroupBallot(DIVERGENT)))
_case("V116", "an i32 start", loop("k", lit(2), start=lit(0, i32), step=lit(1, i32)), loop("k", lit(2)))
_case("V116", "an i32 step", loop("k", lit(2), step=lit(1, i32)), loop("k", lit(2), step=lit(3)))
_case("V130", "u32 and f32", _let(add(_ONE, lit(1.0, f32))), _let(add(lit(1.0, f32), lit(1.0, f32))))
_case("V130", "bool", _let(add(TRUE, TRUE)), _let(equal(TRUE, TRUE)))
_case("V130", "a comparison", _let(equal(TRUE, _ONE)), _let(equal(LID, _ONE)))
_case("V130", "an i32 count of a u32", _let(op(BinaryOp.SHL, LID, lit(1, i32))), _let(op(BinaryOp.SHL, LID, _ONE)))
_case(
    "V130",
    "a logical and of numbers",
    _let(op(BinaryOp.AND, LID, LID)),
    _let(op(BinaryOp.SHR, lit(1, ScalarType.I64), _ONE)),
)
_case("V131", "sin of u32", _let(Unary(UnaryOp.SIN, LID)), _let(Unary(UnaryOp.SIN, lit(1.0, f32))))
_case("V131", "not of u32", _let(Unary(UnaryOp.LOGICAL_NOT, LID)), _let(Unary(UnaryOp.BIT_NOT, LID)))
_case("V211", "sin of f64", _let(Unary(UnaryOp.SIN, lit(1.0, f64))), _let(Unary(UnaryOp.SQRT, lit(1.0, f64))))
_case(
    "V211",
    "remainder of floats",
    _let(op(BinaryOp.MOD, lit(1.0, f32), lit(1.0, f32))),
    _let(op(BinaryOp.MOD, lit(1, i32), lit(1, i32))),
)
_case("V211", "sum of bools", _let(lane_sum(DIVERGENT)), _let(lane_sum(lit(1.0, f64))))
_case("V211", "a u64 constant", _let(SpecConst("n", lit(0, u64))), _let(SpecConst("n", lit(False, bool_))))
_case(
    "V213",
    "two values",
    _let(add(SpecConst("n", lit(0)), SpecConst("n", lit(1)))),
    _let(add(SpecConst("n", lit(0)), SpecConst("m", lit(1)))),
)
_case(
    "V213",
    "two types",
    kernel(Let("x", SpecConst("n", lit(0))), Let("y", SpecConst("n", lit(0, i32)))),
    kernel(Let("x", SpecConst("n", lit(0))), Let("y", SpecConst("n", lit(0)))),
)

# Statements.
_case("V036", "a literal at the count", store(_ONE, "sh", lit(64)), store(_ONE, "sh", lit(63)))
_case("V045", "u32 := f32", _let(LID, Assign("x", lit(1.0, f32))), _let(LID, _ASSIGN))
_case("V108", "a load", _let(load("zz")), _let(load("inp")))
_case("V108", "a copy", kernel(_copy(source="zz"), AsyncWait("t")), kernel(_copy(), AsyncWait("t")))
_case("V111", "a store", store(_ONE, "zz"), store(_ONE, "out"))
_case("V111", "a copy", kernel(_copy(destination="zz"), AsyncWait("t")), kernel(_copy(), AsyncWait("t")))
_case("V112", "a store", store(_ONE, "inp"), store(_ONE, "sh"))
_case("V112", "a copy", kernel(_copy(destination="inp"), AsyncWait("t")), kernel(_copy(), AsyncWait("t")))
_case("V113", "f32 into u32", store(lit(1.0, f32)), store(lit(1.0, f32), "flt"))
_case(
    "V113",
    "a narrow element takes its wide type",
    kernel(store(lit(1, i32), "b"), buffers=(_buffer(element=u8),)),
    kernel(store(lit(1), "b"), buffers=(_buffer(element=u8),)),
)
_case("V119", "after return", kernel(Return(), store(_ONE)), kernel(store(_ONE), Return()))
_case("V119", "after break", loop("k", lit(3), Break(), store(_ONE)), loop("k", lit(3), store(_ONE), Break()))
_case(
    "V119", "after continue", loop("k", lit(3), Continue(), Break()), loop("k", lit(3), when(TRUE, Continue()), Break())
)
_case("V120", "offset 2", IndirectDispatch("inp", 2), IndirectDispatch("inp", 4))
_case("V120", "offset -4", IndirectDispatch("inp", -4), IndirectDispatch("inp", 0))
_case("V121", "unknown", IndirectDispatch("zz", 0), IndirectDispatch("inp", 0))
_case("V124", "twice", kernel(*(Region("p#self-exclusive", ()),) * 2), kernel(*(Region("p", ()),) * 2))
_case("V205", "break", Break(), loop("k", lit(3), Break()))
_case("V205", "continue in an if", when(TRUE, Continue()), loop("k", lit(3), when(TRUE, Continue())))
_case("V206", "a literal", loop("k", lit(3), step=lit(0)), loop("k", lit(3), step=SpecConst("n", lit(0))))

# Atomics.
_case("V009", "read-only", _let(_atomic("inp")), _let(_atomic("out")))
_case("V042", "grid_sync", _let(_atomic(ordering=Ordering.GRID_SYNC)), _let(_atomic(ordering=Ordering.RELAXED)))
_case("V127", "unknown", _let(_atomic("zz")), _let(_atomic("sh")))
_case("V128", "an i32 value", _let(_atomic(value=lit(1, i32))), _let(_atomic(value=LID)))
_case("V129", "an expected value for add", _let(_atomic(expected=_ONE)), _let(_atomic()))
_case("V202", "f32", _let(_atomic("flt", value=lit(1.0, f32))), _let(_atomic("out")))
_case(
    "V202",
    "i64",
    kernel(Let("x", _atomic("b", value=lit(1, ScalarType.I64))), buffers=(_buffer(element=ScalarType.I64),)),
    kernel(Let("x", _atomic("b", value=lit(1, u64))), buffers=(_buffer(element=u64),)),
)
_case("V218", "a used value", _let(_atomic(), Let("y", _X)), _let(_atomic(), Let("y", LID)))
_case("V218", "a value in an expression", _let(add(_atomic(), _ONE)), _let(_atomic()))
_case("V218", "exchange", _let(_atomic(operator=AtomicOp.EXCHANGE)), _let(_atomic(operator=AtomicOp.MAX)))
_case(
    "V218",
    "two operators on one element",
    _let(_atomic(operator=AtomicOp.ADD), Let("y", _atomic(operator=AtomicOp.AND))),
    _let(_atomic(operator=AtomicOp.ADD), Let("y", _atomic(operator=AtomicOp.AND, index=lit(1)))),
)
_case(
    "V218",
    "two operators on elements known at run time",
    _let(_atomic(operator=AtomicOp.ADD), Let("y", _atomic(operator=AtomicOp.AND, index=LID))),
    _let(_atomic(operator=AtomicOp.ADD), Let("y", _atomic(index=LID))),
)
_case(
    "V123",
    "a load before an atomic",
    _let(load("out"), Let("y", _atomic())),
    _let(load("out"), BARRIER, Let("y", _atomic())),
)
_case(
    "V123",
    "an atomic in a nested block",
    _let(load("out"), Block((Let("y", _atomic()),))),
    _let(BufferLength("out"), Block((Let("y", _atomic()),))),
)
_case(
    "V123",
    "around a loop",
    loop("k", lit(3), Let("x", load("out")), BARRIER, Let("y", _atomic())),
    loop("k", lit(3), Let("x", load("out")), BARRIER, Let("y", _atomic()), BARRIER),
)
_case(
    "V123",
    "an atomic in one branch, a store after",
    kernel(when(DIVERGENT, Let("x", _atomic())), store(_ONE)),
    kernel(when(DIVERGENT, Let("x", _atomic())), BARRIER, store(_ONE)),
)
_case(
    "V123",
    "through break",
    kernel(
        loop("k", lit(3), Let("x", load("out")), BARRIER, when(UNIFORM, Let("y", _atomic()), Break()), BARRIER),
        store(_ONE),
    ),
    kernel(
        loop(
            "k", lit(3), Let("x", load("out")), BARRIER, when(UNIFORM, Let("y", _atomic()), BARRIER, Break()), BARRIER
        ),
        store(_ONE),
    ),
)
_case("V123", "in one statement", store(_atomic()), store(_atomic("sh")))
_case(
    "V123",
    "a condition",
    kernel(when(less(load("sh"), lit(1))), Let("y", _atomic("sh"))),
    kernel(when(less(load("sh"), lit(1))), BARRIER, Let("y", _atomic("sh"))),
)
_case(
    "V123",
    "the wait of a copy",
    kernel(_copy(), BARRIER, Let("x", _atomic()), AsyncWait("t")),
    kernel(_copy(), BARRIER, Let("x", _atomic()), BARRIER, AsyncWait("t")),
)
_case(
    "V009", "write-only", kernel(Let("x", _atomic("b")), buffers=(_buffer(access=Access.WRITE_ONLY),)), _let(_atomic())
)

# Flow.
_case("V010", "a divergent if", when(DIVERGENT, BARRIER), when(UNIFORM, BARRIER))
_case("V010", "a divergent else", when(DIVERGENT, otherwise=(BARRIER,)), when(UNIFORM, otherwise=(BARRIER,)))
_case("V010", "a divergent stop", loop("k", LID, BARRIER), loop("k", WGID, BARRIER))
_case("V010", "a divergent step", loop("k", lit(9), BARRIER, step=LID), loop("k", lit(9), BARRIER, step=WGID))
_case(
    "V010",
    "after a divergent break",
    loop("k", lit(3), when(DIVERGENT, Break()), BARRIER),
    loop("k", lit(3), when(UNIFORM, Break()), BARRIER),
)
_case(
    "V010",
    "before a divergent continue",
    loop("k", lit(3), BARRIER, when(DIVERGENT, Continue())),
    kernel(loop("k", lit(3), when(DIVERGENT, Continue())), BARRIER),
)
_case(
    "V010",
    "a value at a break",
    _let(lit(0), loop("k", lit(3), Assign("x", LID), when(UNIFORM, Break()), _ASSIGN), when(equal(_X, _ONE), BARRIER)),
    _let(lit(0), loop("k", lit(3), Assign("x", LID), _ASSIGN, when(UNIFORM, Break())), when(equal(_X, _ONE), BARRIER)),
)
_case(
    "V010",
    "a value at a continue",
    _let(
        lit(0), loop("k", lit(3), when(equal(_X, _ONE), BARRIER), Assign("x", LID), when(UNIFORM, Continue()), _ASSIGN)
    ),
    _let(
        lit(0), loop("k", lit(3), when(equal(_X, _ONE), BARRIER), Assign("x", LID), _ASSIGN, when(UNIFORM, Continue()))
    ),
)
_case("V043", "relaxed", Barrier(Ordering.RELAXED), Barrier(Ordering.ACQUIRE))
_case("V122", "no wait", _copy(), kernel(_copy(), AsyncWait("t")))
_case("V122", "no copy", AsyncWait("t"), kernel(_copy(), AsyncWait("t")))
_case("V122", "an empty tag", kernel(_copy(""), AsyncWait("")), kernel(_copy("t"), AsyncWait("t")))
_case(
    "V122",
    "a tag started twice",
    kernel(_copy(), _copy(), AsyncWait("t")),
    kernel(_copy(), AsyncWait("t"), _copy(), AsyncWait("t")),
)
_case(
    "V122", "a wait in one branch", kernel(_copy(), when(UNIFORM, AsyncWait("t"))), _let(LID, _copy(), AsyncWait("t"))
)
_case(
    "V122",
    "a copy in one branch",
    kernel(when(UNIFORM, _copy()), AsyncWait("t")),
    kernel(when(UNIFORM, _copy(), otherwise=(_copy(source="sh"),)), AsyncWait("t")),
)
_case(
    "V122",
    "a wait in a loop",
    kernel(_copy(), loop("k", lit(3), AsyncWait("t"))),
    loop("k", lit(3), _copy(), AsyncWait("t")),
)
_case(
    "V122",
    "break with a pending copy",
    loop("k", lit(3), _copy(), when(UNIFORM, Break()), AsyncWait("t")),
    loop("k", lit(3), _copy(), AsyncWait("t"), when(UNIFORM, Break())),
)
_case("V122", "return with a pending copy", kernel(_copy(), Return()), kernel(_copy(), Trap(_ONE, "t")))
_case(
    "V122",
    "across a grid barrier",
    kernel(_copy(), GRID_SYNC, AsyncWait("t")),
    kernel(_copy(), AsyncWait("t"), GRID_SYNC),
)
_case("V203", "a divergent if", when(DIVERGENT, Let("x", lane_sum(LID))), when(UNIFORM, Let("x", lane_sum(LID))))
_case(
    "V203",
    "a condition that subgroups agree on",
    when(equal(SubgroupShuffle(LID, lit(0)), lit(0)), Let("x", lane_sum(LID))),
    when(equal(lane_sum(LID), lit(0)), Let("x", lane_sum(LID))),
)
_case(
    "V203",
    "after a divergent break",
    loop("k", lit(3), when(DIVERGENT, Break()), store(SubgroupBallot(TRUE))),
    loop("k", lit(3), when(equal(SubgroupBallot(DIVERGENT), lit(0)), Break()), store(SubgroupBallot(TRUE))),
)
_case("V204", "an atomic", _let(lane_sum(_atomic())), _let(lane_sum(load("out"))))
_case(
    "V204",
    "deep in a lane",
    _let(SubgroupShuffle(LID, add(_atomic(), _ONE))),
    _let(SubgroupShuffle(LID, lane_sum(LID))),
)
_case("V207", "in an if", when(TRUE, GRID_SYNC), Region("g", (Block((GRID_SYNC,)),)))
_case("V207", "in a block in a loop", loop("k", lit(3), Block((GRID_SYNC,))), GRID_SYNC)
_case("V208", "assigned", _let(LID, _ASSIGN, GRID_SYNC, store(_X)), _let(LID, GRID_SYNC, store(_X)))
_case("V208", "assigned after", _let(LID, GRID_SYNC, _ASSIGN), _let(LID, _ASSIGN, GRID_SYNC))
_case(
    "V208",
    "a load of what is written",
    _let(load("out"), GRID_SYNC, store(_X)),
    _let(load("inp"), GRID_SYNC, store(_X)),
)
_case("V208", "an atomic", _let(_atomic(), GRID_SYNC, store(_X)), _let(_atomic(), GRID_SYNC, store(LID)))
_case("V208", "a subgroup sum", _let(lane_sum(LID), GRID_SYNC, store(_X)), _let(lane_sum(LID), store(_X), GRID_SYNC))
_case("V208", "workgroup memory", _let(load("sh"), GRID_SYNC, store(_X)), _let(load("sh"), GRID_SYNC, store(LID)))
_case(
    "V208",
    "a dependency",
    _let(LID, Let("y", add(_X, _ONE)), _ASSIGN, GRID_SYNC, store(var("y"))),
    _let(LID, Let("y", add(_X, _ONE)), GRID_SYNC, store(var("y"))),
)
_case(
    "V208",
    "a use under an if",
    _let(LID, _ASSIGN, GRID_SYNC, when(TRUE, store(_X))),
    _let(LID, _ASSIGN, when(TRUE, store(_X)), GRID_SYNC),
)
_case(
    "V209",
    "before and after",
    kernel(store(_ONE, "sh"), GRID_SYNC, store(_ONE, "sh")),
    kernel(store(_ONE, "sh"), GRID_SYNC, Let("x", BufferLength("sh"))),
)
_case(
    "V210", "a divergent return", kernel(when(DIVERGENT, Return()), BARRIER), kernel(when(UNIFORM, Return()), BARRIER)
)
_case(
    "V210",
    "a return in an else",
    kernel(when(DIVERGENT, otherwise=(Return(),)), BARRIER),
    kernel(when(DIVERGENT, Return(), otherwise=(Return(),))),
)
_case(
    "V210",
    "a divergent trap",
    kernel(when(DIVERGENT, Trap(_ONE, "t")), BARRIER),
    kernel(BARRIER, when(DIVERGENT, Trap(_ONE, "t"))),
)
_case(
    "V210",
    "a return later in the loop",
    loop("k", lit(3), BARRIER, when(DIVERGENT, Return())),
    kernel(BARRIER, loop("k", lit(3), when(DIVERGENT, Return()))),
)
_case(
    "V210",
    "a subgroup operation after a return",
    kernel(when(DIVERGENT, Return()), store(lane_sum(_ONE))),
    kernel(when(less(lane_sum(LID), lit(9)), Return()), store(lane_sum(_ONE))),
)
_case(
    "V210",
    "a barrier after subgroups have returned",
    kernel(when(less(lane_sum(LID), lit(9)), Return()), BARRIER),
    kernel(when(less(lane_sum(LID), lit(9)), store(LID)), BARRIER),
)
_case(
    "V210",
    "a grid barrier after any return",
    kernel(when(UNIFORM, Return()), GRID_SYNC),
    kernel(GRID_SYNC, when(UNIFORM, Return())),
)

# Size.
_case("V018", "65 bodies", _nested(65), _nested(64))
_case("V019", "2^18 + 1 statements", kernel(*(BARRIER,) * ((1 << 18) + 1)), kernel(*(BARRIER,) * 8193))
_case("V019", "2^100 shared nodes", _let(_shared(100)), _let(_shared(16)))
_case(
    "V019",
    "16385 buffers",
    _with(*(_buffer(f"b{i}", i) for i in range(16_385))),
    _with(*(_buffer(f"b{i}", i) for i in range(9))),
)
_case("V033", "129 operators", _let(_deep(129)), _let(_deep(128)))

# Declarations.
_case("V102", "an axis of 0", kernel(workgroup=(0, 1, 1)), kernel(workgroup=(1, 1, 1)))
_case("V102", "too many lanes", kernel(workgroup=(1 << 16, 1 << 16, 1)), kernel(workgroup=(1 << 16, 1 << 15, 1)))
_case("V103", "twice", _with(_buffer("b", 0), _buffer("b", 1)), _with(_buffer("b", 0), _buffer("c", 1)))
_case("V104", "twice", _with(_buffer("b", 3), _buffer("c", 3)), _with(_buffer("b", 0), SH))
_case("V105", "0", _with(_buffer(access=Access.WORKGROUP)), _with(_buffer(access=Access.WORKGROUP, count=1)))
_case("V201", "bytes", _with(_buffer(element=ReservedType("bytes"))), _with(_buffer(element=f16)))
_case("V212", "an output", _with(_push(is_output=True)), _with(_push()))
_case("V212", "two elements", _with(_push(count=2)), _with(_push(count=1)))
_case("V212", "a narrow type", _with(_push(element=f16)), _with(_push(element=f32)))
_case("V212", "a read-only parameter", _with(_push(access=Access.READ_ONLY)), _with(_push()))
_case(
    "V212",
    "more than 256 bytes",
    _with(*(_push(f"p{i}", i, u64) for i in range(33))),
    _with(*(_push(f"p{i}", i, u64) for i in range(32))),
)
_case(
    "V212",
    "another index",
    kernel(Let("x", load("p")), buffers=(_push(),)),
    kernel(Let("x", load("p", lit(0))), buffers=(_push(),)),
)
_case(
    "V212",
    "a copy",
    kernel(_copy(source="p"), AsyncWait("t"), buffers=(*BUFFERS, _push())),
    kernel(_copy(), AsyncWait("t"), buffers=(*BUFFERS, _push())),
)
_case("V214", "an undeclared buffer", _with(_output("zz")), _with(INP, _output("inp")))
_case("V214", "workgroup memory", _with(SH, _output("sh")), _with(INP, _output("inp")))
_case("V214", "a count of its own", _with(INP, _output("inp", count=4)), _with(INP, _output("inp")))
_case("V214", "an input", _with(INP, _buffer(like="inp")), _with(INP, _output("inp")))
_case("V214", "itself", _with(_output("b")), _with(INP, _output("inp")))
_case(
    "V214",
    "a cycle",
    _with(_output("c"), _output("b", name="c", binding=8)),
    _with(INP, _output("c"), _output("inp", name="c", binding=8)),
)
_case("V215", "reversed", _with(_buffer(output_range=(8, 4))), _with(_buffer(output_range=(4, 8))))
_case("V215", "negative", _with(_buffer(output_range=(-4, 4))), _with(_buffer(output_range=(0, 4))))
_case(
    "V215", "beyond the end", _with(_buffer(count=2, output_range=(0, 9))), _with(_buffer(count=2, output_range=(0, 8)))
)
_case(
    "V215",
    "on a buffer that is not returned",
    _with(_buffer(access=Access.READ_ONLY, output_range=(0, 4))),
    _with(_buffer(output_range=(0, 4))),
)
_case("V215", "beyond any buffer", _with(_buffer(output_range=(0, 1 << 40))), _with(_buffer(output_range=(0, 1 << 30))))
_case("V216", "shared storage", _with(_buffer(kind=MemoryKind.SHARED)), _with(_buffer(kind=MemoryKind.GLOBAL)))
_case(
    "V216",
    "global workgroup memory",
    _with(_buffer(access=Access.WORKGROUP, count=4, kind=MemoryKind.GLOBAL)),
    _with(_buffer(access=Access.WORKGROUP, count=4)),
)
_case(
    "V216",
    "a read-only output",
    _with(_buffer(access=Access.READ_ONLY, is_output=True)),
    _with(_buffer(is_output=True)),
)
_case(
    "V216",
    "a write-only input",
    _with(Buffer("b", 7, Access.WRITE_ONLY, ScalarType.U32)),
    _with(Buffer("b", 7, Access.WRITE_ONLY, ScalarType.U32, is_output=True)),
)
_case("V217", "a negative binding", _with(_buffer(binding=-1)), _with(_buffer(binding=0)))
_case("V217", "a count of 2^32", _with(_buffer(count=1 << 32)), _with(_buffer(count=(1 << 32) - 1)))
_case("V217", "an axis hint", _with(_buffer(hints=BufferHints(256))), _with(_buffer(hints=BufferHints(255))))
_case("V217", "an alignment", _with(_buffer(hints=BufferHints(None, -1))), _with(_buffer(hints=BufferHints(None, 16))))
_case("V217", "an offset", IndirectDispatch("inp", 1 << 64), IndirectDispatch("inp", (1 << 64) - 4))

RULE_CASES: Final = tuple(_CASES)

"""Rule cases of private memory, switches, chains of ``else if``, indices of every integer type and narrow values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from support.kernels import (
    BARRIER,
    BUFFERS,
    DIVERGENT,
    GRID_SYNC,
    LID,
    OWN,
    SH,
    TRUE,
    UNIFORM,
    WGID,
    equal,
    kernel,
    lane_sum,
    lit,
    load,
    loop,
    store,
    var,
    when,
)
from support.validation.rule_cases import RuleCase
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.expr import (
    Atomic,
    Binary,
    BufferLength,
    Call,
    Expr,
    IdKind,
    LaunchId,
    Literal,
    Narrow,
    Pack,
    Unpack,
    WrapCast,
)
from vyre.domain.ir.operators import AtomicOp, BinaryOp
from vyre.domain.ir.program import Access, Buffer, MemoryKind, Program
from vyre.domain.ir.stmt import (
    Arm,
    Assign,
    AsyncLoad,
    AsyncWait,
    Block,
    Body,
    Break,
    Continue,
    GridLoop,
    If,
    Let,
    Region,
    Return,
    Stmt,
    Switch,
    Trap,
)
from vyre.domain.ir.types import ScalarType, f16, f32, f64, i8, i32, i64, u8, u16, u32, u64

_CASES: Final[list[RuleCase]] = []
_WITH_OWN: Final = (*BUFFERS, OWN)
_ONE: Final = lit(1)
_X: Final = var("x")
_READ: Final = Let("r", load("out"))
_COPY: Final = AsyncLoad("inp", "out", lit(0), lit(4), "t")
_WAIT: Final = AsyncWait("t")


def _case(code: str, what: str, broken: Program | Stmt, legal: Program | Stmt) -> None:
    _CASES.append(RuleCase(code, what, _program(broken), _program(legal)))


def _program(made: Program | Stmt) -> Program:
    return made if isinstance(made, Program) else _kernel(made)


def _kernel(*body: Stmt) -> Program:
    return kernel(*body, buffers=_WITH_OWN)


def _atomic(buffer: str = "out", index: Expr | None = None) -> Let:
    return Let("o", Atomic(AtomicOp.ADD, buffer, index or lit(0), None, _ONE))


def _switch(selector: Expr, *arms: Body, default: Body = ()) -> Switch:
    """The n-th arm is for the value n."""
    return Switch(selector, tuple(Arm((lit(n),), body) for n, body in enumerate(arms)), default)


def _chain(first: Expr, second: Expr, *bodies: Body) -> If:
    """``if first {} else if second {} else {}``; bodies that are left out are empty."""
    a, b, c = (*bodies, (), (), ())[:3]
    return If(first, a, (If(second, b, c),))


def _labelled(*labels: Literal, selector: Expr = LID) -> Switch:
    return Switch(selector, (Arm(labels, ()),))


def _private(*counts: int, element: ScalarType = u32) -> Program:
    buffers = (Buffer.make(f"p{n}", 0, Access.PRIVATE, element, count) for n, count in enumerate(counts))
    return kernel(buffers=tuple(buffers))


# Uniform flow.
_case("V010", "an arm of a divergent switch", _switch(LID, (BARRIER,)), _switch(WGID, (BARRIER,)))
_case(
    "V010", "the default of a divergent switch", _switch(LID, (), default=(BARRIER,)), _switch(WGID, default=(BARRIER,))
)
_case("V010", "behind a divergent link", _chain(DIVERGENT, TRUE, (), (BARRIER,)), _chain(UNIFORM, TRUE, (), (BARRIER,)))
_case("V010", "a divergent last link", _chain(TRUE, DIVERGENT, (), (BARRIER,)), _chain(TRUE, DIVERGENT, (BARRIER,), ()))
_case(
    "V010",
    "a value that an arm assigns",
    _kernel(Let("x", WGID), _switch(LID, (Assign("x", _ONE),)), when(equal(_X, _ONE), BARRIER)),
    _kernel(Let("x", WGID), _switch(WGID, (Assign("x", _ONE),)), when(equal(_X, _ONE), BARRIER)),
)
_case(
    "V010",
    "a value that every arm assigns",
    _kernel(
        Let("x", WGID),
        _switch(LID, (Assign("x", _ONE),), default=(Assign("x", lit(2)),)),
        when(equal(_X, _ONE), BARRIER),
    ),
    _kernel(
        Let("x", LID),
        _switch(WGID, (Assign("x", _ONE),), default=(Assign("x", lit(2)),)),
        when(equal(_X, _ONE), BARRIER),
    ),
)
_case(
    "V010",
    "a value that one arm leaves alone",
    _kernel(Let("x", LID), _switch(WGID, (Assign("x", _ONE),), ()), when(equal(_X, _ONE), BARRIER)),
    _kernel(
        Let("x", LID),
        _switch(WGID, (Assign("x", _ONE),), (Return(),), default=(Assign("x", WGID),)),
        when(equal(_X, _ONE), BARRIER),
    ),
)
_case(
    "V010",
    "a value that one link leaves alone",
    _kernel(Let("x", LID), _chain(UNIFORM, TRUE, (Assign("x", _ONE),), ()), when(equal(_X, _ONE), BARRIER)),
    _kernel(
        Let("x", LID),
        _chain(UNIFORM, TRUE, (Assign("x", _ONE),), (Assign("x", WGID),), (Return(),)),
        when(equal(_X, _ONE), BARRIER),
    ),
)
_case(
    "V010",
    "after a break in an arm",
    loop("k", lit(3), _switch(LID, (Break(),)), BARRIER),
    loop("k", lit(3), _switch(WGID, (Break(),)), BARRIER),
)
_case("V010", "private memory decides", when(equal(load("own"), _ONE), BARRIER), when(equal(WGID, _ONE), BARRIER))
_case(
    "V203",
    "a condition behind a divergent link",
    _chain(DIVERGENT, equal(lane_sum(LID), _ONE)),
    _chain(UNIFORM, equal(lane_sum(LID), _ONE)),
)
_case("V203", "an arm", _switch(LID, (Let("x", lane_sum(LID)),)), _switch(lane_sum(LID), (Let("x", _ONE),)))
_case(
    "V210",
    "a return in an arm",
    _kernel(_switch(LID, (Return(),)), BARRIER),
    _kernel(_switch(WGID, (Return(),)), BARRIER),
)

# Atomics and copies.
_case("V123", "an arm", _kernel(_READ, _switch(LID, (_atomic(),))), _kernel(_READ, BARRIER, _switch(LID, (_atomic(),))))
_case(
    "V123",
    "after one arm of several",
    _kernel(_switch(LID, (), (_atomic(),), ()), _READ),
    _kernel(_switch(LID, (), (_atomic(),), ()), BARRIER, _READ),
)
_case(
    "V123",
    "an arm that ends the lane",
    _kernel(_switch(LID, (_atomic(), Return()), (_atomic(),)), _READ),
    _kernel(_switch(LID, (_atomic(), Return())), _READ),
)
_case(
    "V123",
    "the condition of a second link",
    _kernel(_atomic("sh"), _chain(UNIFORM, equal(load("sh"), _ONE))),
    _kernel(_atomic("sh"), _chain(UNIFORM, TRUE, (Let("r", load("inp")),))),
)
_case(
    "V123",
    "the selector",
    _kernel(_atomic("sh"), _switch(load("sh"))),
    _kernel(_atomic("sh"), BARRIER, _switch(load("sh"))),
)
_case(
    "V122",
    "a wait in one arm",
    _kernel(_COPY, _switch(WGID, (_WAIT,), (_WAIT,))),
    _kernel(_COPY, _switch(WGID, (_WAIT,), (_WAIT,), default=(_WAIT,))),
)
_case(
    "V122",
    "a copy in one arm",
    _kernel(_switch(WGID, (_COPY,), ()), _WAIT),
    _kernel(_switch(WGID, (_COPY,), default=(_COPY,)), _WAIT),
)
_case(
    "V122",
    "a wait in one link",
    _kernel(_COPY, _chain(UNIFORM, TRUE, (_WAIT,), (_WAIT,))),
    _kernel(_COPY, _chain(UNIFORM, TRUE, (_WAIT,), (_WAIT,), (_WAIT,))),
)

# Grid barriers.
_case("V207", "an arm", _switch(WGID, (GRID_SYNC,)), _kernel(_switch(WGID, ()), GRID_SYNC))
_case("V207", "a link", _chain(UNIFORM, TRUE, (), (GRID_SYNC,)), _kernel(_chain(UNIFORM, TRUE), GRID_SYNC))
_case(
    "V208",
    "private memory",
    _kernel(Let("x", load("own")), GRID_SYNC, store(_X)),
    _kernel(Let("x", load("inp")), GRID_SYNC, store(_X)),
)
_case(
    "V209",
    "private memory",
    _kernel(store(_ONE, "own"), GRID_SYNC, Let("x", load("own"))),
    _kernel(store(_ONE, "own"), Let("x", load("own")), GRID_SYNC),
)
_case(
    "V209",
    "private memory in a second link",
    _kernel(store(_ONE, "own"), GRID_SYNC, _chain(UNIFORM, equal(load("own"), _ONE))),
    _kernel(GRID_SYNC, store(_ONE, "own"), _chain(UNIFORM, equal(load("own"), _ONE))),
)
_case("V210", "a return in an arm before a grid barrier", _kernel(_switch(WGID, (Return(),)), GRID_SYNC), GRID_SYNC)

# Grid loops.
_FLAG: Final = Buffer.make("flag", 5, Access.READ_WRITE, u32, 1)
_SET: Final = store(_ONE, "flag", lit(0))


def _rounds(*body: Stmt, limit: Expr = _ONE, flag: str = "flag") -> GridLoop:
    return GridLoop("rounds", limit, flag, body)


def _looping(*body: Stmt, flag: Buffer = _FLAG) -> Program:
    return kernel(*body, buffers=(*_WITH_OWN, flag))


def _grid_case(code: str, what: str, broken: Stmt | Body, legal: Stmt | Body) -> None:
    both = [_looping(*(made if isinstance(made, tuple) else (made,))) for made in (broken, legal)]
    _case(code, f"grid loop: {what}", *both)


_GROUPS: Final = LaunchId(IdKind.NUM_GROUPS, 0)
_SYNCED: Final = when(equal(_GROUPS, _ONE), GRID_SYNC)
_SYNCED_LOOP: Final = loop("k", _GROUPS, GRID_SYNC)
_grid_case("V222", "an f32 limit", _rounds(limit=lit(1.0, f32)), _rounds(limit=BufferLength("out")))
_grid_case("V222", "a flag in workgroup memory", _rounds(flag="sh"), _rounds(flag="out"))
_grid_case("V222", "an f32 flag", _rounds(flag="flt"), _rounds())
_grid_case("V222", "a load of the flag", _rounds(store(load("flag", lit(0)))), (_rounds(_SET), store(load("flag"))))
_grid_case("V222", "a load of another element", _rounds(store(load("flag"))), _rounds(_atomic("flag"), store(_ONE)))
_grid_case(
    "V222",
    "a copy to the flag",
    _rounds(AsyncLoad("inp", "flag", lit(0), lit(4), "t"), _WAIT),
    (AsyncLoad("inp", "flag", lit(0), lit(4), "t"), _WAIT, _rounds()),
)
_SQUARE: Final = Definition(
    "acme.square", Version(1), (Parameter("x", u32),), u32, (), Binary(BinaryOp.MUL, var("x"), var("x"))
)


_CALL: Final = Call("acme.square", (lit(2),))


def _defined(*definitions: Definition, call: Expr = _CALL) -> Program:
    return replace(_program(store(call)), definitions=definitions)


def _square(**fields: Any) -> Program:
    """A program with a defective ``acme.square``, which it does not call."""
    return _defined(replace(_SQUARE, **fields), call=lit(1))


def _definition_case(code: str, what: str, broken: Program, legal: Program | None = None) -> None:
    _CASES.append(RuleCase(code, what, broken, legal or _defined(_SQUARE)))


_QUAD: Final = replace(_SQUARE, id="acme.quad", result=Call("acme.square", (Call("acme.square", (var("x"),)),)))
_definition_case("V223", "an operation that is not defined", _defined())
_definition_case("V223", "a definition behind its caller", _defined(_QUAD, _SQUARE), _defined(_SQUARE, _QUAD))
_definition_case("V223", "a definition that calls itself", _square(result=Call("acme.square", (var("x"),))))
_definition_case("V224", "too many arguments", _defined(_SQUARE, call=Call("acme.square", (lit(1), lit(2)))))
_definition_case("V224", "an f32 argument", _defined(_SQUARE, call=Call("acme.square", (lit(1.0, f32),))))
_definition_case("V225", "an id without a dot", _square(id="square"))
_definition_case("V225", "an id twice", _defined(_SQUARE, _SQUARE))
_definition_case("V225", "two parameters of one name", _square(parameters=(Parameter("x", u32),) * 2))
_definition_case("V225", "a u8 parameter", _square(parameters=(Parameter("x", u8),)))
_definition_case("V225", "a u8 result", _square(result_type=u8))
_definition_case("V225", "a result of another type", _square(result_type=f32))
_definition_case("V225", "an assigned parameter", _square(body=(Assign("x", _ONE),)))
_definition_case("V225", "a store", _square(body=(store(_ONE),)))
_definition_case("V225", "a return", _square(body=(Return(),)))
_definition_case("V225", "a load", _square(result=load("out")))
_definition_case("V225", "a launch id", _square(result=LaunchId(IdKind.LOCAL, 0)))
_definition_case("V107", "an undeclared local in a definition", _square(result=var("y")))
_definition_case("V130", "a sum of two types in a definition", _square(result=Binary(BinaryOp.ADD, var("x"), TRUE)))


def _doubling(levels: int) -> tuple[Definition, ...]:
    """Definitions of which each calls the one before twice."""
    found = [_SQUARE]
    for level in range(levels):
        inner = Call(found[-1].id, (var("x"),))
        found.append(replace(_SQUARE, id=f"acme.d{level}", result=Binary(BinaryOp.ADD, inner, inner)))
    return tuple(found)


def _nested_definitions(levels: int) -> tuple[Definition, ...]:
    """Definitions of which each calls the one before inside a branch."""
    found = [_SQUARE]
    for level in range(levels):
        branch = If(equal(var("x"), _ONE), (Assign("t", Call(found[-1].id, (var("x"),))),))
        found.append(replace(_SQUARE, id=f"acme.d{level}", body=(Let("t", _ONE), branch), result=var("t")))
    return tuple(found)


_definition_case(
    "V226",
    "more nodes than a program may have",
    _defined(*_doubling(20), call=Call("acme.d19", (_ONE,))),
    _defined(*_doubling(6), call=Call("acme.d5", (_ONE,))),
)
_definition_case(
    "V226",
    "more nesting than a program may have",
    _defined(*_nested_definitions(70), call=Call("acme.d69", (_ONE,))),
    _defined(*_nested_definitions(60), call=Call("acme.d59", (_ONE,))),
)
_grid_case("V111", "an unknown flag", _rounds(flag="none"), _rounds())
_grid_case("V112", "a read-only flag", _rounds(flag="inp"), _rounds())
_grid_case("V207", "in an if", when(TRUE, _rounds()), Region("g", (_rounds(),)))
_grid_case("V207", "in a loop", loop("k", _ONE, _rounds()), loop("k", _ONE))
_grid_case(
    "V207",
    "in a grid loop",
    _rounds(GridLoop("inner", _ONE, "out", ())),
    (_rounds(), GridLoop("again", _ONE, "out", ())),
)
_grid_case("V207", "a limit by lane", _rounds(limit=LID), _rounds(limit=load("inp", _ONE)))
_grid_case("V207", "a limit by workgroup", _rounds(limit=WGID), _rounds(limit=LaunchId(IdKind.NUM_GROUPS, 0)))
_grid_case("V207", "a limit from written memory", _rounds(limit=load("out", _ONE)), _rounds())
_grid_case("V207", "a barrier by workgroup", _rounds(when(UNIFORM, GRID_SYNC)), _rounds(_SYNCED))
_grid_case("V207", "a barrier under a condition outside", (_SYNCED, _rounds()), _rounds(_SYNCED))
_grid_case("V207", "a barrier in a loop by workgroup", _rounds(loop("k", WGID, GRID_SYNC)), _rounds(_SYNCED_LOOP))
_grid_case("V207", "a barrier in a loop outside", (_rounds(), _SYNCED_LOOP), _rounds(_SYNCED_LOOP))
_grid_case(
    "V207",
    "a barrier in a loop in a branch",
    _rounds(when(equal(_GROUPS, _ONE), _SYNCED_LOOP)),
    _rounds(loop("k", _GROUPS, when(equal(_GROUPS, _ONE), GRID_SYNC))),
)
_grid_case(
    "V207",
    "a loop with a barrier that is left",
    _rounds(loop("k", _ONE, GRID_SYNC, when(equal(_GROUPS, _ONE), Break()))),
    _rounds(loop("k", _ONE, GRID_SYNC, loop("q", _ONE, Break()))),
)
_grid_case(
    "V208",
    "a variable that a loop with a barrier changes",
    _rounds(Let("x", LID), loop("k", _ONE, GRID_SYNC, Assign("x", _ONE))),
    _rounds(loop("k", _ONE, GRID_SYNC, Let("x", LID), Assign("x", _ONE))),
)
_grid_case(
    "V209",
    "memory in a loop with a barrier",
    _rounds(loop("k", _ONE, GRID_SYNC, store(_ONE, "sh"))),
    _rounds(loop("k", _ONE, GRID_SYNC), store(_ONE, "sh")),
)
_grid_case(
    "V208",
    "a variable that a round changes",
    (Let("x", LID), _rounds(Assign("x", _ONE))),
    (Let("x", LID), _rounds(Let("y", _X), Assign("y", _ONE))),
)
_grid_case(
    "V208",
    "a load that lives into a round",
    (Let("x", load("out")), _rounds(store(_X))),
    (Let("x", load("inp")), _rounds(store(_X))),
)
_grid_case(
    "V208",
    "a condition around a barrier",
    _rounds(Let("x", LaunchId(IdKind.NUM_GROUPS, 0)), Assign("x", _ONE), when(equal(_X, _ONE), GRID_SYNC)),
    _rounds(Let("x", LaunchId(IdKind.NUM_GROUPS, 0)), when(equal(_X, _ONE), GRID_SYNC)),
)
_grid_case(
    "V209",
    "memory before and in a round",
    (store(_ONE, "sh"), _rounds(store(_ONE, "sh"))),
    _rounds(store(_ONE, "sh"), store(load("sh"))),
)
_grid_case(
    "V209",
    "memory in two parts of a round",
    _rounds(store(_ONE, "own"), GRID_SYNC, store(_ONE, "own")),
    _rounds(store(_ONE, "own"), GRID_SYNC),
)
_grid_case("V210", "a return in a round", _rounds(when(DIVERGENT, Return())), (_rounds(), when(DIVERGENT, Return())))
_grid_case("V210", "a trap in a round", _rounds(Trap(_ONE, "t")), (_rounds(), Trap(_ONE, "t")))
_grid_case("V210", "a return before", (when(DIVERGENT, Return()), _rounds()), _rounds())
_grid_case("V205", "a break of the grid loop", _rounds(Break()), _rounds(loop("k", _ONE, Break())))
_grid_case("V205", "a continue of the grid loop", _rounds(Continue()), _rounds(loop("k", _ONE, Continue())))
_grid_case("V107", "the rounds in the body", _rounds(store(var("rounds"))), (_rounds(), store(var("rounds"))))
_grid_case("V011", "assigned rounds", (_rounds(), Assign("rounds", _ONE)), _rounds(Let("rounds", _ONE)))
_grid_case("V032", "a name declared twice", (Let("rounds", LID), _rounds()), (Block((Let("rounds", LID),)), _rounds()))
_grid_case(
    "V122",
    "a copy that is pending at the end of a round",
    (_rounds(_COPY), _WAIT),
    (_rounds(_COPY, _WAIT), _COPY, _WAIT),
)
_grid_case("V122", "a copy that is pending at its start", (_COPY, _rounds(), _WAIT), (_COPY, _WAIT, _rounds()))
_grid_case(
    "V123",
    "a load behind an atomic",
    _rounds(_atomic(), store(load("out"))),
    (Block((_atomic(),)), _rounds(_atomic()), store(load("out"))),
)

# Scopes and types.
_case("V115", "a second link", _chain(TRUE, LID), _chain(TRUE, UNIFORM))
_case("V107", "a local of another arm", _switch(LID, (Let("x", LID),), (store(_X),)), _switch(LID, (_READ,), (_READ,)))
_case("V205", "in an arm", _switch(LID, (Break(),)), loop("k", lit(2), _switch(LID, (Break(),))))
_case("V027", "an f32 index", _atomic(index=lit(0.0, f32)), _atomic(index=lit(0, i64)))
_case("V027", "a bool index", _atomic(index=TRUE), _atomic(index=lit(0, i32)))
_case("V114", "a float index of a load", Let("x", load("inp", lit(0.0, f64))), Let("x", load("inp", lit(0, u64))))
_case("V114", "a bool index of a store", store(_ONE, index=TRUE), store(_ONE, index=lit(0, i32)))
_case("V116", "bool bounds", loop("k", TRUE, start=TRUE, step=TRUE), loop("k", lit(2)))
_case(
    "V116",
    "a step of another type",
    loop("k", lit(2, i64), start=lit(0, i64), step=lit(1, i32)),
    loop("k", lit(-2, i64), start=lit(0, i64), step=lit(-1, i64)),
)
_case(
    "V113",
    "the variable of a loop over i32",
    loop("k", lit(2, i32), store(var("k")), start=lit(0, i32), step=lit(1, i32)),
    loop("k", lit(2), store(var("k"))),
)
_case(
    "V206",
    "i64",
    loop("k", lit(2, i64), start=lit(0, i64), step=lit(0, i64)),
    loop("k", lit(2, i64), start=lit(0, i64), step=lit(-1, i64)),
)
_case(
    "V036",
    "a negative index",
    store(_ONE, "own", lit(-1, i32)),
    store(_ONE, "own", lit(7, i32)),
)
_case("V036", "an index of 2^32", store(_ONE, index=lit(1 << 32, u64)), store(_ONE, index=lit((1 << 32) - 2, u64)))
_case("V221", "an f32 selector", _switch(lit(1.0, f32)), _switch(lit(1, i64)))
_case("V221", "an arm without labels", _labelled(), _labelled(_ONE))
_case("V221", "a label of another type", _labelled(lit(1, i32)), _labelled(lit(1, i32), selector=lit(0, i32)))
_case("V221", "a label twice in an arm", _labelled(_ONE, _ONE), _labelled(_ONE, lit(2)))
_case(
    "V221",
    "a label in two arms",
    Switch(LID, (Arm((_ONE,), ()), Arm((lit(2), _ONE), ()))),
    Switch(LID, (Arm((_ONE,), ()), Arm((lit(2),), ()))),
)
_case("V219", "narrow to f32", Let("x", Narrow(f32, lit(1.0, f32))), Let("x", Narrow(f16, lit(1.0, f32))))
_case("V219", "narrow of a u32 to i8", Let("x", Narrow(i8, _ONE)), Let("x", Narrow(u8, _ONE)))
_case("V219", "pack of an f64", Let("x", Pack(f16, lit(1.0, f64))), Let("x", Pack(f16, lit(1.0, f32))))
_case("V219", "pack to bool8", Let("x", Pack(ScalarType.BOOL8, TRUE)), Let("x", Pack(u16, _ONE)))
_case("V219", "unpack of an i32", Let("x", Unpack(i8, lit(1, i32))), Let("x", Unpack(i8, _ONE)))
_case("V219", "unpack to u32", Let("x", Unpack(u32, _ONE)), Let("x", Unpack(u16, _ONE)))
_case("V219", "wrapping cast of an integer", Let("x", WrapCast(u32, _ONE)), Let("x", WrapCast(u32, lit(1.0, f64))))
_case(
    "V219", "wrapping cast to a float", Let("x", WrapCast(f64, lit(1.0, f32))), Let("x", WrapCast(i64, lit(1.0, f32)))
)

# Private memory.
_case("V105", "private memory", _private(0), _private(1))
_case("V214", "an atomic on private memory", _atomic("own"), _atomic("sh"))
_case(
    "V214",
    "a copy to private memory",
    _kernel(AsyncLoad("inp", "own", lit(0), lit(4), "t"), _WAIT),
    _kernel(AsyncLoad("inp", "sh", lit(0), lit(4), "t"), _WAIT),
)
_case(
    "V214",
    "a copy from private memory",
    _kernel(AsyncLoad("own", "out", lit(0), lit(4), "t"), _WAIT),
    _kernel(_COPY, _WAIT),
)
_case(
    "V214",
    "the count of private memory",
    kernel(buffers=(*_WITH_OWN, Buffer.make("b", 7, Access.READ_WRITE, u32, is_output=True, like="own"))),
    kernel(buffers=(*_WITH_OWN, Buffer.make("b", 7, Access.READ_WRITE, u32, is_output=True, like="inp"))),
)
_case(
    "V216",
    "private memory of kind shared",
    kernel(buffers=(Buffer("p", 0, Access.PRIVATE, u32, 4, kind=MemoryKind.SHARED),)),
    _private(4),
)
_case(
    "V216",
    "storage of kind private",
    kernel(buffers=(Buffer("p", 0, Access.READ_ONLY, u32, 4, kind=MemoryKind.PRIVATE),)),
    _private(4),
)
_case("V220", "one buffer", _private(16385), _private(16384))
_case("V220", "two buffers", _private(8192, 1, element=u64), _private(8191, 1, element=u64))
_case("V103", "private memory", kernel(buffers=(SH, OWN, OWN)), kernel(buffers=(SH, OWN)))

WIDE_RULE_CASES: Final = tuple(_CASES)

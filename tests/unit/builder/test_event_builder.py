"""The event builder: the programs of ``ProgramBuilder``, refused misuse, and a cost that is linear in the events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from support.counting import at_most
from vyre import BuildError, InvalidProgram, ProgramBuilder, UnfinishedBuild, i32, u32
from vyre.gallery.basics.p01_saxpy import saxpy
from vyre.gallery.basics.p04_histogram import histogram
from vyre.gallery.basics.p05_scan import scan
from vyre.gallery.basics.p25_async_copy import async_copy
from vyre.ir import (
    Access,
    Arm,
    Atomic,
    AtomicOp,
    Barrier,
    Binary,
    BinaryOp,
    Block,
    Break,
    Buffer,
    BufferLength,
    Continue,
    EventBuilder,
    Expr,
    Fma,
    IdKind,
    If,
    LaunchId,
    Let,
    Literal,
    Load,
    Loop,
    MemoryKind,
    Ordering,
    Program,
    Region,
    Return,
    ScalarType,
    SourceLocation,
    Store,
    Switch,
    Trap,
    Var,
    if_chain,
    validate,
)

U32: Final = ScalarType.U32
I32: Final = ScalarType.I32
F32: Final = ScalarType.F32
GLOBAL: Final = LaunchId(IdKind.GLOBAL, 0)
YES: Final = Literal.of(ScalarType.BOOL, True)


def word(value: int) -> Literal:
    return Literal.of(U32, value)


def signed(value: int) -> Literal:
    return Literal.of(I32, value)


def fused(op: BinaryOp, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right)


def saxpy_events() -> Program:
    b = EventBuilder("saxpy", workgroup=256)
    b.buffer("a", F32, Access.UNIFORM, 1)
    b.buffer("x", F32, count=1000)
    b.buffer("y", F32, Access.READ_WRITE, 1000)
    i = Var("i")
    b.let("i", GLOBAL)
    b.if_(fused(BinaryOp.LT, i, BufferLength("y")))
    b.store("y", i, Fma(Load("a", word(0)), Load("x", i), Load("y", i)))
    b.close()
    return b.build()


def histogram_events() -> Program:
    b = EventBuilder("histogram", workgroup=64)
    b.buffer("words", U32, count=300)
    b.buffer("hist", U32, Access.READ_WRITE, 256)
    b.let("i", GLOBAL)
    b.if_(fused(BinaryOp.LT, Var("i"), BufferLength("words")))
    b.let("word", Load("words", Var("i")))
    b.for_("b", word(0), word(4))
    shifted = fused(BinaryOp.SHR, Var("word"), fused(BinaryOp.MUL, Var("b"), word(8)))
    b.let("byte", fused(BinaryOp.BIT_AND, shifted, word(255)))
    b.let("old", Atomic(AtomicOp.ADD, "hist", Var("byte"), None, word(1)))
    b.close()
    b.close()
    return b.build()


def scan_events() -> Program:
    b = EventBuilder("scan", workgroup=256)
    b.buffer("data", U32, count=256)
    b.buffer("out", U32, Access.READ_WRITE, 256, is_output=True)
    b.buffer("a", U32, Access.WORKGROUP, 256)
    b.buffer("b", U32, Access.WORKGROUP, 256)
    lane, d = Var("lane"), Var("d")
    b.let("lane", LaunchId(IdKind.LOCAL, 0))
    b.store("a", lane, Load("data", lane))
    b.barrier()
    b.for_("k", word(0), word(8))
    b.let("d", fused(BinaryOp.SHL, word(1), Var("k")))
    b.if_(fused(BinaryOp.GE, lane, d))
    b.store("b", lane, fused(BinaryOp.ADD, Load("a", lane), Load("a", fused(BinaryOp.SUB, lane, d))))
    b.else_()
    b.store("b", lane, Load("a", lane))
    b.close()
    b.barrier()
    b.store("a", lane, Load("b", lane))
    b.barrier()
    b.close()
    b.store("out", lane, Load("a", lane))
    return b.build()


def async_copy_events() -> Program:
    b = EventBuilder("async_copy", workgroup=1)
    b.buffer("src", U32, count=8)
    b.buffer("dst", U32, Access.READ_WRITE, 4, is_output=True)
    b.async_load("src", "dst", offset=word(8), size=word(16), tag="copy")
    b.store("dst", word(0), word(0xDEADBEEF))
    b.async_wait("copy")
    b.store("dst", word(3), word(7))
    return b.build()


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        (saxpy_events, saxpy),
        (histogram_events, lambda: histogram.program),
        (scan_events, lambda: scan.program),
        (async_copy_events, async_copy),
    ],
    ids=["saxpy", "histogram", "scan", "async_copy"],
)
def test_events_make_the_program_of_the_calls(events: Callable[[], Program], calls: Callable[[], Program]) -> None:
    assert events().digest == calls().digest
    assert events().to_text() == calls().to_text()


def test_parameters_orderings_and_ends_of_lanes_are_those_of_the_calls() -> None:
    with ProgramBuilder("rest", workgroup=(8, 4)) as p:
        k = p.param("k", u32)
        y = p.inout("y", u32)
        p.grid_sync()
        with p.region("part"), p.block(), p.for_(0, 9, 3) as j:
            with p.if_(j == k):
                p.break_()
            with p.if_(j > 5):
                p.continue_()
            n = p.var(1, "n")
            n.assign(2)
            y[0] = n
        with p.if_(k == 3):
            p.trap(k, "three")
        with p.if_(k == 4):
            p.return_()
    b = EventBuilder("rest", workgroup=(8, 4))
    b.buffer("k", U32, Access.UNIFORM, 1, kind=MemoryKind.PUSH)
    b.buffer("y", U32, Access.READ_WRITE)
    parameter, count = Load("k", word(0)), Var("k_1")
    b.barrier(Ordering.GRID_SYNC)
    b.region("part")
    b.block()
    b.for_("k_1", word(0), word(9), word(3))
    b.if_(fused(BinaryOp.EQ, count, parameter))
    b.break_()
    b.close()
    b.if_(fused(BinaryOp.GT, count, word(5)))
    b.continue_()
    b.close()
    b.let("n", word(1))
    b.assign("n", word(2))
    b.store("y", word(0), Var("n"))
    for _ in range(3):
        b.close()
    b.if_(fused(BinaryOp.EQ, parameter, word(3)))
    b.trap(parameter, "three")
    b.close()
    b.if_(fused(BinaryOp.EQ, parameter, word(4)))
    b.return_()
    b.close()
    program = b.build()
    assert program.to_text() == p.build().to_text()
    assert program.digest == p.build().digest


def test_chains_switches_and_private_memory_are_those_of_the_calls() -> None:
    with ProgramBuilder("wide", workgroup=8) as p:
        x, y = p.input("x", i32), p.inout("y", i32)
        stack = p.array("stack", i32, 16)
        i = p.let(p.global_id(), "i")
        with p.for_(10, -1, -3, name="k") as k:
            stack[k] = x[i]
        with p.if_(x[i] > 5):
            y[i] = 1
        with p.elif_(x[i] > 3):
            y[i] = 2
        with p.elif_(x[i] > 1):
            pass
        with p.else_():
            y[i] = 3
        with p.switch(x[i]) as s:
            with s.case(1, -2):
                y[i] = stack[1]
            with s.case(7):
                p.return_()
            with s.default(), p.if_(x[i] > 5):
                y[i] = 4
    b = EventBuilder("wide", workgroup=8)
    b.buffer("x", I32)
    b.buffer("y", I32, Access.READ_WRITE)
    b.buffer("stack", I32, Access.PRIVATE, 16)
    lane, read = Var("i"), Load("x", Var("i"))
    b.let("i", GLOBAL)
    b.for_("k", signed(10), signed(-1), signed(-3))
    b.store("stack", Var("k"), read)
    b.close()
    b.if_(fused(BinaryOp.GT, read, signed(5)))
    b.store("y", lane, signed(1))
    b.elif_(fused(BinaryOp.GT, read, signed(3)))
    b.store("y", lane, signed(2))
    b.elif_(fused(BinaryOp.GT, read, signed(1)))
    b.else_()
    b.store("y", lane, signed(3))
    b.close()
    b.switch(read)
    b.case(signed(1), signed(-2))
    b.store("y", lane, Load("stack", word(1)))
    b.case(signed(7))
    b.return_()
    b.default()
    b.if_(fused(BinaryOp.GT, read, signed(5)))
    b.store("y", lane, signed(4))
    b.close()
    b.close()
    program = b.build()
    assert program.to_text() == p.build().to_text()
    assert program == p.build()
    assert [(buffer.name, buffer.binding) for buffer in program.buffers] == [("x", 0), ("y", 1), ("stack", 0)]


def test_a_switch_becomes_the_statement_that_close_returns() -> None:
    at, arm = SourceLocation("k.src", 7), SourceLocation("k.src", 8)
    b = EventBuilder(workgroup=1)
    for arms in range(3):
        for has_default in (False, True):
            b.switch(GLOBAL, loc=at)
            assert b.depth == 1
            for label in range(arms):
                b.case(word(label), loc=arm)
                b.trap(word(label), "t")
            if has_default:
                b.default()
                b.return_()
            switch = b.close()
            assert switch == Switch(
                GLOBAL,
                tuple(Arm((word(label),), (Trap(word(label), "t"),)) for label in range(arms)),
                (Return(),) if has_default else (),
            )
            assert isinstance(switch, Switch)
            assert (switch.loc, [made.loc for made in switch.arms]) == (at, [arm] * arms)


def test_the_links_of_a_chain_know_their_positions() -> None:
    b = EventBuilder(workgroup=1)
    b.if_(YES, loc=SourceLocation("k.src", 1))
    b.elif_(YES, loc=SourceLocation("k.src", 2))
    b.elif_(YES)
    chain = b.close()
    assert isinstance(chain, If)
    assert [link.loc and link.loc.line for link in if_chain(chain)[0]] == [1, 2, None]


def test_a_body_becomes_the_statement_that_close_returns() -> None:
    at = SourceLocation("k.src", 7)
    b = EventBuilder(workgroup=1, loc=at)
    b.block(loc=at)
    b.region("part", "k.src", loc=at)
    b.if_(YES, loc=at)
    b.return_(loc=at)
    b.else_()
    b.for_("k", word(0), word(2), loc=at)
    b.break_(loc=at)
    assert b.depth == 4
    loop = b.close()
    assert loop == Loop("k", word(0), word(2), word(1), (Break(),))
    branch = b.close()
    assert branch == If(YES, (Return(),), (loop,))
    region = b.close()
    assert region == Region("part", (branch,), "k.src")
    block = b.close()
    assert block == Block((region,))
    assert [made.loc for made in (loop, branch, region, block)] == [at] * 4
    program = b.build()
    assert (program.body, program.loc, program.name, b.depth) == ((block,), at, None, 0)


def test_finished_statements_are_appended_as_they_are() -> None:
    b = EventBuilder(workgroup=1)
    stmt = Block((Let("n", word(1)), Continue(), Barrier()))
    b.for_("k", word(0), word(1))
    b.append(stmt)
    loop = b.close()
    assert isinstance(loop, Loop)
    assert loop.body[0] is stmt


def test_binding_numbers_ascend_from_those_that_were_declared() -> None:
    b = EventBuilder(workgroup=1)
    declared = b.declare(Buffer.make("x", 5, Access.READ_ONLY, U32))
    shared = b.buffer("t", U32, Access.WORKGROUP, 4)
    returned = b.buffer("y", F32, Access.WRITE_ONLY, 4)
    assert b.build(check=False).buffers == (declared, shared, returned)
    assert [(buffer.name, buffer.binding, buffer.is_output) for buffer in (declared, shared, returned)] == [
        ("x", 5, False),
        ("t", 0, False),
        ("y", 6, True),
    ]


def in_loop(b: EventBuilder) -> EventBuilder:
    b.for_("k", word(0), word(2), loc=SourceLocation("k.src", 3))
    return b


def in_else(b: EventBuilder) -> EventBuilder:
    b.if_(YES)
    b.else_()
    return b


def in_switch(b: EventBuilder) -> EventBuilder:
    b.switch(GLOBAL, loc=SourceLocation("k.src", 5))
    return b


def in_case(b: EventBuilder) -> EventBuilder:
    in_switch(b).case(word(1))
    return b


def in_default(b: EventBuilder) -> EventBuilder:
    in_switch(b).default()
    return b


def built(b: EventBuilder) -> EventBuilder:
    b.build()
    return b


def refused_by_type_checkers(value: object) -> Any:
    return value


MISUSE: Final[dict[str, tuple[Callable[[Any], object], str]]] = {
    "close without open": (lambda b: b.close(), r"nothing to close: no body is open"),
    "else without open": (lambda b: b.else_(), r"else_\(\) has no `if`: no body is open"),
    "else in a loop": (lambda b: in_loop(b).else_(), r"the loop over `k` of k\.src:3 is open innermost"),
    "second else": (lambda b: in_else(b).else_(), r"the `else` is open innermost"),
    "else-if without open": (lambda b: b.elif_(YES), r"elif_\(\) has no `if`: no body is open"),
    "else-if after else": (lambda b: in_else(b).elif_(YES), r"elif_\(\) has no `if`: the `else` is open innermost"),
    "else-if in a switch": (lambda b: in_case(b).elif_(YES), r"a case of the switch of k\.src:5 is open innermost"),
    "else in a switch": (lambda b: in_switch(b).else_(), r"else_\(\) has no `if`: the switch of k\.src:5 is open"),
    "a number as else-if": (lambda b: (b.if_(YES), b.elif_(1)), r"the condition of an else-if is the number 1"),
    "case without open": (lambda b: b.case(word(1)), r"case\(\) has no switch: no body is open"),
    "case in a loop": (lambda b: in_loop(in_case(b)).case(word(2)), r"the loop over `k` of k\.src:3 is open innermost"),
    "case after default": (lambda b: in_default(b).case(word(1)), r"the default of the switch of k\.src:5 is open"),
    "second default": (lambda b: in_default(b).default(), r"default\(\) has no switch: the default of the switch"),
    "default without open": (lambda b: b.default(), r"default\(\) has no switch: no body is open"),
    "case without label": (lambda b: in_switch(b).case(), r"case\(\) has no label"),
    "a number as label": (
        lambda b: in_switch(b).case(refused_by_type_checkers(3)),
        r"a label of a case is the number 3",
    ),
    "an expression as label": (
        lambda b: in_switch(b).case(refused_by_type_checkers(GLOBAL)),
        r"a label of a case is no literal but",
    ),
    "a float as label": (lambda b: in_switch(b).case(Literal.of(F32, 1.0)), r"a label of a case is f32"),
    "a label twice": (lambda b: in_case(b).case(word(2), word(1)), r"stands in the switch twice"),
    "a label twice in one arm": (lambda b: in_switch(b).case(word(2), word(2)), r"stands in the switch twice"),
    "a statement before the first case": (lambda b: in_switch(b).return_(), r"a statement stands in the switch of k\."),
    "a body before the first case": (lambda b: in_switch(b).block(), r"before its first case"),
    "a number as selector": (lambda b: b.switch(3), r"the selector of a switch is the number 3"),
    "late switch": (lambda b: built(b).switch(GLOBAL), r"built already"),
    "late case": (lambda b: built(b).case(word(1)), r"built already"),
    "late else-if": (lambda b: built(b).elif_(YES), r"built already"),
    "private memory without count": (lambda b: b.buffer("z", U32, Access.PRIVATE), r"the count of `z` is None"),
    "late statement": (lambda b: built(b).return_(), r"built already"),
    "late body": (lambda b: built(b).if_(YES), r"built already"),
    "late buffer": (lambda b: built(b).buffer("z", U32), r"built already"),
    "late close": (lambda b: built(b).close(), r"built already"),
    "late else": (lambda b: built(b).else_(), r"built already"),
    "a number as operand": (lambda b: b.let("n", 5), r"the value of a let is the number 5"),
    "a bool as condition": (lambda b: b.if_(True), r"the condition of an if is the number True"),
    "text as operand": (lambda b: b.store("y", word(0), "n"), r"the value of a store is no expression but 'n'"),
    "a value of the other builder": (lambda b: b.assign("n", u32(5)), r"a value of a ProgramBuilder"),
    "a statement as operand": (lambda b: b.trap(Return(), "t"), r"the address of a trap is no expression"),
    "nothing as step": (lambda b: b.for_("k", word(0), word(1), None), r"the step of a loop is no expression"),
    "an expression as statement": (lambda b: b.append(word(1)), r"is no statement"),
    "a buffer as name": (lambda b: b.store(b.buffer("z", U32), word(0), word(0)), r"the buffer `z` is given itself"),
    "a number as local": (lambda b: b.let(3, word(1)), r"the name of a local must be a str, not 3"),
    "a number as loop variable": (lambda b: b.for_(3, word(0), word(1)), r"the variable of a loop must be a str"),
    "a number as tag": (
        lambda b: b.async_store("y", "y", offset=word(0), size=word(4), tag=3),
        r"the tag of a copy must be a str",
    ),
    "text as ordering": (lambda b: b.barrier("seq_cst"), r"ordering='seq_cst' is no memory ordering"),
    "text as buffer": (lambda b: b.declare("z"), r"'z' is no Buffer"),
    "a buffer twice": (lambda b: b.buffer("y", U32), r"there is a buffer `y` already"),
    "a foreign element type": (lambda b: b.buffer("z", "f32"), r"the element type 'f32'"),
    "a negative count": (lambda b: b.buffer("z", U32, count=-1), r"-1 elements"),
    "no workgroup": (lambda b: EventBuilder(workgroup=0), r"workgroup=0 is no workgroup size"),
    "a number as name": (lambda b: EventBuilder(3, workgroup=1), r"the name of a program must be a str"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_is_refused_with_a_fix_and_changes_nothing(case: str) -> None:
    misuse, message = MISUSE[case]
    b = EventBuilder(workgroup=1)
    b.buffer("y", U32, Access.READ_WRITE)
    with pytest.raises(BuildError, match=rf"{message}.*Fix: ") as caught:
        misuse(b)
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    while b.depth:
        b.close()
    assert not any(isinstance(stmt, Let | Store | Trap) for stmt in b.build(check=False).body)


def test_a_build_names_what_is_open_and_can_be_repeated() -> None:
    b = EventBuilder(workgroup=1)
    for _ in range(9):
        b.block()
    in_else(in_loop(b))
    with pytest.raises(
        UnfinishedBuild, match=r"11 open bodies, innermost first: the `else`, the loop over `k` of"
    ) as e:
        b.build()
    assert "the block and 3 more. Fix: call close()" in str(e.value)
    for _ in range(11):
        b.close()
    assert b.build(check=False) == b.build(check=False)


def test_a_program_that_breaks_a_rule_is_reported_with_its_position() -> None:
    def misnamed() -> EventBuilder:
        b = EventBuilder(workgroup=1)
        b.let("n", Var("m"), loc=SourceLocation("k.src", 12))
        return b

    with pytest.raises(InvalidProgram, match=r"`m`"):
        misnamed().build()
    report = validate(misnamed().build(check=False))
    assert "k.src:12" in str(report)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ((Let("n", refused_by_type_checkers(5)),), r"5 \(type int\) stands where an expression belongs"),
        (
            (Let("n", Binary(BinaryOp.ADD, word(1), refused_by_type_checkers(None))),),
            r"None \(type NoneType\) stands where an expression",
        ),
        ((If(YES, refused_by_type_checkers((word(1),))),), r"stands where a statement belongs"),
        ((If(YES, refused_by_type_checkers(Return())),), r"stands where a tuple of statements belongs"),
        ([Return()], r"stands where a tuple of statements belongs"),
    ],
)
def test_what_is_no_node_is_named_by_the_validator(body: Any, found: str) -> None:
    with pytest.raises(InvalidProgram, match=rf"{found}.*Fix: build programs of nodes of vyre\.ir"):
        validate(Program((), (1, 1, 1), body))


def calls_for(statements: int) -> int:
    """The number of calls of Python and C functions for that many statements, all in one body, and the build."""
    b = EventBuilder(workgroup=1)
    b.buffer("y", U32, Access.READ_WRITE)
    with at_most(100 * statements) as work:
        for _ in range(statements // 4):
            b.if_(YES)
            b.store("y", GLOBAL, GLOBAL)
            b.else_()
            b.return_()
            b.close()
            b.barrier()
            b.let("n", GLOBAL)
        b.build(check=False)
    return work.calls


def test_each_event_costs_the_same_however_many_came_before() -> None:
    """But for what other code of the process does meanwhile, such as callbacks of the garbage collector."""
    first, second, third = (calls_for(statements) for statements in (1000, 2000, 3000))
    assert third - second == pytest.approx(second - first, rel=0.02)


def test_each_link_and_each_arm_costs_the_same_however_many_came_before() -> None:
    def calls(links: int) -> int:
        b = EventBuilder(workgroup=1)
        with at_most(200 * links) as work:
            b.if_(YES)
            for _ in range(links):
                b.elif_(YES)
            b.close()
            b.switch(GLOBAL)
            for label in range(links):
                b.case(word(label))
            b.close()
            b.build(check=False)
        return work.calls

    first, second, third = (calls(links) for links in (500, 1000, 1500))
    assert third - second == pytest.approx(second - first, rel=0.02)


def test_a_long_stream_is_one_program() -> None:
    b = EventBuilder(workgroup=1)
    b.block()
    for _ in range(100_000):
        b.return_()
    block = b.close()
    assert isinstance(block, Block)
    assert len(block.body) == 100_000

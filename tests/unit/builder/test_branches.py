"""Chains of branches and switches: what they record, who evaluates what, and how misuse is answered."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre
from vyre import BuildError, ProgramBuilder, Value, f32, i32, i64, u32, u64
from vyre.domain.errors import UnfinishedBuild
from vyre.domain.ir.expr import Binary, Literal, Load, Var
from vyre.domain.ir.limits import MAX_STATEMENT_DEPTH
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.stmt import Arm, Assign, Break, If, Let, Loop, Return, Store, Switch, if_chain

B = BinaryOp


def lit(value: int, dtype: Any = u32) -> Literal:
    return Literal.of(dtype, value)


class Kernel:
    def __init__(self) -> None:
        self.p = ProgramBuilder("kernel", workgroup=32)
        self.x, self.y = self.p.input("x", u32), self.p.inout("y", u32)
        self.n, self.i = self.p.param("n", u32), self.p.param("i", i32)


def store(value: int) -> Store:
    return Store("y", lit(0), lit(value))


def over(value: int) -> Binary:
    return Binary(B.GT, Load("n", lit(0)), lit(value))


# -- chains -------------------------------------------------------------------------------------------------------


def test_a_chain_is_nested_ifs() -> None:
    k = Kernel()
    with k.p.if_(k.n > 9):
        k.y[0] = 9
    with k.p.elif_(k.n > 8):
        k.y[0] = 8
    with k.p.elif_(k.n > 7):
        k.y[0] = 7
    with k.p.else_():
        k.y[0] = 0
    with k.p.if_(k.n > 6):
        k.y[0] = 6
    with k.p.elif_(k.n):
        pass
    first, second = k.p.build(check=False).body
    assert first == If(over(9), (store(9),), (If(over(8), (store(8),), (If(over(7), (store(7),), (store(0),)),)),))
    assert isinstance(second, If) and isinstance(second.otherwise[0], If)
    assert (second.then, second.otherwise[0].then, second.otherwise[0].otherwise) == ((store(6),), (), ())
    lines, start = inspect.getsourcelines(test_a_chain_is_nested_ifs)
    links, otherwise = if_chain(first)  # type: ignore[arg-type]
    assert otherwise == (store(0),)
    assert [lines[link.loc.line - start].strip() for link in links if link.loc] == [
        "with k.p.if_(k.n > 9):",
        "with k.p.elif_(k.n > 8):",
        "with k.p.elif_(k.n > 7):",
    ]


def test_a_long_chain_is_no_deeper_than_one_branch() -> None:
    k = Kernel()
    with k.p.if_(k.n == 0):
        k.y[0] = 0
    for value in range(1, 10 * MAX_STATEMENT_DEPTH):
        with k.p.elif_(k.n == value):
            k.y[0] = value
    with k.p.else_():
        k.p.return_()
    program = k.p.build()
    links, otherwise = if_chain(program.body[0])  # type: ignore[arg-type]
    assert [link.then for link in links] == [(store(value),) for value in range(10 * MAX_STATEMENT_DEPTH)]
    assert otherwise == (Return(),)
    assert vyre.validate(program).ok
    for form in (vyre.Program.from_text(program.to_text()), vyre.Program.from_wire(program.to_wire())):
        assert form == program


def test_a_condition_between_the_blocks_belongs_to_its_link() -> None:
    k = Kernel()
    v = k.p.var(0, "v")
    with k.p.if_(v > 3):
        v.assign(1)
    again = v > 1  # as of now, after the first block
    with k.p.elif_(again):
        v.assign(2)
    first, chain = k.p.build(check=False).body
    assert first == Let("v", lit(0))
    assert chain == If(
        Binary(B.GT, Var("v"), lit(3)),
        (Assign("v", lit(1)),),
        (If(Binary(B.GT, Var("v"), lit(1)), (Assign("v", lit(2)),)),),
    )


def test_a_chain_inside_a_branch_is_its_own() -> None:
    k = Kernel()
    with k.p.if_(k.n > 9):
        with k.p.if_(k.n > 8):
            k.y[0] = 8
        with k.p.elif_(k.n > 7):
            k.y[0] = 7
    with k.p.elif_(k.n > 6):
        k.y[0] = 6
    inner = If(over(8), (store(8),), (If(over(7), (store(7),)),))
    assert k.p.build(check=False).body == (If(over(9), (inner,), (If(over(6), (store(6),)),)),)


def elif_without_if(k: Kernel) -> None:
    k.p.elif_(k.n > 1)


def elif_after_a_statement(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        k.y[0] = 1
    k.y[1] = 1
    with k.p.elif_(k.n > 0):
        k.y[0] = 2


def elif_after_else(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        pass
    with k.p.else_():
        pass
    with k.p.elif_(k.n > 0):
        pass


def elif_after_a_loop(k: Kernel) -> None:
    with k.p.for_(0, 3):
        pass
    with k.p.elif_(k.n > 0):
        pass


def elif_of_an_outer_if(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        pass
    with k.p.block(), k.p.elif_(k.n > 0):
        pass


def elif_with_an_atomic_in_its_condition(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        pass
    with k.p.elif_(k.y.atomic_add(0, 1) > 0):
        pass


@pytest.mark.parametrize(
    "misuse",
    [
        elif_without_if,
        elif_after_a_statement,
        elif_after_else,
        elif_after_a_loop,
        elif_of_an_outer_if,
        elif_with_an_atomic_in_its_condition,
    ],
)
def test_elif_follows_if_or_elif_directly(misuse: Callable[[Kernel], None]) -> None:
    with pytest.raises(BuildError, match=r"p\.elif_\(\) does not follow a p\.if_\(\) block.*Fix: ") as caught:
        misuse(Kernel())
    check_line(caught.value, misuse, "elif_")


def test_what_a_link_makes_ends_with_it() -> None:
    k = Kernel()
    c = k.n
    with k.p.if_(k.n > 1):
        pass
    with k.p.elif_(k.n > 0):
        c = c + 1
    with pytest.raises(BuildError, match=r"`c` made inside the p\.elif_ block"):
        k.y[0] = c


def test_a_name_that_a_link_binds_is_refused() -> None:
    k = Kernel()
    best, other = k.n, k.p.let(k.x[0])
    with k.p.if_(k.n > 1):
        pass
    with pytest.raises(BuildError, match=r"`best` is bound to another value inside the p\.elif_ block"):  # noqa: SIM117
        with k.p.elif_(k.n > 0):
            best = other
    k.y[0] = best


def test_a_link_that_was_not_entered_is_reported() -> None:
    k = Kernel()
    with k.p.if_(k.n > 1):
        pass
    k.p.elif_(k.n > 0)
    with pytest.raises(BuildError, match=r"p\.elif_\(\.\.\.\) at .* was never entered"):
        k.y[0] = 1


# -- switches -----------------------------------------------------------------------------------------------------


def test_a_switch_records_its_arms_in_order() -> None:
    k = Kernel()
    with k.p.switch(k.n + 1) as s:
        with s.case(1, 2):
            k.y[0] = 1
        with s.case(np.int64(7)):
            pass
        with s.case(u32(9)):
            k.y[0] = 9
        with s.default():
            k.y[0] = 0
    assert k.p.build().body == (
        Switch(
            Binary(B.ADD, Load("n", lit(0)), lit(1)),
            (Arm((lit(1), lit(2)), (store(1),)), Arm((lit(7),), ()), Arm((lit(9),), (store(9),))),
            (store(0),),
        ),
    )


@pytest.mark.parametrize("dtype", [u32, i32, u64, i64], ids=repr)
def test_labels_take_the_type_of_the_selector(dtype: Any) -> None:
    p = ProgramBuilder("kernel", workgroup=1)
    labels = (0, -3) if dtype.is_signed else (0, 3)
    with p.switch(p.param("x", dtype)) as s, s.case(*labels):
        p.return_()
    (switch,) = p.build().body
    assert isinstance(switch, Switch)
    assert switch.arms == (Arm(tuple(lit(label, dtype) for label in labels), (Return(),)),)
    assert switch.default == ()


def test_a_switch_may_have_a_default_only_or_nothing() -> None:
    k = Kernel()
    with k.p.switch(k.n) as s, s.default():
        k.y[0] = 1
    with k.p.switch(k.n):
        pass
    assert k.p.build().body == (
        Switch(Load("n", lit(0)), (), (store(1),)),
        Switch(Load("n", lit(0)), (), ()),
    )


def test_switches_nest_and_break_leaves_the_loop() -> None:
    k = Kernel()
    with k.p.for_(0, 4, name="r") as r, k.p.switch(r) as s:
        with s.case(1), k.p.switch(k.n) as t:
            with t.case(1):
                k.p.break_()
            with t.default():
                k.y[0] = 1
        with s.case(2), k.p.if_(k.n):
            k.y[0] = 2
        with s.default(), k.p.for_(0, 2, name="q"):
            k.p.break_()
    (loop,) = k.p.build().body
    inner = Switch(Load("n", lit(0)), (Arm((lit(1),), (Break(),)),), (store(1),))
    assert isinstance(loop, Loop) and isinstance(switch := loop.body[0], Switch)
    assert switch.arms[0] == Arm((lit(1),), (inner,))
    assert isinstance(switch.arms[1].body[0], If)
    assert switch.default == (Loop("q", lit(0), lit(2), lit(1), (Break(),)),)


def test_arms_know_their_lines() -> None:
    k = Kernel()
    with k.p.switch(k.n) as s:
        with s.case(1):
            k.p.return_()
        with s.case(2):
            k.p.return_()
    (switch,) = k.p.build().body
    assert isinstance(switch, Switch) and switch.loc is not None
    assert [arm.loc.line - switch.loc.line for arm in switch.arms if arm.loc] == [1, 3]


def statement_between_arms(k: Kernel) -> None:
    with k.p.switch(k.n) as s:
        with s.case(1):
            pass
        k.y[0] = 1


def block_between_arms(k: Kernel) -> None:
    with k.p.switch(k.n) as s:
        with s.case(1):
            pass
        with k.p.if_(k.n > 1):
            pass


def local_between_arms(k: Kernel) -> None:
    with k.p.switch(k.n):
        k.p.let(k.n)


def atomic_between_arms(k: Kernel) -> None:
    with k.p.switch(k.n):
        k.y.atomic_add(0, 1)


def case_after_default(k: Kernel) -> None:
    with k.p.switch(k.n) as s:
        with s.default():
            pass
        with s.case(1):
            pass


def second_default(k: Kernel) -> None:
    with k.p.switch(k.n) as s:
        with s.default():
            pass
        with s.default():
            pass


def duplicate_label(k: Kernel) -> None:
    with k.p.switch(k.n) as s:
        with s.case(1, 2):
            pass
        with s.case(3, 2):
            pass


def duplicate_label_in_one_arm(k: Kernel) -> None:
    with k.p.switch(k.i) as s, s.case(-1, 2, -1):
        pass


def float_selector(k: Kernel) -> None:
    k.p.switch(k.n.cast(f32))


def bool_selector(k: Kernel) -> None:
    k.p.switch(k.n > 1)


def label_of_another_type(k: Kernel) -> None:
    with k.p.switch(k.n) as s, s.case(i32(1)):
        pass


def label_out_of_range(k: Kernel) -> None:
    with k.p.switch(k.n) as s, s.case(-1):
        pass


def float_label(k: Kernel) -> None:
    with k.p.switch(k.n) as s, s.case(1.0):
        pass


def label_that_is_no_constant(k: Kernel) -> None:
    with k.p.switch(k.n) as s, s.case(k.x[0]):
        pass


def no_label(k: Kernel) -> None:
    with k.p.switch(k.n) as s, s.case():
        pass


def case_in_an_arm(k: Kernel) -> None:
    with k.p.switch(k.n) as s, s.case(1), s.case(2):
        pass


def case_of_the_outer_switch(k: Kernel) -> None:
    with k.p.switch(k.n) as s, s.case(1), k.p.switch(k.n):
        s.case(2)


def case_after_the_switch(k: Kernel) -> None:
    with k.p.switch(k.n) as s:
        pass
    s.case(1)


def arm_that_is_not_entered(k: Kernel) -> None:
    with k.p.switch(k.n) as s:
        s.case(1)
        with s.case(2):
            pass


MISUSE: list[tuple[Callable[[Kernel], None], str, str]] = [
    (statement_between_arms, "between the arms of a p.switch block", "k.y[0] = 1"),
    (block_between_arms, "between the arms of a p.switch block", "k.p.if_"),
    (local_between_arms, "between the arms of a p.switch block", "k.p.let"),
    (atomic_between_arms, "between the arms of a p.switch block", "atomic_add"),
    (case_after_default, "s.case(...) follows s.default()", "s.case(1)"),
    (second_default, "s.default(...) follows s.default()", "s.default()"),
    (duplicate_label, "the label 2 stands in the switch twice", "s.case(3, 2)"),
    (duplicate_label_in_one_arm, "the label -1 stands in the switch twice", "s.case(-1"),
    (float_selector, "`switch` is not defined for f32", "k.p.switch"),
    (bool_selector, "`switch` is not defined for bool", "k.p.switch"),
    (label_of_another_type, "a label of a p.switch must be u32, not i32", "s.case"),
    (label_out_of_range, "a label of a p.switch must be u32: -1 does not fit u32", "s.case"),
    (float_label, "a label of a p.switch must be u32: 1.0 is no integer", "s.case"),
    (label_that_is_no_constant, "a label of a p.switch is no constant", "s.case"),
    (no_label, "s.case() has no label", "s.case"),
    (case_in_an_arm, "s.case(...) is used inside another block", "s.case(2)"),
    (case_of_the_outer_switch, "s.case(...) is used inside another block", "s.case(2)"),
    (case_after_the_switch, "s.case(...) is used outside its p.switch block", "s.case(1)"),
    (arm_that_is_not_entered, "was never entered", "s.case(2)"),
]


@pytest.mark.parametrize(("misuse", "message", "line"), MISUSE)
def test_misuse_of_a_switch(misuse: Callable[[Kernel], None], message: str, line: str) -> None:
    with pytest.raises(BuildError) as caught:
        misuse(Kernel())
    assert message in str(caught.value) and "Fix: " in str(caught.value)
    check_line(caught.value, misuse, line)


def check_line(error: BuildError, misuse: Callable[[Kernel], None], text: str) -> None:
    assert error.loc is not None and error.loc.file == __file__
    lines, first = inspect.getsourcelines(misuse)
    assert text in lines[error.loc.line - first]


def test_a_build_after_a_failed_arm_is_refused() -> None:
    k = Kernel()
    with pytest.raises(ZeroDivisionError), k.p.switch(k.n) as s, s.case(1):
        _ = 1 / 0
    with pytest.raises(UnfinishedBuild):
        k.p.build(check=False)


def test_what_an_arm_makes_ends_with_it() -> None:
    k = Kernel()
    c: Value = k.n
    with k.p.switch(k.n) as s:
        with s.case(1):
            c = c + 1
        with s.case(2), pytest.raises(BuildError, match=r"`c` made inside the s\.case block"):
            k.y[0] = c


def test_a_selector_is_read_where_the_switch_begins() -> None:
    k = Kernel()
    v = k.p.var(0)
    selector = v + 1
    v.assign(1)
    with pytest.raises(BuildError, match="may have changed"):
        k.p.switch(selector)


# -- what they compute ----------------------------------------------------------------------------------------------


def ran(p: ProgramBuilder, x: np.ndarray[Any, Any]) -> list[int]:
    answers = []
    for backend in ("reference", "reference-scalar"):
        with vyre.open(backend) as session:
            answers.append(session.dispatch(p.build(), {"x": x})["y"].tolist())
    assert answers[0] == answers[1]
    return answers[0]  # type: ignore[no-any-return]


def test_a_chain_computes_what_python_does() -> None:
    """Each link changes what the conditions of later links read; only lanes that took no branch see these."""
    x = np.arange(64, dtype=np.uint32)
    with ProgramBuilder("chain", workgroup=32) as p:
        i = p.global_id()
        y = p.output("y", u32, like=p.input("x", u32))
        v = p.var(i % 7)
        with p.if_(v == 0):
            v.assign(5)
        with p.elif_(v < 3):
            v += 10
        with p.elif_((v == 5) | (v > 9)):
            v += 100
        with p.else_():
            v += 1000
        y[i] = v

    def scalar(v: int) -> int:
        if v == 0:
            return 5
        if v < 3:
            return v + 10
        if v == 5 or v > 9:
            return v + 100
        return v + 1000

    assert ran(p, x) == [scalar(int(n) % 7) for n in x]


def test_a_switch_computes_what_python_does() -> None:
    x = np.array([0, 1, 2, 3, -1, 7, -(1 << 31), (1 << 31) - 1] * 8, np.int32)
    with ProgramBuilder("switch", workgroup=32) as p:
        i, data = p.global_id(), p.input("x", i32)
        y, v = p.output("y", i32, like=data), p.var(i32(0))
        with p.for_(0, 3) as k, p.switch(data[i]) as s:
            with s.case(1, -1):
                v += 1
            with s.case(2):
                p.break_()
            with s.case(-(1 << 31)):
                v += 5
                with p.if_(k == 1):
                    p.continue_()
                v += 5
            with s.default():
                v -= 1
        y[i] = v
    results = {1: 3, -1: 3, 2: 0, -(1 << 31): 25}
    assert ran(p, x) == [results.get(int(n), -3) for n in x]

"""Every misuse of the builder is a ``BuildError`` that names the user's line and a fix."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import vyre
from vyre import BuildError, ProgramBuilder, Value, f32, f64, i32, u8, u32, u64
from vyre.domain.ir.types import ReservedType


class Kernel:
    def __init__(self) -> None:
        self.p = ProgramBuilder("kernel", workgroup=32)
        self.x = self.p.input("x", u32)
        self.u = self.p.inout("u", u32)
        self.f = self.p.inout("f", f32)
        self.n = self.p.param("n", u32)


def reading_an_old_value(k: Kernel) -> None:
    old = k.u[0]
    k.u[1] = 5
    k.f[0] = old.cast(f32)


def reading_an_old_variable(k: Kernel) -> None:
    v = k.p.var(1)
    old = v + 1
    v += 1
    k.u[0] = old


def swapping_without_let(k: Kernel) -> None:
    a, b = k.u[0], k.u[1]
    k.u[0] = b
    k.u[1] = a


def reading_across_an_atomic(k: Kernel) -> None:
    old = k.u[0]
    k.u.atomic_add(0, 1)
    k.p.let(old)


def reading_across_a_barrier(k: Kernel) -> None:
    s = k.p.workgroup("s", u32, 32)
    old = s[0]
    k.p.barrier()
    k.u[0] = old


def reading_across_a_copy(k: Kernel) -> None:
    old = k.u[0]
    k.p.async_load(k.x, k.u, offset=0, size=4, tag="copy")
    k.p.async_wait("copy")
    k.p.let(old)


def changing_in_a_loop_what_came_from_before_it(k: Kernel) -> None:
    old = k.u[0]
    with k.p.for_(0, 3) as i:
        k.u[i] = old


def leaking_out_of_a_block(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        inner = k.p.let(k.n + 1)
    k.u[0] = inner


def leaking_a_loop_variable(k: Kernel) -> None:
    with k.p.for_(0, 3) as i:
        pass
    k.u[0] = i


def assigning_a_leaked_variable(k: Kernel) -> None:
    with k.p.block():
        v = k.p.var(0)
    v.assign(1)


def forgetting_with(k: Kernel) -> None:
    k.p.if_(k.n > 1)
    k.u[0] = 1


def entering_late(k: Kernel) -> None:
    block = k.p.block()
    with block:
        pass
    with block:
        pass


def two_elses(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        pass
    with k.p.else_():
        pass
    with k.p.else_():
        pass


def else_after_a_statement(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        pass
    k.u[0] = 1
    with k.p.else_():
        pass


def else_of_an_outer_if(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        pass
    with k.p.block(), k.p.else_():
        pass


def building_inside_a_block(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        k.p.build()


def recording_after_the_end(k: Kernel) -> None:
    with k.p:
        pass
    k.u[0] = 1


def declaring_after_the_end(k: Kernel) -> None:
    with k.p:
        pass
    k.p.input("late", u32)


def chained_comparison(k: Kernel) -> object:
    return 0 < k.n < 5


def same_spec_twice(k: Kernel) -> None:
    k.p.spec("s", 1)
    k.p.spec("s", 2)


def a_condition_that_wants_arguments(k: Kernel) -> None:
    with k.p.while_(k.u.atomic_add):  # type: ignore[arg-type]
        pass


CASES: list[tuple[Callable[[Kernel], object], str]] = [
    (lambda k: k.n + k.f[0], "`+` mixes u32 and f32"),
    (lambda k: k.n << i32(1), "the right operand must be u32 or the type of the left operand"),
    (lambda k: k.f[0] % 2, "`%` is not defined for f32"),
    (lambda k: k.f[0] & 1, "`&` is not defined for f32"),
    (lambda k: -(k.n > 1), "`neg` is not defined for bool"),
    (lambda k: i32(5) // 2, "the i32 quotient is not rounded down"),
    (lambda k: k.f[0] // 2, "the f32 quotient is not rounded down"),
    (lambda k: k.n + 1.5, "1.5 is no integer"),
    (lambda k: k.n - (-1), "-1 does not fit u32"),
    (lambda k: k.n + (1 << 32), "4294967296 does not fit u32"),
    (lambda k: k.f[0] + 1e39, "1e+39 overflows f32"),
    (lambda k: k.f[0] + 10**400, "overflows f32"),
    (lambda k: f64(10**400), "overflows f64"),
    (lambda k: k.n + True, "True is a bool where u32 is expected"),
    (lambda k: (k.n > 1) & 1, "1 is no bool"),
    (lambda k: k.n + "one", "neither a value nor a number"),  # type: ignore[arg-type]
    (lambda k: k.n + np.float32(1), "1.0 is no integer"),
    (lambda k: np.float32(1) * k.n, "1.0 is no integer"),
    (lambda k: k.n + np.uint64(1 << 32), "4294967296 does not fit u32"),
    (lambda k: k.n + np.ones(2), "(ndarray) is neither a value nor a number"),  # type: ignore[arg-type]
    (lambda k: k.n == None, "neither a value nor a number"),  # noqa: E711
    (lambda k: k.n + k.x, "a buffer is used where one element is needed"),  # type: ignore[arg-type]
    (lambda k: bool(k.n > 1), "Python cannot test a bool value"),
    (lambda k: k.n > 1 and k.n < 5, "write & | ~ between comparisons in brackets"),
    (lambda k: not k.n, "Python cannot test a u32 value"),
    (chained_comparison, "Python cannot test a bool value"),
    (lambda k: range(k.n), "not known while the kernel is being built"),
    (lambda k: list(k.n), "cannot be iterated over"),
    (lambda k: list(k.x), "cannot be iterated over"),  # type: ignore[call-overload]
    (lambda k: u8(3), "cannot make a literal of u8"),
    (lambda k: i32(1 << 31), "2147483648 does not fit i32"),
    (lambda k: u32(k.n), "u32(...) makes a constant of a number, and cannot convert"),  # type: ignore[arg-type]
    (lambda k: k.n.cast(u8), "cannot cast u8"),
    (lambda k: k.n.cast(ReservedType("bytes")), "cannot cast bytes"),
    (lambda k: k.n.bitcast(u64), "u32 cannot be bitcast to u64"),
    (lambda k: (k.n > 1).bitcast(u32), "bool cannot be bitcast to u32"),
    (lambda k: vyre.select(k.n > 1, k.n, k.f[0]), "select mixes the types u32, f32"),
    (lambda k: vyre.fma(k.f[0], k.n, 1), "fma mixes the types"),
    (lambda k: vyre.fma(k.n, 1, 1), "`fma` is not defined for u32"),
    (lambda k: vyre.sqrt(k.n), "`sqrt` is not defined for u32"),
    (lambda k: vyre.sin(f64(1)), "`sin` is not defined for f64"),
    (lambda k: vyre.subgroup_add(k.n > 1), "`subgroup_add` is not defined for bool"),
    (lambda k: vyre.subgroup_shuffle(k.n, i32(1)), "the lane of a shuffle must be u32, not i32"),
    (lambda k: k.x[k.f[0]], "an index of buffer `x` must be an integer, not f32"),
    (lambda k: k.x.__setitem__(0, 1), "buffer `x` is read-only"),
    (lambda k: k.u.__setitem__(0, k.f[0]), "what is stored to buffer `u` must be u32, not f32"),
    (lambda k: k.x.atomic_add(0, 1), "buffer `x` is read_only"),
    (lambda k: k.f.atomic_add(0, 1.0), "buffer `f` holds f32, on which there are no atomics"),
    (lambda k: k.u.atomic_add(0, k.f[0]), "the operand of an atomic must be u32"),
    (lambda k: k.u.atomic_compare_exchange(0, k.f[0], 1), "the expected value must be u32"),
    (lambda k: k.p.var(1).assign(k.f[0]), "what is assigned to variable `v` must be u32, not f32"),
    (lambda k: k.p.for_(0, k.f[0]), "the stop of a loop must be an integer, not f32"),
    (lambda k: k.p.for_(0, k.n, i32(1)), "the step of a loop must be u32, not i32"),
    (lambda k: k.p.for_(k.n, -1, -1), "the stop of a loop, -1, is negative, and the loop counts in u32"),
    (lambda k: k.p.for_(0, 1.5), "the stop of a loop must be u32: 1.5 is no integer"),
    (lambda k: k.p.for_(1 << 31, 0, -1), "the start of a loop must be i32: 2147483648 does not fit i32"),
    (lambda k: k.p.while_(k.n > 1), "reads nothing that can change"),
    (lambda k: k.p.trap(k.f[0], "t"), "the address of a trap must be u32"),
    (lambda k: k.p.break_(), "p.break_() is outside any loop"),
    (lambda k: k.p.continue_(), "p.continue_() is outside any loop"),
    (lambda k: k.p.else_(), "does not follow a p.if_() block"),
    (lambda k: k.p.global_id(3), "there is no axis 3"),  # type: ignore[arg-type]
    (lambda k: k.p.input("x", u32), "the name `x` is in use"),
    (lambda k: k.p.input("", u32), "the name of a buffer is empty"),
    (lambda k: k.p.input("y", u32, -1), "has -1 elements"),
    (lambda k: k.p.input("y", ReservedType("bytes")), "has the element type"),
    (lambda k: k.p.param("y", u8) + 1.5, "1.5 is no integer"),
    (lambda k: k.p.spec("s", f64(1)), "`spec` is not defined for f64"),
    (lambda k: k.p.spec("s", k.n), "the default of `s` is no constant"),
    (lambda k: ProgramBuilder(workgroup=0), "is no workgroup size"),
    (lambda k: ProgramBuilder(workgroup=(1, 2, 3, 4)), "is no workgroup size"),
    (lambda k: ProgramBuilder(workgroup=(8, True)), "is no workgroup size"),
    (lambda k: k.p.let(Kernel().n), "buffer `n` belongs to another program"),
    (lambda k: k.p.async_load(Kernel().x, k.u, offset=0, size=4, tag="t"), "belongs to another program"),
    (lambda k: k.p.output("y", u32, like=Kernel().x), "belongs to another program"),
    (lambda k: k.p.workgroup("y", u32, 0), "has 0 elements"),
    (lambda k: k.p.input("y", u32, 1 << 32), "has 4294967296 elements"),
    (lambda k: k.p.input("y", u32, True), "the count of `y` is True"),
    (lambda k: k.p.workgroup("y", u32, None), "the count of `y` is None"),  # type: ignore[arg-type]
    (lambda k: k.p.inout("y", u32, output_range=(0, 4.0)), "output_range=(0, 4.0) of `y` is no"),  # type: ignore[arg-type]
    (lambda k: k.p.global_id(True), "there is no axis True"),  # type: ignore[arg-type]
    (lambda k: k.p.let(1, name=[]), "the name of a local must be a str, not []"),  # type: ignore[arg-type]
    (lambda k: k.p.for_(0, 3, name=""), "the name of a local is empty"),
    (lambda k: k.p.barrier("acquire"), "ordering='acquire' is no memory ordering"),  # type: ignore[arg-type]
    (lambda k: k.p.async_load("x", k.u, offset=0, size=4, tag="t"), "the source of a copy is 'x'"),  # type: ignore[arg-type]
    (lambda k: k.u.atomic_compare_exchange(0, None, 1), "None (NoneType) is neither a value"),  # type: ignore[arg-type]
    (a_condition_that_wants_arguments, "cannot be called without arguments"),
    (lambda k: k.p.while_(k.p.global_id() < 3), "reads nothing that can change"),
    (lambda k: k.n | u32, "u32 (ScalarType) is neither a value"),
    (lambda k: u32 | k.n, "u32 (ScalarType) is neither a value"),
    (lambda k: np.ma.ones(2) + k.n, "NumPy cannot make an array of"),  # type: ignore[operator]
    (lambda k: u32(10**5000), "an int of 16610 bits does not fit u32"),
    (same_spec_twice, "`s` was declared with another default"),
    (reading_an_old_value, "this value reads buffer `u`, which may have changed"),
    (reading_an_old_variable, "this value reads variable `v`, which may have changed"),
    (swapping_without_let, "this value reads buffer `u`, which may have changed"),
    (reading_across_an_atomic, "this value reads buffer `u`"),
    (reading_across_a_barrier, "this value reads buffer `s`"),
    (reading_across_a_copy, "this value reads buffer `u`"),
    (changing_in_a_loop_what_came_from_before_it, "buffer `u` changes in a loop that uses"),
    (leaking_out_of_a_block, "local `inner` is used outside the block that declares it"),
    (leaking_a_loop_variable, "loop variable `i` is used outside the block"),
    (assigning_a_leaked_variable, "variable `v` is used outside the block"),
    (forgetting_with, "was never entered"),
    (entering_late, "is entered late or twice"),
    (two_elses, "does not follow a p.if_() block"),
    (else_after_a_statement, "does not follow a p.if_() block"),
    (else_of_an_outer_if, "does not follow a p.if_() block"),
    (building_inside_a_block, "build() is called inside an open block"),
    (recording_after_the_end, "recorded after the builder was closed"),
    (declaring_after_the_end, "declared after the builder was closed"),
]


@pytest.mark.parametrize(("misuse", "message"), CASES)
def test_misuse(misuse: Callable[[Kernel], object], message: str) -> None:
    with pytest.raises(BuildError) as caught:
        misuse(Kernel())
    error = caught.value
    assert message in str(error)
    assert "Fix: " in str(error)
    assert error.loc is not None
    assert error.loc.file == __file__
    lines, first = inspect.getsourcelines(misuse)
    assert first <= error.loc.line < first + len(lines)


def test_the_line_is_the_one_that_makes_the_mistake() -> None:
    k = Kernel()
    good = k.n + 1
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.raises(BuildError) as caught:
        good + k.f[0]
    assert caught.value.loc is not None and caught.value.loc.line == line
    assert str(caught.value).startswith(f"{__file__}:{line}: ")


def test_build_errors_pickle() -> None:
    with pytest.raises(BuildError) as caught:
        Kernel().p.break_()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.loc) == (str(caught.value), caught.value.loc)


LEGAL: list[Callable[[Kernel], Value]] = [
    lambda k: k.x[0],  # read-only memory cannot change
    lambda k: k.p.let(k.u[0]),  # named where it was read
    lambda k: k.u.length,
    lambda k: k.p.global_id() + k.n,
]


@pytest.mark.parametrize("make", LEGAL)
def test_what_cannot_change_may_be_used_after_any_write(make: Callable[[Kernel], Value]) -> None:
    k = Kernel()
    value = make(k)
    k.u[0] = 1
    k.p.barrier()
    with k.p.for_(0, 3):
        k.u[1] = value
        k.u[0] = 2
    k.p.build(check=False)


def test_a_read_of_one_buffer_outlives_a_write_to_another() -> None:
    k = Kernel()
    number = k.f[0]
    k.u[0] = 1
    k.f[1] = number + k.u[0].cast(f32)
    assert len(k.p.build(check=False).body) == 2

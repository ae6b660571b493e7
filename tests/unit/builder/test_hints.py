"""What Python, NumPy and other languages would have said is answered with what to write here."""

from __future__ import annotations

import copy
import inspect
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre
from vyre import BuildError, ProgramBuilder, f32, u32
from vyre.domain.errors import UnboundVariable, UnknownAttribute, UnsupportedUse
from vyre.domain.ir import foreign_names


class Kernel:
    """Typed loosely: these are the uses that a type checker refuses."""

    def __init__(self) -> None:
        self.p: Any = ProgramBuilder("kernel", workgroup=32)
        self.x: Any = self.p.input("x", f32)
        self.y: Any = self.p.inout("y", f32)
        self.n: Any = self.p.param("n", u32)
        self.a: Any = self.p.param("a", f32)
        self.v: Any = self.p.var(0)


Use = Callable[[Kernel], object]


def arms(k: Kernel) -> Any:
    """The arms of a switch."""
    with k.p.switch(k.n) as s:
        return s


ATTRIBUTES: list[tuple[Use, str]] = [
    (lambda k: k.p.elseif, "with p.elif_(c):"),
    (lambda k: k.p.match, "with p.switch(x) as s:"),
    (lambda k: k.p.private, "p.array(name, type, count)"),
    (lambda k: k.p.view, "p.view2d"),
    (lambda k: k.p.ndarray, "p.workgroup"),
    (lambda k: k.p.shared_array, "p.workgroup(name, type, count)"),
    (lambda k: k.p.threadIdx, "p.local_id(axis)"),
    (lambda k: k.p.program_id, "p.group_id(axis)"),
    (lambda k: k.p.grid, "p.global_id(axis)"),
    (lambda k: k.p.syncthreads, "p.barrier()"),
    (lambda k: k.p.range, "with p.for_(start, stop) as k:"),
    (lambda k: k.p.For, "p.for_"),
    (lambda k: k.p.inputs, "p.input"),
    (lambda k: k.p.sqrt, "sqrt(...), a function of vyre"),
    (lambda k: k.p.max, "max_(...), a function of vyre"),
    (lambda k: k.p.print, "a kernel prints nothing"),
    (lambda k: k.p.qqq, "use one of array, async_load, "),
    (lambda k: k.p.switch(k.n).case, "with p.switch(...) as s:"),
    (lambda k: k.p.for_(0, 3).start, "with p.for_(...) as s:"),
    (lambda k: arms(k).otherwise, "with s.default():"),
    (lambda k: arms(k).cases, "s.case"),
    (lambda k: k.x.shape, "buffer.length"),
    (lambda k: k.x.lenght, "buffer.length"),
    (lambda k: k.x.load, "buffer[i]"),
    (lambda k: k.x.atomicCAS, "buffer.atomic_compare_exchange"),
    (lambda k: k.x.atomic_sub, "buffer.atomic_add(i, 0 - x)"),
    (lambda k: k.x.reshape, "m = p.view2d(buffer, width), and m[row, column]"),
    (lambda k: k.x.astype, "buffer[i].cast(f32)"),
    (lambda k: k.a.astype, "x.cast(f32)"),
    (lambda k: k.a.view, "x.bitcast(u32)"),
    (lambda k: k.a.shape, "a value is one scalar"),
    (lambda k: k.a.item, "not known while the kernel is being built"),
    (lambda k: k.a.sqrt, "sqrt(...), a function of vyre"),
    (lambda k: k.a.bit_count, "popcount"),
    (lambda k: k.v.asign, "x.assign"),
    (lambda k: k.v.set, "v.assign(...)"),
    (lambda k: setattr(k.v, "value", 3), "v.assign(x)"),
    (lambda k: setattr(k.x, "data", 3), "buffer[i] = x"),
    (lambda k: setattr(k.p, "size", 3), "Python variable"),
]


@pytest.mark.parametrize(("use", "fix"), ATTRIBUTES)
def test_a_missing_attribute_is_answered_with_what_to_write(use: Use, fix: str) -> None:
    with pytest.raises(UnknownAttribute, match="has no attribute") as caught:
        use(Kernel())
    assert fix in caught.value.fix
    assert isinstance(caught.value, AttributeError)
    check_line(caught.value, use)


@pytest.mark.parametrize(
    ("use", "fix"),
    [
        (lambda k: setattr(k.v, "dtype", f32), "v.assign(x)"),
        (lambda k: setattr(k.x, "length", 3), "buffer[i] = x"),
        (lambda k: setattr(k.p, "input", 3), "Python variable"),
    ],
)
def test_what_exists_cannot_be_set(use: Use, fix: str) -> None:
    with pytest.raises(UnknownAttribute, match=" is read-only") as caught:
        use(Kernel())
    assert fix in caught.value.fix
    check_line(caught.value, use)


def check_line(error: BuildError, use: Use) -> None:
    assert error.loc is not None and error.loc.file == __file__
    lines, first = inspect.getsourcelines(use)
    assert first <= error.loc.line < first + len(lines)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))


def looping_over_a_block(k: Kernel) -> None:
    for _ in k.p.for_(0, 3):
        pass


def branching_in_python_on_a_block(k: Kernel) -> None:
    if k.p.if_(k.n > 1):
        pass


def adding_in_place(k: Kernel) -> None:
    k.x += 1


USES: list[tuple[Use, str]] = [
    (lambda k: len(k.x), "buffer.length"),
    (lambda k: len(k.a), "one scalar"),
    (lambda k: k.a**2, "x * x"),
    (lambda k: 2**k.a, "exp2(y * log2(x))"),
    (lambda k: pow(k.a, 2), "x * x"),
    (lambda k: k.a @ k.a, "p.for_"),
    (lambda k: divmod(k.n, 3), "a / b and a % b"),
    (lambda k: +k.a, "leave the + out"),
    (lambda k: round(k.a), "round_(x)"),
    (lambda k: math.floor(k.a), "floor(x)"),
    (lambda k: math.ceil(k.a), "ceil(x)"),
    (lambda k: math.trunc(k.a), "trunc(x)"),
    (lambda k: math.sin(k.a), "functions of vyre, such as sin(x)"),
    (lambda k: max(k.a, 0.0), "max_(a, b)"),
    (lambda k: min(k.a, 0.0), "min_(a, b)"),
    (lambda k: int(k.a), ".cast(i32)"),
    (lambda k: float(k.n), ".cast(f32)"),
    (lambda k: complex(k.n), "two values"),
    (lambda k: bool(k.n), "p.if_(c)"),
    (lambda k: 1 if k.n > 1 else 2, "select(c, a, b)"),
    (lambda k: k.n > 1 and k.n < 3, "& | ~"),
    (lambda k: not k.n, "& | ~"),
    (lambda k: k.n in [1, 2], "== and | for `in`"),
    (lambda k: 1 in k.n, "=="),
    (lambda k: range(k.n), "p.for_(start, stop)"),
    (lambda k: [1, 2][k.n], "p.for_(start, stop)"),
    (lambda k: list(k.n), "p.for_(start, stop)"),
    (lambda k: k.a[0], "index the buffer"),
    (lambda k: operator.setitem(k.v, 0, 1), "v.assign(x)"),
    (lambda k: f"{k.a:.3f}", "output buffer"),
    (lambda k: np.sin(k.a), "sin(...)"),
    (lambda k: np.maximum(k.a, 0), "max_(a, b)"),
    (lambda k: np.add(k.a, k.a), "a + b"),
    (lambda k: np.arctan2(k.a, k.a), "operators and functions of vyre"),
    (lambda k: np.sqrt(k.x), "sqrt(...)"),
    (lambda k: np.where(k.a > 0, k.a, 0), "select(c, a, b)"),
    (lambda k: np.sum(k.x), "p.for_(0, buffer.length)"),
    (lambda k: np.array(k.a), "session.dispatch"),
    (lambda k: np.asarray(k.x), "session.dispatch"),
    (lambda k: np.array([k.a, k.a]), "session.dispatch"),
    (lambda k: np.float32(2) ** k.a, "exp2(y * log2(x))"),
    (lambda k: np.float32(2) * k.x, "buffer[i]"),
    (lambda k: np.complex64(2) * k.a, "of Python or NumPy"),
    (lambda k: np.arange(3) + k.a, "p.input buffer"),
    (lambda k: k.a + np.arange(3), "p.input buffer"),
    (looping_over_a_block, "with p.for_(...) as k:"),
    (branching_in_python_on_a_block, "with p.if_(...):"),
    (adding_in_place, "buffer[i]"),
    (lambda k: k.x + 1, "buffer[i]"),
    (lambda k: 1 - k.x, "buffer[i]"),
    (lambda k: -k.x, "buffer[i]"),
    (lambda k: k.x == 1, "buffer[i]"),
    (lambda k: k.x != k.a, "buffer[i]"),
    (lambda k: k.x < 1, "buffer[i]"),
    (lambda k: abs(k.x), "buffer[i]"),
    (lambda k: int(k.x), "buffer[i]"),
    (lambda k: k.x(0), "buffer[i]"),
    (lambda k: bool(k.x), "buffer[i] != 0"),
    (lambda k: list(k.x), "p.for_(0, buffer.length)"),
    (lambda k: 1 in k.x, "p.for_"),
    (lambda k: reversed(k.x), "buffer.length - 1 - k"),
    (lambda k: operator.delitem(k.y, 0), "store"),
    (lambda k: k.x[1, 2], "m = p.view2d(x, width) and m[row, column]"),
    (lambda k: k.x[0:3], "p.for_(start, stop)"),
    (lambda k: operator.setitem(k.y, slice(None), 0.0), "y[k]"),
]


@pytest.mark.parametrize(("use", "fix"), USES)
def test_what_only_a_number_or_an_array_can_do_is_answered_with_what_to_write(use: Use, fix: str) -> None:
    with pytest.raises(UnsupportedUse) as caught:
        use(Kernel())
    assert fix in caught.value.fix
    assert isinstance(caught.value, TypeError)
    check_line(caught.value, use)


MISTAKES: list[tuple[Use, str]] = [
    (lambda k: k.x[-1], "x[x.length - 1]"),
    (lambda k: k.p.for_(k.n, 0, -1), "n.cast(i32) - 1, -1, -1"),
    (lambda k: k.x + "a" if k.p is None else k.a + k.x, "x[i]"),
    (lambda k: k.a.cast(int), "vyre.i32"),
    (lambda k: k.a.cast("float64"), "vyre.f64"),
    (lambda k: k.a.cast(np.uint8), "vyre.u32"),
    (lambda k: k.a.cast(np.complex64), "f64 or bool_"),
    (lambda k: k.p.input("z", float), "vyre.f32"),
    (lambda k: k.p.input("z", np.dtype(">u2")), 'vyre.u16, and pass x.astype("<u2")'),
    (lambda k: k.p.input("z", np.dtype([("a", "f4")])), "a buffer for each field"),
    (lambda k: k.p.input("z", np.dtype(object)), "a scalar type such as"),
    (lambda k: k.p.input("z", "f32"), "vyre.f32"),
    (lambda k: k.p.input("z", list), "a scalar type such as"),
    (lambda k: k.p.input("z", f32, 1.5), "give a Python int"),
    (lambda k: k.p.input("z", f32, k.n), "give a Python int"),
    (lambda k: k.p.input(3, f32), "give a str"),
    (lambda k: k.p.output("z", f32, like=3), "a buffer of this builder, or its name"),
    (lambda k: k.p.trap(0, 3), "give a str"),
    (lambda k: k.p.region(k.n), "give a str"),
    (lambda k: k.p.async_wait(3), "give a str"),
    (lambda k: ProgramBuilder("p", workgroup=2.5), "positive ints"),  # type: ignore[arg-type]
    (lambda k: ProgramBuilder(3, workgroup=1), "give a str"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("use", "fix"), MISTAKES)
def test_a_mistake_is_answered_with_what_to_write(use: Use, fix: str) -> None:
    with pytest.raises(BuildError) as caught:
        use(Kernel())
    assert fix in caught.value.fix
    check_line(caught.value, use)


def test_a_refused_block_is_forgotten() -> None:
    k = Kernel()
    with pytest.raises(UnsupportedUse):
        looping_over_a_block(k)
    k.y[0] = 1.0
    assert len(k.p.build(check=False).body) == 2


def captured(p: ProgramBuilder, sp: Any) -> None:
    def pop() -> None:
        sp -= 1  # noqa: F823, F841

    with p.if_(True):
        pop()


def captured_in_a_kernel(p: ProgramBuilder) -> None:
    with p:
        sp = p.var(3)

        def pop() -> None:
            sp = sp + 1  # noqa: F823, F841

        pop()
        sp += 1


@pytest.mark.parametrize(
    "use",
    [lambda p: captured(p, p.var(0)), lambda p: captured(p, p.let(0)), captured_in_a_kernel],
    ids=["variable", "local", "kernel"],
)
def test_a_helper_that_assigns_to_a_captured_variable_is_told_how(use: Callable[[ProgramBuilder], None]) -> None:
    with pytest.raises(UnboundVariable, match=r"pop\(\) assigns to `sp`.*Fix: .* sp\.assign\(\.\.\.\)") as caught:
        use(ProgramBuilder("stack", workgroup=1))
    assert isinstance(caught.value, UnboundLocalError)
    assert isinstance(caught.value.__cause__, UnboundLocalError)
    assert caught.value.loc is not None and caught.value.loc.file == __file__
    line = inspect.getsource(inspect.getmodule(captured)).splitlines()[caught.value.loc.line - 1]  # type: ignore[arg-type]
    assert "sp -= 1" in line or "sp = sp + 1" in line


def test_an_unbound_local_that_is_none_of_the_kernel_stays_what_it_is() -> None:
    count = 0

    def mistaken() -> None:
        count += 1  # noqa: F823, F841

    with pytest.raises(UnboundLocalError) as caught, ProgramBuilder("p", workgroup=1):
        mistaken()
    assert type(caught.value) is UnboundLocalError and count == 0


def test_an_in_place_operator_on_a_variable_is_an_assignment() -> None:
    def pop(sp: vyre.Variable) -> None:
        sp -= 1

    with ProgramBuilder("stack", workgroup=1) as p:
        y = p.inout("y", u32)
        depth = p.var(3)
        pop(depth)
        y[0] = depth
    with vyre.open(backend="reference") as session:
        assert session.dispatch(p.build(), {"y": np.zeros(1, np.uint32)})["y"].tolist() == [2]


def test_errors_call_things_what_the_user_calls_them() -> None:
    p = ProgramBuilder("names", workgroup=1)
    scale, count = p.param("a", f32), p.param("n", u32)
    total = p.var(0)
    source: Any = p.input("x", f32)
    with pytest.raises(BuildError, match="`scale` is f32, `count` is u32"):
        scale + count
    with pytest.raises(BuildError, match="an index of buffer `x` must be an integer, not f32 \\(`scale` is f32\\)"):
        source[scale]
    with pytest.raises(BuildError, match="what is assigned to variable `total` must be u32"):
        total.assign(scale)
    with pytest.raises(BuildError, match="Python cannot test `count` \\(a u32 value\\)"):
        bool(count)
    with pytest.raises(BuildError, match=r"`scale` \(a value\) has no attribute `astype`.*write scale\.cast"):
        scale.astype  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(BuildError, match=r"len\(\) cannot take `source` \(a buffer\).*write source\.length"):
        len(source)
    old = total + 1
    total += 1
    with pytest.raises(BuildError, match="this value reads variable `total`"):
        p.let(old)


def test_objects_still_answer_pythons_own_questions() -> None:
    k = Kernel()
    for thing in (k.p, k.x, k.a, k.v):
        assert not hasattr(thing, "no_such_name")
        assert getattr(thing, "while", None) is None
        assert not hasattr(thing, "__array_interface__")
        assert not hasattr(thing, "_repr_html_")
        assert dir(thing) and repr(thing)
        inspect.getmembers(type(thing))
    assert copy.copy(k.a).expr == k.a.expr
    assert copy.deepcopy(k.a).expr == k.a.expr
    assert copy.copy(k.x).name == "x"
    assert pickle.loads(pickle.dumps(k.a)).expr == k.a.expr
    assert [k.x, k.y].index(k.y) == 1 and {k.x: 1}[k.x] == 1 and k.x == k.x and k.x != k.y
    assert f"{k.a}" == str(k.a) == repr(k.a)
    assert not callable(k.a)
    assert sum([k.a, k.a]).dtype is f32


TABLES = [
    foreign_names.BUILDER,
    foreign_names.SWITCH,
    foreign_names.BUFFER,
    foreign_names.VALUE,
    foreign_names.FUNCTION,
    foreign_names.TYPE,
]


@pytest.mark.parametrize("table", TABLES)
def test_the_tables_are_spelled_as_they_are_searched(table: foreign_names.Hints) -> None:
    assert all(foreign_names.plain(name) == name and fix for name, fix in table.items())


@pytest.mark.parametrize(
    ("table", "owner"),
    [
        (foreign_names.BUILDER, ProgramBuilder),
        (foreign_names.SWITCH, vyre.SwitchArms),
        (foreign_names.BUFFER, vyre.BufferHandle),
        (foreign_names.VALUE, vyre.Value),
    ],
)
def test_no_table_names_what_exists(table: foreign_names.Hints, owner: type) -> None:
    own = {name for name in dir(owner) if not name.startswith("_")}
    assert not own & set(table)
    assert set(foreign_names.TYPE.values()) <= set(vyre.__all__)

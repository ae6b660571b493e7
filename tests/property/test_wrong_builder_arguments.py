"""Arguments of wrong kinds for the builder: every call refuses them with an error of ours at the user's line.

A row is a call that is right.  Each argument in turn is replaced by a value of every kind, in a kernel of its own.
What the annotation takes may pass, and the program can then be checked, written and read; for all else one of our
errors names the line of the call.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import pytest

import vyre
from support.kinds import FLAGS, KINDS, NUMBERS, NUMPY_NUMBERS, TEXTS, made
from vyre import ProgramBuilder, f32, u32
from vyre.domain.errors import LocatedError, VyreError
from vyre.domain.ir import functions
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.expr import Binary, Var
from vyre.domain.ir.operators import SUBGROUP, BinaryOp
from vyre.domain.ir.shared_builder import SharedBuilder
from vyre.domain.ir.types import ReservedType, ScalarType
from vyre.ir import Access, SourceLocation

A_BUFFER, A_VALUE, A_NUMBER, A_CONDITION, A_VARIABLE = "a buffer", "a value", "a number", "a condition", "a variable"
ORDERING, NARROW = "an ordering", "a narrow type"


class Kernel:
    """A kernel under construction, with something of every kind in it."""

    def __init__(self) -> None:
        self.p = p = ProgramBuilder("kernel", workgroup=4)
        p.__enter__()
        self.x, self.y = p.input("x", f32), p.inout("y", f32)
        self.counts, self.shared = p.inout("counts", u32), p.workgroup("shared", u32, 4)
        self.value, self.number = p.param("value", f32), p.global_id()
        self.variable = p.var(1.0, "variable")

    def given(self, kind: str) -> Any:
        """A value of that kind."""
        own = OWN_KINDS.get(kind)
        return made(kind) if own is None else own(self)


def other_kernel() -> Kernel:
    """Another kernel, whose buffers and values have the same names."""
    return Kernel()


OWN_KINDS: Final[dict[str, Callable[[Kernel], Any]]] = {
    A_BUFFER: lambda k: k.x,
    A_VALUE: lambda k: k.value,
    A_NUMBER: lambda k: k.number,
    A_CONDITION: lambda k: k.number < 3,
    A_VARIABLE: lambda k: k.variable,
    ORDERING: lambda _: vyre.Ordering.RELAXED,
    NARROW: lambda _: vyre.u8,
    "a reserved type": lambda _: ReservedType("bytes"),
    "the builder": lambda k: k.p,
    "a block": lambda k: k.p.block(),
    "a method": lambda k: k.x.atomic_add,
    "another's buffer": lambda _: other_kernel().x,
    "another's value": lambda _: other_kernel().x[0],
    "very negative": lambda _: -(10**5000),
    "a list of much": lambda _: [10**5000],
}
ALL_KINDS: Final = (*KINDS, *OWN_KINDS)

WHOLE: Final = {"one", "zero", "numpy int"}
BOOLS: Final = {*FLAGS, "numpy bool"}
TYPES: Final = {"type", "numpy type", "dtype"}
U32: Final = {*WHOLE, A_NUMBER}
FLOATS: Final = NUMBERS - {"huge"} | NUMPY_NUMBERS
F32: Final = {*FLOATS, A_VALUE, A_VARIABLE}
NUMERIC: Final = {*FLOATS - {"negative"}, A_VALUE, A_VARIABLE, A_NUMBER}
ANY: Final = {*NUMERIC, *BOOLS, A_CONDITION}
NAME: Final = {"none", *TEXTS} - {"no text"}
FULL_NAME: Final = NAME - {"none"}
COUNT: Final = {"none", *WHOLE}
BOUND: Final = {*U32, "negative"}


class Row(NamedTuple):
    """``call`` of a kernel with the arguments ``right``; ``takes``: the kinds that each argument takes."""

    call: Callable[[Kernel], Callable[..., Any]]
    right: Callable[[Kernel], Mapping[str, Any]]
    takes: Mapping[str, set[str]]


def entered(block: Callable[..., AbstractContextManager[Any]]) -> Callable[..., None]:
    """Returns a function that opens and ends the block that ``block`` returns."""

    def call(**arguments: Any) -> None:
        with block(**arguments):
            pass

    return call


def after_if(kernel: Kernel) -> Callable[..., None]:
    """Returns a function that adds a link to a chain."""

    def call(test: Any) -> None:
        with kernel.p.if_(kernel.number < 2):
            pass
        with kernel.p.elif_(test):
            pass

    return call


def arm(kernel: Kernel) -> Callable[..., None]:
    """Returns a function that opens one arm of a switch with two labels."""

    def call(label: Any, second: Any) -> None:
        with kernel.p.switch(kernel.number) as s, s.case(label, second):
            pass

    return call


def fixed(**right: Any) -> Callable[[Kernel], Mapping[str, Any]]:
    """Returns a function from any kernel to the arguments ``right``."""
    return lambda _: right


def declarations() -> Iterator[tuple[str, Row]]:
    takes = {"name": FULL_NAME, "dtype": {*TYPES, "narrow numpy type", NARROW}, "count": COUNT}
    ranged = {"output_range": {"none"}}
    right = {"name": "b", "dtype": f32, "count": 4}
    yield "input", Row(lambda k: k.p.input, fixed(**right), takes)
    unfit: set[str] = set()
    shaped = {"access": Access.READ_WRITE, "is_output": True}
    yield (
        "buffer",
        Row(lambda k: k.p.buffer, fixed(**right, **shaped), takes | {"access": unfit, "is_output": {*FLAGS}}),
    )
    yield "uniform", Row(lambda k: k.p.uniform, fixed(**right), takes)
    yield "inout", Row(lambda k: k.p.inout, fixed(**right, output_range=(0, 4)), takes | ranged)
    like = {"like": {"none", A_BUFFER, *TEXTS}}
    yield "output", Row(lambda k: k.p.output, fixed(**right, output_range=(0, 4)), takes | ranged)
    yield "output like", Row(lambda k: k.p.output, lambda k: right | {"count": None, "like": k.x}, takes | like)
    yield "workgroup", Row(lambda k: k.p.workgroup, fixed(**right), takes | {"count": {"one", "numpy int"}})
    yield "array", Row(lambda k: k.p.array, fixed(**right), takes | {"count": {"one", "numpy int"}})
    size = {"one", "numpy int", A_NUMBER}
    yield (
        "view2d",
        Row(lambda k: k.p.view2d, lambda k: {"buffer": k.x, "width": 4}, {"buffer": {A_BUFFER}, "width": size}),
    )
    sizes = {"buffer": {A_BUFFER}, "height": size, "width": size}
    yield "view3d", Row(lambda k: k.p.view3d, lambda k: {"buffer": k.x, "height": 4, "width": k.number}, sizes)
    yield "param", Row(lambda k: k.p.param, fixed(name="b", dtype=f32), takes)
    yield "spec", Row(lambda k: k.p.spec, fixed(name="b", default=1.0), {"name": FULL_NAME, "default": {
        *BOOLS, *WHOLE, *FLOATS - {"negative"}}})  # fmt: skip
    axes = {"workgroup": {"one", "numpy int", "tuple"}}
    yield (
        "ProgramBuilder",
        Row(
            lambda _: lambda **given: ProgramBuilder(**given),
            fixed(name="k", workgroup=4),
            axes | {"name": {"none", *TEXTS}},
        ),
    )
    yield "build", Row(lambda k: built(k), fixed(check=True), {"check": FLAGS})


def built(kernel: Kernel) -> Callable[..., vyre.Program]:
    kernel.p.__exit__(None, None, None)
    return kernel.p.build


TWICE: Final = Definition(
    "acme.twice",
    Version(1),
    (Parameter("x", ScalarType.U32),),
    ScalarType.U32,
    (),
    Binary(BinaryOp.ADD, Var("x"), Var("x")),
)


def statements() -> Iterator[tuple[str, Row]]:
    named = {"value": ANY, "name": NAME}
    yield "let", Row(lambda k: k.p.let, fixed(value=1.0, name="b"), named)
    yield "call", Row(lambda k: lambda op, x: k.p.call(op, x), fixed(op=TWICE, x=1), {"op": ANY, "x": ANY})
    yield "define", Row(lambda k: lambda given: k.p.define(given), fixed(given=TWICE), {"given": ANY})
    yield "var", Row(lambda k: k.p.var, fixed(value=1.0, name="b"), named)
    for ids in ("global_id", "local_id", "group_id", "num_groups"):
        yield ids, Row(lambda k, ids=ids: getattr(k.p, ids), fixed(axis=2), {"axis": WHOLE})  # type: ignore[misc]
    yield "if_", Row(lambda k: entered(k.p.if_), lambda k: {"test": k.number < 3}, {"test": ANY})
    yield "elif_", Row(after_if, lambda k: {"test": k.number < 3}, {"test": ANY})
    yield "switch", Row(lambda k: entered(k.p.switch), lambda k: {"selector": k.number}, {"selector": U32})
    labels = {"label": {*WHOLE}, "second": {*WHOLE}}
    yield "SwitchArms.case", Row(arm, fixed(label=2, second=3), labels)
    yield (
        "for_",
        Row(
            lambda k: entered(k.p.for_),
            fixed(start=0, stop=4, step=1, name="b"),
            {"start": BOUND, "stop": BOUND, "step": BOUND, "name": NAME},
        ),
    )
    rounds = {"limit": U32, "flag": set[str](), "name": NAME}
    yield (
        "grid_loop",
        Row(lambda k: entered(k.p.grid_loop), lambda k: {"limit": 4, "flag": k.counts, "name": "b"}, rounds),
    )
    yield (
        "while_",
        Row(
            lambda k: entered(k.p.while_),
            lambda k: {"test": lambda: k.number < 3},
            {"test": {*BOOLS, *WHOLE, *FLOATS - {"negative"}, A_VARIABLE, "class", "numpy type", "narrow numpy type"}},
        ),
    )
    yield (
        "while_ of a function",
        Row(lambda k: lambda answer: entered(k.p.while_)(test=lambda: answer), fixed(answer=True), {"answer": ANY}),
    )
    yield "at", Row(lambda k: entered(k.p.at), fixed(loc=SourceLocation("prog.mini", 1)), {"loc": set()})
    yield "region", Row(lambda k: entered(k.p.region), fixed(generator="b"), {"generator": TEXTS})
    yield "trap", Row(lambda k: k.p.trap, fixed(address=1, tag="b"), {"address": U32, "tag": TEXTS})
    yield "barrier", Row(lambda k: k.p.barrier, fixed(ordering=vyre.Ordering.ACQ_REL), {"ordering": {ORDERING}})
    copied = {"offset": U32, "size": U32, "tag": TEXTS, "source": {A_BUFFER}, "destination": {A_BUFFER}}
    for copy in ("async_load", "async_store"):
        yield (
            copy,
            Row(
                lambda k, copy=copy: getattr(k.p, copy),  # type: ignore[misc]
                lambda k: {"source": k.x, "destination": k.shared, "offset": 0, "size": 4, "tag": "b"},
                copied,
            ),
        )
    yield "async_wait", Row(lambda k: k.p.async_wait, fixed(tag="b"), {"tag": TEXTS})


def handles() -> Iterator[tuple[str, Row]]:
    yield "BufferHandle.__getitem__", Row(lambda k: lambda i: k.x[i], fixed(i=1), {"i": U32})
    yield (
        "BufferHandle.__setitem__",
        Row(lambda k: k.y.__setitem__, fixed(index=1, value=2.0), {"index": U32, "value": F32}),
    )
    for name, method in inspect.getmembers(vyre.BufferHandle, inspect.isfunction):
        if name.startswith("atomic_"):
            right = {"index": 0, "value": 1, "ordering": vyre.Ordering.RELAXED}
            right |= {"expected": 2} if "expected" in inspect.signature(method).parameters else {}
            yield (
                f"BufferHandle.{name}",
                Row(
                    lambda k, name=name: getattr(k.counts, name),  # type: ignore[misc]
                    fixed(**right),
                    {"index": U32, "value": U32, "expected": U32, "ordering": {ORDERING}},
                ),
            )
    flat, cube = (lambda k: k.p.view2d(k.y, 2)), (lambda k: k.p.view3d(k.y, 2, 2))
    for name, view, axes in (("View2d", flat, "yx"), ("View3d", cube, "zyx")):
        yield (
            f"{name}.__getitem__",
            Row(
                lambda k, view=view: lambda **at: view(k)[tuple(at.values())],  # type: ignore[misc]
                fixed(**dict.fromkeys(axes, 1)),
                dict.fromkeys(axes, U32),
            ),
        )
        yield (
            f"{name}.__setitem__",
            Row(
                lambda k, view=view, axes=axes: lambda i, value: view(k).__setitem__((*[0] * len(axes[1:]), i), value),  # type: ignore[misc]
                fixed(i=1, value=2.0),
                {"i": U32, "value": F32},
            ),
        )
    yield (
        "View2d.atomic_add",
        Row(
            lambda k: k.p.view2d(k.counts, 2).atomic_add,
            fixed(index=(0, 1), value=1, ordering=vyre.Ordering.RELAXED),
            {"index": set(), "value": U32, "ordering": {ORDERING}},
        ),
    )
    types = {"dtype": TYPES}
    yield "Value.cast", Row(lambda k: k.value.cast, fixed(dtype=u32), types)
    yield "Value.bitcast", Row(lambda k: k.value.bitcast, fixed(dtype=u32), types)
    yield "Variable.assign", Row(lambda k: k.variable.assign, fixed(value=1.0), {"value": F32})


COMPARISONS: Final = "lt gt le ge eq ne"
FLOATING: Final = "add sub mul truediv"
WHOLE_ONLY: Final = "floordiv mod and or xor"
SHIFTS: Final = "lshift rshift"
FORMATS: Final = {*TEXTS, "bytes", "bytearray"}
"""What Python's own ``%`` formats, and does not ask vyre."""


def operators() -> Iterator[tuple[str, Row]]:
    for names, of, takes in (
        (COMPARISONS, "value", F32),
        (FLOATING, "value", F32),
        (COMPARISONS, "number", U32),
        (FLOATING, "number", U32),
        (WHOLE_ONLY, "number", U32),
        (SHIFTS, "number", U32),
    ):
        for name in names.split():
            function = getattr(operator, f"__{name}__")
            yield (
                f"Value.__{name}__ of a {of}",
                Row(
                    lambda k, function=function, of=of: lambda right: function(getattr(k, of), right),  # type: ignore[misc]
                    fixed(right=1),
                    {"right": takes},
                ),
            )
            yield (
                f"Value.__r{name}__ of a {of}",
                Row(
                    lambda k, function=function, of=of: lambda left: function(left, getattr(k, of)),  # type: ignore[misc]
                    fixed(left=1),
                    {"left": takes | (FORMATS if name == "mod" else set())},
                ),
            )
    for name in f"{FLOATING} {WHOLE_ONLY} {SHIFTS}".split():
        function = getattr(operator, f"__i{name}__")
        yield (
            f"Variable.__i{name}__",
            Row(
                lambda k, function=function: lambda right: function(k.p.var(u32(1)), right),  # type: ignore[misc]
                fixed(right=1),
                {"right": U32},
            ),
        )


def expressions() -> Iterator[tuple[str, Row]]:
    yield (
        "select",
        Row(
            lambda _: functions.select,
            lambda k: {"condition_": k.number < 3, "on_true": k.value, "on_false": k.value},
            {"condition_": ANY, "on_true": F32, "on_false": F32},
        ),
    )
    yield "fma", Row(lambda _: functions.fma, lambda k: dict.fromkeys("abc", k.value), dict.fromkeys("abc", F32))
    for row in SUBGROUP.values():
        of_floats = ScalarType.F32 in row.operands
        takes = ANY if ScalarType.BOOL in row.operands else NUMERIC if of_floats else U32
        function = getattr(functions, row.text)
        yield row.text, Row(lambda _, f=function: f, fixed(value=1.0 if of_floats else 1), {"value": takes})  # type: ignore[misc]
    broadcast = fixed(value=1.0, lane=0)
    yield "subgroup_broadcast", Row(lambda _: functions.subgroup_broadcast, broadcast, {"value": ANY, "lane": WHOLE})
    yield "subgroup_ballot", Row(lambda _: functions.subgroup_ballot, fixed(condition_=True), {"condition_": ANY})
    yield (
        "subgroup_shuffle",
        Row(lambda _: functions.subgroup_shuffle, fixed(value=1.0, lane=0), {"value": ANY, "lane": U32}),
    )
    narrow = {"dtype": {"narrow numpy type", NARROW}, "x": U32, "word": U32}
    for name in ("narrow", "pack", "unpack"):
        operand = "word" if name == "unpack" else "x"
        right = {"dtype": vyre.u8, operand: 5}
        yield name, Row(lambda _, n=name: getattr(functions, n), fixed(**right), narrow)  # type: ignore[misc]
    right = {"dtype": u32, "x": 1.0}
    yield "wrap_cast", Row(lambda _: functions.wrap_cast, fixed(**right), {"dtype": TYPES, "x": F32})
    for name in sorted(
        {*functions.__all__}
        - {"select", "fma", "narrow", "pack", "unpack", "wrap_cast"}
        - {n for n in functions.__all__ if "subgroup" in n}
    ):
        function = getattr(functions, name)
        names = [*inspect.signature(function).parameters]
        is_whole = takes_integers(function, names)
        accepted = dict.fromkeys(names, NUMERIC if is_whole or len(names) == 1 else {*FLOATS, A_VALUE, A_VARIABLE})
        right = dict.fromkeys(names, 1 if is_whole else 1.0)
        yield name, Row(lambda _, f=function: f, fixed(**right), accepted)  # type: ignore[misc]
    for dtype in vyre.ScalarType:
        if dtype.is_executable:
            whole = FLOATS if dtype.is_float else BOOLS if dtype is vyre.bool_ else {*WHOLE, "negative"}
            yield f"{dtype!r}", Row(lambda _, t=dtype: t, fixed(value=whole >= FLAGS or 1), {"value": whole})  # type: ignore[misc]


def takes_integers(function: Callable[..., Any], names: list[str]) -> bool:
    try:
        function(*(1 for _ in names))
    except VyreError:
        return False
    return True


ROWS: Final = {label: row for of in (declarations, statements, handles, operators, expressions) for label, row in of()}


def problems(label: str, row: Row) -> Iterator[str]:
    """What is wrong about the answers to arguments of every kind."""
    kernel = Kernel()
    row.call(kernel)(**row.right(kernel))
    for name in row.right(kernel):
        for kind in ALL_KINDS:
            kernel = Kernel()
            given = kernel.given(kind)
            call = f"{label}({name}={kind})"
            arguments = {**row.right(kernel), name: given}
            try:
                made_of_it = row.call(kernel)(**arguments)
                if isinstance(made_of_it, vyre.Value):
                    kernel.p.let(made_of_it)
            except VyreError as error:
                if "Fix: " not in str(error):
                    yield f"{call}: no fix in {error}"
                if not isinstance(error, LocatedError) or error.loc is None or error.loc.file != __file__:
                    yield f"{call}: no line in {error}"
            except Exception as error:
                yield f"{call}: {type(error).__name__} {error}"
            else:
                if kind not in row.takes[name]:
                    yield f"{call}: was taken"
                elif defect := unusable(kernel):
                    yield f"{call}: was taken, and {defect}"


def unusable(kernel: Kernel) -> str | None:
    """What is wrong about the program that was recorded, or None."""
    try:
        kernel.p.__exit__(None, None, None)
        program = kernel.p.build(check=False)
        if vyre.validate(program).ok:
            assert vyre.Program.from_text(program.to_text()) == program
            assert vyre.Program.from_wire(program.to_wire()) == program
            assert vyre.Program.from_json(program.to_json()) == program
    except VyreError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def public(cls: type) -> Iterator[str]:
    """The methods and operators of a class that take arguments."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        is_public = not name.startswith("_") or name in vars(operator)
        own = (cls.__module__, SharedBuilder.__module__)
        if is_public and method.__module__ in own and set(inspect.signature(method).parameters) - {"self", "loc"}:
            yield name if cls is ProgramBuilder else f"{cls.__name__}.{name}"


def test_no_public_method_or_function_is_left_out() -> None:
    tried = {label.partition(" of ")[0] for label in ROWS}
    tried |= {f"Variable.{label.partition('.')[2]}" for label in tried if label.startswith("Value.")}
    classes = (ProgramBuilder, vyre.BufferHandle, vyre.Value, vyre.Variable, vyre.SwitchArms, vyre.View2d, vyre.View3d)
    every = {name for cls in classes for name in public(cls)}
    assert len(every) > 60
    assert {*every, *functions.__all__} - tried == {"Value.is_local"}  # whose argument only the builder makes


@pytest.mark.parametrize("label", ROWS)
def test_wrong_arguments_are_refused_at_the_line_of_the_call(label: str) -> None:
    found = [*problems(label, ROWS[label])]
    assert not found, "\n".join(["", *found])

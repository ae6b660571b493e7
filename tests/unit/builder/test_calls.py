"""Arguments that do not fit a signature are told with the signature, and only where the call is one of ours."""

from __future__ import annotations

import builtins
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import vyre
from support.small_programs import saxpy_program
from vyre import ProgramBuilder, f32, sqrt
from vyre.domain.errors import UnfitArguments, UnsupportedUse

Use = Callable[[Any, Any], object]  # of the builder and a buffer, typed loosely: type checkers refuse these calls

CALLS: list[tuple[Use, str]] = [
    (lambda p, x: p.param("a"), "write p.param(name, dtype)."),
    (lambda p, x: p.input("a", f32, shape=(3, 4)), "write p.input(name, dtype, count=None)."),
    (lambda p, x: p.output("a", f32, likes=x), "write like=value."),
    (lambda p, x: p.async_wait(), "write p.async_wait(tag)."),
    (lambda p, x: x.atomic_add(0), "write buffer.atomic_add(index, value), and by keyword ordering."),
    (lambda p, x: sqrt(x[0], 2), "write sqrt(x)."),  # type: ignore[call-overload]
    (lambda p, x: vyre.fma(x[0], 2), "write fma(a, b, c)."),  # type: ignore[call-overload]
]


@pytest.mark.parametrize(("use", "fix"), CALLS)
def test_arguments_that_do_not_fit_are_answered_with_the_signature(use: Use, fix: str) -> None:
    with pytest.raises(UnsupportedUse) as caught, ProgramBuilder("kernel", workgroup=1) as p:
        use(p, p.inout("x", f32))
    error = caught.value
    assert isinstance(error, TypeError) and isinstance(error.__cause__, TypeError)
    assert error.fix == fix
    assert error.loc is not None and (error.loc.file, error.loc.line) == (__file__, use.__code__.co_firstlineno)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("arguments", [("copy",), ("copy", 256), ()])
def test_a_builder_says_what_it_needs(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(UnsupportedUse, match=r"test_calls.py:\d+: .*write ProgramBuilder\(name=None, workgroup=...\)"):
        ProgramBuilder(*arguments)  # type: ignore[call-arg]


def test_a_session_says_how_its_methods_are_called() -> None:
    session: Any
    with pytest.raises(UnfitArguments, match=r"inputs are one dict or one list"), vyre.open("reference") as session:
        session.dispatch(saxpy_program(), a=2.0)
    assert session.closed


class Session:
    """Of another library."""

    def dispatch(self, job: str) -> None:
        raise AssertionError(job)


def test_what_others_call_as_we_do_keeps_its_own_error() -> None:
    def cos(angle: float) -> float:
        return angle

    other: Any = Session()
    uses: list[Callable[[], object]] = [
        lambda: cos(1, 2),  # type: ignore[call-arg]
        lambda: other.dispatch("a", "b"),
        lambda: builtins.open(),  # type: ignore[call-overload]  # noqa: PTH123, SIM115
    ]
    for use in uses:
        with pytest.raises(TypeError) as caught, ProgramBuilder("kernel", workgroup=1):
            use()
        assert type(caught.value) is TypeError
        with pytest.raises(TypeError) as caught, vyre.open("reference"):
            use()
        assert type(caught.value) is TypeError


def test_a_type_error_inside_a_call_of_ours_stays_what_it_is() -> None:
    def failing() -> object:
        raise TypeError("param() takes something else")

    with pytest.raises(TypeError, match="takes something else") as caught, ProgramBuilder("kernel", workgroup=1) as p:
        y = p.inout("y", f32)
        with p.while_(failing):  # type: ignore[arg-type]
            y[0] = 1.0
    assert type(caught.value) is TypeError

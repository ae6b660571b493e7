"""Kernels that are generic over types and sizes are compiled for what they are called with."""

from __future__ import annotations

import sys
from typing import Annotated, Any, TypeVar

import numpy as np
import pytest

import vyre
from support.both_ways import on_reference
from vyre import In, InOut, KernelSourceError, Out, Static, f32, f64, i32, u32
from vyre.domain.errors import InvalidInput

T = TypeVar("T")
S = TypeVar("S")


@vyre.kernel
def scaled(k: T, x: InOut[T]) -> None:
    i = vyre.global_id()
    if T is f32 or T is f64:
        x[i] = x[i] * k + T(0.5)
    else:
        x[i] = x[i] * k + T(1)


@vyre.kernel
def converted(x: In[S], y: InOut[T]) -> None:
    i = vyre.global_id()
    y[i] = T(x[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint32, np.int64])
def test_types_follow_from_arrays(dtype: Any) -> None:
    x = np.arange(5, dtype=dtype)
    _, found = on_reference(scaled, dtype(3), x, lanes=5)
    expected = x * dtype(3) + dtype(0.5 if np.issubdtype(dtype, np.floating) else 1)
    assert found.dtype == dtype and found.tolist() == expected.tolist()


def test_each_combination_of_types_is_a_program() -> None:
    one, other = converted.specialize(S=f32, T=i32), converted.specialize(S=i32, T=f32)
    assert one.digest != other.digest
    assert converted.specialize(S=f32, T=i32) is one
    with pytest.raises(vyre.VyreError, match="generic over"):
        converted.program  # noqa: B018


def test_a_function_sees_the_types_of_its_arguments() -> None:
    @vyre.function
    def squared(v: Any) -> Any:
        return v * v

    @vyre.kernel
    def k(x: In[T], y: InOut[T]) -> None:
        i = vyre.global_id()
        total = 0
        total += squared(x[i])
        y[i] = total

    for dtype in (np.float32, np.int32):
        _, found = on_reference(k, np.arange(4, dtype=dtype), np.zeros(4, dtype), lanes=4)
        assert found.tolist() == [0, 1, 4, 9]


def test_sizes_are_part_of_the_program() -> None:
    @vyre.kernel
    def k(y: InOut[u32], n: Static[int], f: Static[float], flag: Static[bool]) -> None:
        memory = vyre.private_array(u32, n)
        for j in vyre.static(range(n)):
            memory[j] = j
        y[0] = memory[n - 1] if flag else u32(f)

    (y, *_) = on_reference(k, np.zeros(1, np.uint32), 4, 9.5, True)
    assert y[0] == 3
    (y, *_) = on_reference(k, np.zeros(1, np.uint32), 4, 9, False)
    assert y[0] == 9
    assert k.specialize(n=2, f=1.0, flag=True).digest != k.specialize(n=3, f=1.0, flag=True).digest


def test_an_operation_that_a_type_does_not_have_is_an_error_of_that_type_only() -> None:
    @vyre.kernel
    def k(y: InOut[T]) -> None:
        y[0] = y[0] << 1

    assert on_reference(k, np.ones(1, np.int32))[0][0] == 2
    with pytest.raises(KernelSourceError, match="`<<` is not defined for f32"):
        on_reference(k, np.ones(1, np.float32))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters in brackets are of CPython 3.12")
def test_type_parameters_in_brackets(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """import vyre
from vyre import InOut

@vyre.kernel
def scaled[T](k: T, x: InOut[T]) -> None:
    i = vyre.global_id()
    x[i] = x[i] * k + T(1)
"""
    (tmp_path / "bracketed.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import bracketed  # type: ignore[import-not-found]

    _, found = on_reference(bracketed.scaled, np.float32(2), np.arange(3, dtype=np.float32), lanes=3)
    assert found.tolist() == [1, 3, 5]


REAL = TypeVar("REAL", f32, f64)
WHOLE = TypeVar("WHOLE", bound=np.int32)


@pytest.mark.parametrize("variable", [REAL, WHOLE], ids=str)
def test_constraints_and_bounds_are_enforced(variable: Any) -> None:
    def named(x: In[variable], y: InOut[variable]) -> None:
        y[0] = x[0]

    k = vyre.kernel(named)
    admitted, others = ((f32, f64), (i32, u32)) if variable is REAL else ((i32,), (u32, f32))
    for element in admitted:
        array = np.ones(1, element.numpy_name)
        assert on_reference(k, array, array)[1][0] == 1
        assert k.specialize(**{variable.__name__: element}).name == "named"
    for element in others:
        array = np.ones(1, element.numpy_name)
        message = rf"{variable.__name__} of `named` is .*, and the arguments are {element.text}\. Fix: pass arrays"
        with pytest.raises(InvalidInput, match=message):
            on_reference(k, array, array)
        with pytest.raises(InvalidInput, match=message):
            k.specialize(**{variable.__name__: element})


def test_specialization_values_name_types_that_no_argument_tells() -> None:
    @vyre.kernel
    def doubled(x: In[f32], y: Annotated[Out[T], vyre.like("x")]) -> None:
        i = vyre.global_id()
        if i < len(x):
            y[i] = x[i] * f32(2)

    x = np.arange(5, dtype=np.float32)
    with vyre.open("reference") as session:
        for element in (vyre.f16, f32):
            chosen = {"T": element}
            results = [
                session.dispatch(doubled, {"x": x}, spec=chosen),
                session.dispatch(doubled, {"x": x}, vyre.DispatchConfig(spec=vyre.SpecMap(chosen))),
                session.submit(doubled, {"x": x}, spec=chosen).result(60),
                session.compile(doubled, spec=chosen)({"x": x}),
            ]
            for result in results:
                assert result["y"].dtype == element.numpy_name and result["y"].tolist() == (2 * x).tolist()
        with pytest.raises(InvalidInput, match=r'follows from none of the arguments.*spec=\{"T": f32\}'):
            session.dispatch(doubled, {"x": x})
        with pytest.raises(InvalidInput, match=r"`x` of converted holds f32, and S is i32 already"):
            session.dispatch(converted, {"x": x, "y": x}, spec={"S": i32})
        with pytest.raises(InvalidInput, match=r"T=3 is no type"):
            session.dispatch(doubled, {"x": x}, spec={"T": 3})
        with pytest.raises(vyre.InvalidConfig, match="no specialization constant 'n'"):
            session.dispatch(doubled, {"x": x}, spec={"T": f32, "n": 3})

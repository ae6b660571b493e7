"""Inputs that are no NumPy arrays: arrays of other libraries by their protocols, and numbers in lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import vyre
from support.foreign_arrays import CUDA, Array, ArrowArray, CudaArray, Described, Lender, Series, Tensor
from support.small_programs import saxpy_program
from vyre import In, InOut, ProgramBuilder, ScalarType, f32, global_id
from vyre.domain.errors import InvalidInput

X = np.arange(8, dtype=np.float32)
Y = np.ones(8, dtype=np.float32)
PROGRAM = saxpy_program()


@pytest.fixture(params=["reference", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


GOOD: dict[str, Callable[[Array], Any]] = {
    "a tensor": Tensor,
    "a series": Series,
    "an array of Arrow": ArrowArray,
    "a packed array of Arrow": lambda array: ArrowArray(array, packed=True),
    "described memory": Described,
    "a capsule without a version": Lender,
    "a capsule of version 1": lambda array: Lender(array, version=(1, 1)),
    "a later minor version": lambda array: Lender(array, version=(1, 9)),
    "strides of a contiguous array": lambda array: Lender(array, strides=(1,)),
    "a list": lambda array: array.tolist(),
    "a tuple": lambda array: tuple(array.tolist()),
    "whole numbers in a list": lambda array: [int(each) for each in array],
    "a list of NumPy scalars": list,
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
def test_what_may_be_passed(session: vyre.Session, make: Callable[[Array], Any]) -> None:
    result = session.dispatch(PROGRAM, {"a": 2.0, "x": make(X), "y": make(Y)})
    np.testing.assert_array_equal(result["y"], 2 * X + Y)
    assert result["y"].shape == (8,)


@pytest.mark.parametrize("make", [Tensor, Series, Described, np.ndarray.tolist])
def test_an_update_has_the_shape_of_what_was_passed(make: Callable[[Array], Any]) -> None:
    with vyre.open("reference") as session:
        result = session.dispatch(PROGRAM, {"a": 2.0, "x": X, "y": make(Y.reshape(2, 4))})
        np.testing.assert_array_equal(result["y"], (2 * X + Y).reshape(2, 4))


def test_memory_is_shared_and_not_copied() -> None:
    with vyre.open("cpu", cache=False) as session:
        for make in (Tensor, Described, Lender):
            x = X.copy()
            bound = session.bind(PROGRAM, [2.0, make(x), Y])
            x[:] = 5
            np.testing.assert_array_equal(bound()["y"], np.full(8, 11, np.float32))


def test_memory_is_lent_once_for_each_dispatch_and_given_back() -> None:
    tensor, lender = Tensor(Y), Lender(X)
    with vyre.open("cpu", cache=False) as session:
        for number in range(1, 4):
            session.dispatch(PROGRAM, {"a": 2.0, "x": lender, "y": tensor})
            assert (tensor.exports, lender.returned) == (number, number)


def test_every_type_of_elements_in_lists(session: vyre.Session) -> None:
    values: dict[ScalarType, list[Any]] = {
        ScalarType.U8: [0, 255], ScalarType.I8: [-128, 127], ScalarType.U16: [0, 65535], ScalarType.I16: [-5, 5],
        ScalarType.U32: [0, 2**32 - 1], ScalarType.I32: [-(2**31), 2**31 - 1], ScalarType.U64: [1, 2**64 - 1],
        ScalarType.I64: [-(2**63), 2**63 - 1], ScalarType.F16: [0.5, 65504.0], ScalarType.F32: [1, 0.1],
        ScalarType.F64: [1e300, -2], ScalarType.BOOL: [True, False], ScalarType.BOOL8: [False, True],
    }  # fmt: skip
    for kind, given in values.items():
        with ProgramBuilder("copied", workgroup=2) as p:
            x = p.input("x", kind)
            y = p.output("y", kind, like="x")
            i = p.global_id()
            with p.if_(i < x.length):
                y[i] = x[i]
        found = session.dispatch(p.build(), [given])["y"]
        np.testing.assert_array_equal(found, np.array(given, found.dtype))
        assert session.dispatch(p.build(), [[]])["y"].size == 0


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "a tensor that requires a gradient": (lambda: Tensor(X, grad=True), r"becomes no array.*detach\(\)"),
    "a tensor on a device": (lambda: Tensor(X, CUDA), r"in the memory of a device.*session\.adopt"),
    "an array of CuPy": (CudaArray, r"in the memory of a device.*session\.adopt"),
    "missing values": (lambda: ArrowArray(X, 2), r"2 missing values"),
    "another type": (lambda: Series(X.astype(np.float64)), r"`x` holds f32, got an array of float64"),
    "objects": (lambda: Series(np.array([1, None], object)), r"`x` holds Python objects"),
    "gaps": (lambda: Tensor(np.arange(16, dtype=np.float32)[::2]), r"not C-contiguous.*strides \(8,\)"),
    "strides of another layout": (lambda: Lender(X, shape=(2, 4), strides=(1, 2)), r"not C-contiguous"),
    "strides that go back": (lambda: Described(X, strides=(-4,)), r"not C-contiguous|no memory|describes no array"),
    "a negative size by DLPack": (lambda: Lender(X, shape=(-8,)), r"fails to export.*Error"),
    "more axes than there can be": (lambda: Lender(X, ndim=1000), r"fails to export"),
    "negative axes": (lambda: Lender(X, ndim=-1), r"fails to export|holds f32|axes"),
    "elements in lanes": (lambda: Lender(X, lanes=4), r"fails to export"),
    "elements of 4 bits": (lambda: Lender(X, bits=4), r"fails to export"),
    "bfloat16": (lambda: Lender(X, code=4, bits=16), r"fails to export.*bfloat16 as raw uint16"),
    "a later major version": (lambda: Lender(X, version=(9, 0)), r"fails to export.*version"),
    "freed memory by DLPack": (lambda: Lender(X, address=None), r"no memory at 0x0.*freed"),
    "a capsule used twice": (lambda: _used(Lender(X, twice=True)), r"fails to export"),
    "no capsule": (lambda: Lender(X, returns=7), r"fails to export"),
    "a device that raises": (lambda: _Raising(), r"tells no device.*ValueError: gone"),
    "a negative size": (lambda: Described(X, shape=(-1,)), r"describes no array.*shape is \(-1,\)"),
    "a size that is no int": (lambda: Described(X, shape=(8.0,)), r"describes no array.*shape"),
    "a shape beyond the address space": (lambda: Described(X, shape=(2**62,)), r"describes no array|no memory"),
    "a shape far beyond the memory": (lambda: Described(X, shape=(2**40,)), r"no memory at"),
    "freed memory": (lambda: Described(X, data=(0, False)), r"no memory at 0x0.*freed|describes no array.*NULL"),
    "memory that is not there": (lambda: Described(X, data=(4096, False)), r"no memory at 0x1000.*freed"),
    "a negative address": (lambda: Described(X, data=(-8, False)), r"describes no array|no memory"),
    "no version": (lambda: Described(X, version=None), r"version is None, not 3"),
    "another version": (lambda: Described(X, version=2), r"version is 2, not 3"),
    "a type that is none": (lambda: Described(X, typestr="?x"), r"describes no array"),
    "a number for a type": (lambda: Described(X, typestr=7), r"describes no array"),
    "a class": (lambda: np.float32, r"offers no bytes"),
    "rows of different lengths": (lambda: [[1.0], [1.0, 2.0]], r"`x` holds f32.*rows of one length"),
    "texts": (lambda: ["1"], r"the list is one of <U1"),
    "None in a list": (lambda: [1.0, None], r"`x` holds f32|Python objects"),
    "complex numbers": (lambda: [1j], r"the list is one of complex128"),
    "truth values for numbers": (lambda: [True], r"the list is one of bool"),
    "beyond f32": (lambda: [1.0, 1e39], r"has 1e\+39 at place 1"),
    "a whole number beyond f32": (lambda: [10**400], r"`x` holds f32.*fit"),
}


class _Raising(Series):
    def __init__(self) -> None:
        super().__init__(X)

    def __dlpack_device__(self) -> tuple[int, int]:
        raise ValueError("gone.")


def _used(lender: Lender) -> Lender:
    np.from_dlpack(lender)
    return lender


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
def test_what_may_not_be_passed(make: Callable[[], Any], message: str) -> None:
    with vyre.open("reference") as session, pytest.raises(InvalidInput, match=message) as caught:
        session.dispatch(PROGRAM, [2.0, make(), Y])
    assert "`x`" in str(caught.value) and "Fix: " in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (ScalarType.U8, [1, 256], r"has 256 at place 1"),
        (ScalarType.U32, [[1, 2], [3, -1]], r"has -1 at place 3"),
        (ScalarType.I64, [1, 2**63], r"has 9223372036854775808 at place 1"),
        (ScalarType.U64, [1, 2**64], r"at place 1"),
        (ScalarType.I32, [1.0], r"the list is one of float64"),
        (ScalarType.BOOL, [1, 0], r"the list is one of int64"),
        (ScalarType.BF16, [1.0], r"raw bits"),
        (ScalarType.F16, [65520.0], r"has 65520.0 at place 0"),
    ],
)
def test_numbers_of_lists_that_do_not_fit(kind: ScalarType, values: list[Any], message: str) -> None:
    with ProgramBuilder("none", workgroup=1) as p:
        p.input("x", kind)
        y = p.output("y", vyre.u32, 1)
        y[0] = 1
    with vyre.open("reference") as session, pytest.raises(InvalidInput, match=message) as caught:
        session.dispatch(p.build(), [values])
    assert "`x`" in str(caught.value) and "Fix: " in str(caught.value)


@vyre.kernel
def added(x: In[f32], y: InOut[f32]) -> None:
    i = global_id()
    if i < len(y):
        y[i] = y[i] + x[i]


def test_kernels_of_python_take_them(session: vyre.Session) -> None:
    with session:
        for make in GOOD.values():
            y = Y.copy()
            added(make(X), y)
            np.testing.assert_array_equal(y, X + 1)

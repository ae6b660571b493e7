"""Runs kernels in plain Python twice: as programs on the reference, and as the Python functions that they are."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

import vyre
from vyre.app.kernels.kernel import Kernel

Arrays = dict[str, Any]


def on_reference(kernel: Kernel[...], *arguments: Any, lanes: int = 1) -> tuple[Any, ...]:
    """Returns the arguments after a call of the kernel with so many lanes on the reference; arrays are copied."""
    copies = tuple(np.array(one) if isinstance(one, np.ndarray) else one for one in arguments)
    with vyre.open("reference"):
        kernel.over(lanes)(*copies)
    return copies


def as_python(kernel: Kernel[...], *arguments: Any, lanes: int = 1) -> tuple[Any, ...]:
    """Returns the arguments after Python has run the function for one lane after the other; arrays are copied.

    Elements are scalars of NumPy, which have the types of the kernel's values.
    """
    copies = tuple(np.array(one) if isinstance(one, np.ndarray) else one for one in arguments)
    function = kernel.__wrapped__
    assert isinstance(function, FunctionType)
    for lane in range(lanes):
        names = {**function.__globals__, **_stand_ins(lane)}
        body = FunctionType(function.__code__, names, None, function.__defaults__, function.__closure__)
        with np.errstate(all="ignore"):
            body(*copies)
    return copies


def _stand_ins(lane: int) -> dict[str, Any]:
    """Returns what the names of vyre mean to Python for one lane."""

    def memory(dtype: Callable[[int], Any], shape: int | tuple[int, ...]) -> Any:
        return np.full(shape, dtype(0))

    types = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64}
    module = SimpleNamespace(
        global_id=lambda axis=0: np.uint32(lane),
        static=vyre.static,
        private_array=memory,
        select=lambda test, a, b: a if test else b,
        **types,
    )
    return {"vyre": module, **types}


def assert_agrees(kernel: Kernel[...], *arguments: Any, lanes: int = 1) -> None:
    """Asserts that the kernel and its Python function leave the same bits in all arrays."""
    found = on_reference(kernel, *arguments, lanes=lanes)
    expected = as_python(kernel, *arguments, lanes=lanes)
    changed = False
    for given, one, other in zip(arguments, found, expected, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
            changed |= not np.array_equal(given, other, equal_nan=True)
    assert changed, "the function changes nothing, so the test cannot fail"

"""Calls of kernels with arrays of NumPy and with resident arrays, on the default session and on sessions of their own.

mypy and pyright, both strict, find nothing in this file (tests/unit/frontend/test_typing.py).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

import vyre
from vyre import In, InOut, Kernel, Out, Program, f32, like


@vyre.kernel(workgroup=256)
def saxpy(a: f32, x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = a * x[i] + y[i]


@vyre.kernel
def doubled(x: In[f32], y: Annotated[Out[f32], like("x")]) -> None:
    i = vyre.global_id()
    y[i] = 2 * x[i]


@vyre.kernel(workgroup=(8, 8))
def transposed(x: In[f32, Literal[2]], y: InOut[f32, Literal[2]]) -> None:
    row, column = vyre.global_id(1), vyre.global_id(0)
    y[row, column] = x[column, row]


def called() -> list[float]:
    xs = np.arange(8, dtype=np.float32)
    ys = np.ones(8, np.float32)
    saxpy(2.0, xs, ys)
    saxpy(np.float32(1), x=xs, y=ys)
    saxpy[1](2, xs, ys)
    saxpy.over(8)(2.0, xs, y=ys)
    given: NDArray[np.float32] = doubled(xs)
    doubled.over(len(xs))(xs, ys)
    image = np.arange(6, dtype=np.float32).reshape(2, 3)
    turned = np.zeros((3, 2), np.float32)
    transposed(image, turned)
    return [float(given[1]), float(ys[1]), float(turned[1, 0])]


def on_a_session(kernels: list[Kernel[...]], session: vyre.Session) -> list[Program]:
    with session:
        xs = np.zeros(8, np.float32)
        for one in kernels:
            one.compile()
        held = session.resident(xs)
        saxpy(1.0, xs, held)
        answer: NDArray[np.float32] = session.dispatch(saxpy, {"a": 2.0, "x": xs, "y": xs})["y"]
        assert answer.tolist() == xs.tolist()
        session.dispatch(saxpy.over(8), {"a": 2.0, "x": xs, "y": xs})
        session.bind(saxpy[1], {"a": 2.0, "x": xs, "y": xs})()
        pipeline = saxpy.compile(session)
        results: dict[str, NDArray[Any]] = {"y": pipeline({"a": 2.0, "x": xs, "y": xs})["y"]}
        assert results["y"].shape == (8,)
    return [one.program for one in kernels]

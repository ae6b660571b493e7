"""Each construct of the language computes what NumPy does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import vyre
from array_compiler import Executable, ParseError

BACKENDS = ("cpu", "reference", "reference-scalar", "cuda-machine")
X = np.linspace(-2, 2, 35, dtype=np.float32).reshape(5, 7)
K = np.arange(150, dtype=np.int32) * 37 % 101 - 20


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(str(request.param)) as opened:
        yield opened


def test_a_chain_of_elementwise_functions_is_one_kernel(session: vyre.Session) -> None:
    text = """
    in x: f32[5, 7]
    in row: f32[7]
    let half = x * 0.5 + row
    out y = where(x > 0.0, half - 1.0, abs(half))
    """
    row = np.arange(7, dtype=np.float32)
    with Executable(session, text) as compiled:
        (result,) = compiled.run({"x": X, "row": row}).values()
    half = X * np.float32(0.5) + row
    assert len(compiled.kernels) == 1
    assert np.array_equal(result, np.where(X > 0, half - 1, abs(half)))


def test_what_looks_at_many_elements(session: vyre.Session) -> None:
    text = """
    in x: f32[5, 7]
    in k: i32[150]
    out rows = sum(x * 2.0, 1)
    out columns = greatest(x, 0)
    out total = sum(k)
    out low = least(k)
    out sums = scan(k)
    out counts = histogram(k & 15, 16)
    out product = x @ transpose(x)
    out around = shift(x, 1, 0) + shift(x, 0, -1) - x * 4.0
    """
    with Executable(session, text) as compiled:
        result = compiled.run({"x": X, "k": K})
    product = np.zeros((5, 5), np.float32)
    for j in range(7):
        product = product + X[:, j, None] * X[None, :, j]
    padded = np.pad(X, 1)
    assert np.array_equal(result["rows"], np.add.accumulate(X * np.float32(2), 1)[:, -1])
    assert np.array_equal(result["columns"], X.max(0))
    assert result["total"] == K.sum() and result["low"] == K.min()
    assert np.array_equal(result["sums"], K.cumsum())
    assert np.array_equal(result["counts"], np.bincount(K & 15, minlength=16))
    assert np.array_equal(result["product"], product)
    assert np.array_equal(result["around"], padded[2:, 1:-1] + padded[1:-1, :-2] - X * np.float32(4))


def test_a_state_stays_on_the_device_from_step_to_step(session: vyre.Session) -> None:
    text = """
    in cells: u32[6, 8]
    in seed: bool
    state grid: u32[6, 8]
    let now = where(seed, cells, grid)
    let rows = shift(now, -1, 0) + now + shift(now, 1, 0)
    let around = shift(rows, 0, -1) + rows + shift(rows, 0, 1) - now
    next grid = u32((around == 3) | ((around == 2) & (now == 1)))
    out alive = sum(now)
    """
    glider = np.zeros((6, 8), np.uint32)
    glider[0, 1] = glider[1, 2] = glider[2, 0] = glider[2, 1] = glider[2, 2] = 1
    with Executable(session, text) as compiled:
        compiled.run({"cells": glider, "seed": np.array(True)})
        result = compiled.run({"cells": glider, "seed": np.array(False)}, steps=7)
    assert result["alive"] == 5
    assert np.array_equal(result["grid"][2:5, 2:5], glider[:3, :3]) and result["grid"].sum() == 5


def test_long_chains_are_cut_into_kernels() -> None:
    lines = ["in x: i32[5]", "let a0 = x", *(f"let a{n + 1} = a{n} * 3 + {n}" for n in range(300)), "out y = a300"]
    expected = X.ravel()[:5].view(np.int32)
    with vyre.open("reference") as session, Executable(session, "\n".join(lines)) as compiled:
        (result,) = compiled.run({"x": expected}).values()
    for n in range(300):
        expected = expected * np.int32(3) + np.int32(n)
    assert np.array_equal(result, expected) and 2 < len(compiled.kernels) < 20


@pytest.mark.parametrize("terms", [140, 100_000])
def test_long_lines_are_refused_by_name_or_run(terms: int) -> None:
    text = "in x: i32[5]\nout y = " + " + ".join(["x"] * terms)
    x = np.arange(5, dtype=np.int32)
    with vyre.open("reference") as session:
        if terms > 150:
            with pytest.raises(ParseError, match="the line has more than 300 parts"):
                Executable(session, text)
            return
        with Executable(session, text) as compiled:
            assert np.array_equal(compiled.run({"x": x})["y"], x * np.int32(terms))

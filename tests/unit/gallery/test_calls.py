"""Kernels of the gallery called as functions, as their users call them, give the independent answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import vyre
from vyre.gallery.applications import (
    blur,
    byte_histogram,
    game_of_life,
    half_matmul,
    mandelbrot,
    prefix_scan,
    sobel,
    spmv,
    stack_machine,
    utf8_decode,
)
from vyre.gallery.example import Array, Case


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    with vyre.open("reference"):
        yield


def answer(case: Case) -> Array:
    return next(iter(case.expected.values()))


def blurred(case: Case) -> Any:
    return blur.blur(case.inputs["picture"])


def multiplied(case: Case) -> Any:
    return spmv.spmv(**case.inputs)


def half_multiplied(case: Case) -> Any:
    c = np.zeros_like(answer(case))
    half_matmul.half_matmul(case.inputs["a"], case.inputs["b"], c)
    return c


def edges(case: Case) -> Any:
    image = np.asarray(case.inputs["image"])
    height, width = image.shape
    return sobel.sobel.over((width, height))(width, height, image)


def twentieth_generation(case: Case) -> Any:
    cells = np.asarray(case.inputs["cells"])
    height, width = cells.shape
    for _ in range(game_of_life.GENERATIONS):
        cells = game_of_life.life.over((width, height))(width, height, cells)
    return cells


def decoded(case: Case) -> Any:
    points = utf8_decode.utf8_decode(case.inputs["text"])
    return points[points != utf8_decode.NO_CHARACTER]


def interpreted(case: Case) -> Any:
    return stack_machine.stack_machine(**case.inputs)


def summed(case: Case) -> Any:
    sums, _ = prefix_scan.prefix_scan(case.inputs["data"])
    return sums


def counted(case: Case) -> Any:
    counts = np.zeros(256, np.uint32)
    byte_histogram.byte_histogram[3](case.inputs["text"], counts)
    return counts


def escaped(case: Case) -> Any:
    height, width = mandelbrot.SHAPE
    view, counts = mandelbrot.VIEW, np.zeros(mandelbrot.SHAPE, np.uint32)
    mandelbrot.mandelbrot.over((width, height))(width, view["rounds"], view["left"], view["top"], view["step"], counts)
    return counts


CALLS: Final[tuple[tuple[Callable[[], Case], Callable[[Case], Any]], ...]] = (
    (blur.case, blurred),
    (spmv.case, multiplied),
    (half_matmul.case, half_multiplied),
    (sobel.case, edges),
    (game_of_life.case, twentieth_generation),
    (utf8_decode.case, decoded),
    (stack_machine.case, interpreted),
    (prefix_scan.case, summed),
    (byte_histogram.case, counted),
    (mandelbrot.case, escaped),
)


@pytest.mark.parametrize(("case", "call"), [pytest.param(*row, id=row[1].__name__) for row in CALLS])
def test_a_call_gives_the_independent_answer(case: Callable[[], Case], call: Callable[[Case], Any]) -> None:
    checked = case()
    found = call(checked)
    assert found.dtype == answer(checked).dtype
    assert np.array_equal(found, answer(checked), equal_nan=found.dtype.kind == "f")

"""The Mandelbrot set: the number of rounds until the orbit leaves the circle of radius 2, per pixel."""

from __future__ import annotations

from typing import Final, TypedDict, Unpack

import numpy as np

import vyre
from vyre import DispatchConfig, Out, Program, f32, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, Inputs, Outputs


class View(TypedDict):
    """A view: the picture's upper left corner, the distance of its pixels, and the largest number of rounds."""

    left: float
    top: float
    step: float
    rounds: int


@vyre.kernel(workgroup=(16, 16))
def mandelbrot(width: u32, rounds: u32, left: f32, top: f32, step: f32, counts: Out[u32]) -> None:
    """Each lane counts the rounds of one pixel."""
    x, y = vyre.global_id(0), vyre.global_id(1)
    if x < width:
        cx, cy = left + f32(x) * step, top + f32(y) * step
        zx, zy = 0.0, 0.0
        n = 0
        while n < rounds and zx * zx + zy * zy <= 4.0:
            zx, zy = zx * zx - zy * zy + cx, 2.0 * zx * zy + cy
            n += 1
        counts[y * width + x] = n


def escape_counts(session: Dispatcher, program: Program, shape: tuple[int, int], **view: Unpack[View]) -> Array:
    """Returns the number of rounds of each pixel of a picture of ``shape`` (height, width), at most ``rounds``."""
    height, width = shape
    inputs: Inputs = {
        "width": width,
        "rounds": view["rounds"],
        "left": view["left"],
        "top": view["top"],
        "step": view["step"],
    }
    config = DispatchConfig(extent=(width, height), output_counts={"counts": height * width})
    return session.dispatch(program, inputs, config)["counts"]


def counts_by_numpy(shape: tuple[int, int], *, left: float, top: float, step: float, rounds: int) -> Array:
    """Returns the same counts from NumPy, every operation rounded to f32 in the same order."""
    height, width = shape
    with np.errstate(over="ignore", invalid="ignore"):
        cx = np.float32(left) + np.arange(width).astype(np.float32) * np.float32(step)
        cy = (np.float32(top) + np.arange(height).astype(np.float32) * np.float32(step))[:, None]
        zx, zy, n = np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.uint32)
        for _ in range(rounds):
            inside = zx * zx + zy * zy <= np.float32(4.0)
            zx, zy = (
                np.where(inside, zx * zx - zy * zy + cx, zx),
                np.where(inside, np.float32(2.0) * zx * zy + cy, zy),
            )
            n += inside
    return n


VIEW: Final[View] = {"left": -2.2, "top": -1.2, "step": 0.0375, "rounds": 40}
SHAPE: Final = (64, 80)


def case() -> Case:
    """Returns the counts of ``VIEW``; the kernel takes no arrays."""
    return Case({}, {"counts": counts_by_numpy(SHAPE, **VIEW)})


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Computes the counts of ``VIEW`` and returns them."""
    return {"counts": escape_counts(session, program, SHAPE, **VIEW)}


EXAMPLE = Example("mandelbrot", "Mandelbrot escape counts", mandelbrot, case, "NumPy", run)

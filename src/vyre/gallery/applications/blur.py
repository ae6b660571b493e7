"""Blur of a grey picture: the mean of the pixels in a square around each pixel, read through 2-D views."""

from __future__ import annotations

import numpy as np

from vyre import DispatchConfig, Program, ProgramBuilder, i32, select, u8, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, Inputs, Outputs, random_u32

RADIUS = 2


def blur() -> Program:
    """Builds the kernel: each lane computes one pixel; pixels outside the picture do not count."""
    with ProgramBuilder("blur", workgroup=(16, 8)) as p:
        width = p.param("width", u32)
        source = p.input("source", u8)
        blurred = p.output("blurred", u8, like=source)
        picture = p.view2d(source, width)
        result = p.view2d(blurred, width)
        rows, columns = (axis.cast(i32) for axis in picture.shape)
        x, y = p.let(p.global_id(0).cast(i32), "x"), p.let(p.global_id(1).cast(i32), "y")
        total = p.var(0, "total")
        count = p.var(0, "count")
        with (
            p.for_(-RADIUS, RADIUS + 1, name="down") as down,
            p.for_(-RADIUS, RADIUS + 1, name="right") as right,
        ):
            # A pixel outside the picture, also one with a negative coordinate, is read as 0.
            row, column = y + down, x + right
            total += picture[row, column]
            inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            count += select(inside, 1, 0)
        result[y, x] = (total + count / 2) / count
    return p.build()


def blur_picture(session: Dispatcher, program: Program, picture: Array) -> Array:
    """Returns the blurred picture (u8, height x width)."""
    height, width = picture.shape
    inputs: Inputs = {"width": width, "source": picture}
    return session.dispatch(program, inputs, DispatchConfig(extent=(width, height)))["blurred"]


def blur_by_numpy(picture: Array) -> Array:
    """Returns the same picture from NumPy, with shifted arrays."""

    def squares(pixels: Array) -> Array:
        padded = np.pad(pixels, RADIUS)
        height, width = pixels.shape
        side = range(2 * RADIUS + 1)
        shifted = [padded[down : down + height, right : right + width] for down in side for right in side]
        total: Array = np.sum(shifted, axis=0)
        return total

    count = squares(np.ones(picture.shape, np.int64))
    blurred: Array = ((squares(picture.astype(np.int64)) + count // 2) // count).astype(np.uint8)
    return blurred


def case() -> Case:
    """Returns a random picture, and the blurred one from NumPy."""
    picture = (random_u32(61, 53 * 38) >> 24).astype(np.uint8).reshape(38, 53)
    return Case({"picture": picture}, {"blurred": blur_by_numpy(picture)})


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Blurs the picture and returns it."""
    return {"blurred": blur_picture(session, program, np.asarray(case.inputs["picture"]))}


EXAMPLE = Example("blur", "blur of a picture through 2-D views", blur, case, "NumPy", run)

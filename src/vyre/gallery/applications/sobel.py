"""Edge detection in a grey picture: the magnitude of the Sobel gradient; border pixels are replicated outward."""

from __future__ import annotations

import math

import numpy as np

import vyre
from vyre import DispatchConfig, In, Out, Program, ProgramBuilder, f32, i32, like, min_, round_, sat_sub, sqrt, u8, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, Inputs, answered_by, random_u32


@vyre.kernel(workgroup=(16, 16))
def sobel(width: u32, height: u32, image: In[u8], edges: Out[u8, like("image")]) -> None:
    """Each lane computes the gradient magnitude of one pixel."""
    x, y = vyre.global_id(0), vyre.global_id(1)
    if x < width and y < height:
        left, right = vyre.sat_sub(x, 1), min(x + 1, width - 1)
        above, here, below = vyre.sat_sub(y, 1) * width, y * width, min(y + 1, height - 1) * width
        a, b, c = i32(image[above + left]), i32(image[above + x]), i32(image[above + right])
        d, f = i32(image[here + left]), i32(image[here + right])
        g, h, i = i32(image[below + left]), i32(image[below + x]), i32(image[below + right])
        across = f32((c + 2 * f + i) - (a + 2 * d + g))
        down = f32((g + 2 * h + i) - (a + 2 * b + c))
        magnitude = u32(vyre.round_(math.sqrt(across * across + down * down)))
        edges[here + x] = min(magnitude, 255)


def sobel_by_builder() -> Program:
    """Builds the same program with a ``ProgramBuilder``."""
    with ProgramBuilder("sobel", workgroup=(16, 16)) as p:
        width = p.param("width", u32)
        height = p.param("height", u32)
        image = p.input("image", u8)
        edges = p.output("edges", u8, like=image)
        x, y = p.let(p.global_id(0), "x"), p.let(p.global_id(1), "y")
        with p.if_((x < width) & (y < height)):
            left, right = p.let(sat_sub(x, 1), "left"), p.let(min_(x + 1, width - 1), "right")
            above = p.let(sat_sub(y, 1) * width, "above")
            here = p.let(y * width, "here")
            below = p.let(min_(y + 1, height - 1) * width, "below")
            a, b, c = (p.let(image[above + column].cast(i32)) for column in (left, x, right))
            d, f = (p.let(image[here + column].cast(i32)) for column in (left, right))
            g, h, i = (p.let(image[below + column].cast(i32)) for column in (left, x, right))
            across = p.let(((c + 2 * f + i) - (a + 2 * d + g)).cast(f32), "across")
            down = p.let(((g + 2 * h + i) - (a + 2 * b + c)).cast(f32), "down")
            magnitude = p.let(round_(sqrt(across * across + down * down)).cast(u32), "magnitude")
            edges[here + x] = min_(magnitude, 255)
    return p.build()


def edges(session: Dispatcher, program: Program, image: Array) -> Array:
    """Returns the gradient magnitude of a picture (u8, height x width), clamped to 255."""
    height, width = image.shape
    inputs: Inputs = {"width": width, "height": height, "image": image}
    result = session.dispatch(program, inputs, DispatchConfig(extent=(width, height)))
    return result["edges"]


def edges_by_numpy(image: Array) -> Array:
    """Returns the same picture from NumPy, with shifted arrays; sums of squares below 2^24 are exact in f32."""
    padded = np.pad(image.astype(np.int64), 1, mode="edge")
    weighted_rows = padded[:-2] + 2 * padded[1:-1] + padded[2:]
    weighted_columns = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    across = weighted_rows[:, 2:] - weighted_rows[:, :-2]
    down = weighted_columns[2:] - weighted_columns[:-2]
    magnitude = np.sqrt((across**2 + down**2).astype(np.float32))
    rounded = np.floor(magnitude.astype(np.float64) + 0.5)
    clamped: Array = np.minimum(rounded, 255).astype(np.uint8)
    return clamped


def case() -> Case:
    """Returns a random picture, and its edges from NumPy."""
    image = (random_u32(43, 61 * 45) >> 24).astype(np.uint8).reshape(45, 61)
    return Case({"image": image}, {"edges": edges_by_numpy(image)})


EXAMPLE = Example(
    "sobel", "edges of a picture (Sobel)", sobel, case, "NumPy", answered_by(edges, "edges"), builder=sobel_by_builder
)

"""Edge detection in a grey picture: the magnitude of the Sobel gradient; border pixels are replicated outward."""

from __future__ import annotations

import numpy as np

from vyre import DispatchConfig, Program, ProgramBuilder, Value, f32, i32, min_, round_, sat_sub, sqrt, u8, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, Inputs, Outputs, random_u32


def sobel() -> Program:
    """Builds the kernel: each lane computes the gradient magnitude of one pixel."""
    with ProgramBuilder("sobel", workgroup=(16, 16)) as p:
        width = p.param("width", u32)
        height = p.param("height", u32)
        image = p.input("image", u8)
        edges = p.output("edges", u8, like=image)
        x, y = p.global_id(0), p.global_id(1)
        with p.if_((x < width) & (y < height)):
            columns = (sat_sub(x, 1), x, min_(x + 1, width - 1))
            rows = (sat_sub(y, 1), y, min_(y + 1, height - 1))

            def pixel(row: int, column: int) -> Value:
                return image[rows[row] * width + columns[column]].cast(i32)

            (a, b, c), (d, _, f), (g, h, i) = (
                tuple(p.let(pixel(row, column)) for column in range(3)) for row in range(3)
            )
            across = p.let((c + 2 * f + i) - (a + 2 * d + g), "across").cast(f32)
            down = p.let((g + 2 * h + i) - (a + 2 * b + c), "down").cast(f32)
            magnitude = round_(sqrt(across * across + down * down)).cast(u32)
            edges[y * width + x] = min_(magnitude, 255)
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


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Computes the edges of the picture and returns them."""
    return {"edges": edges(session, program, np.asarray(case.inputs["image"]))}


EXAMPLE = Example("sobel", "edges of a picture (Sobel)", sobel, case, "NumPy", run)

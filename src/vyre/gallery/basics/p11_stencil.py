"""Five-point average on a 33 x 17 grid; a backend that contracts or reorders the sum gives other bits."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, f32, u32
from vyre.gallery.example import Case, Example, random_f32

WIDTH, HEIGHT = 33, 17


def stencil() -> Program:
    """Builds the kernel: each inner cell becomes the average of itself and its four neighbours."""
    with ProgramBuilder("stencil", workgroup=64) as p:
        grid = p.input("grid", f32, WIDTH * HEIGHT)
        dims = p.uniform("dims", u32, 2)
        out = p.output("out", f32, WIDTH * HEIGHT)
        i = p.let(p.global_id(), "i")
        with p.if_(i < out.length):
            w = p.let(dims[0], "w")
            h = p.let(dims[1], "h")
            x = p.let(i % w, "x")
            y = p.let(i / w, "y")
            c = p.let(grid[i], "c")
            inner = p.let(((x > 0) & (x + 1 < w)) & ((y > 0) & (y + 1 < h)), "inner")
            with p.if_(inner):
                s1 = p.let(c + grid[i - w], "s1")
                s2 = p.let(s1 + grid[i + w], "s2")
                s3 = p.let(s2 + grid[i - 1], "s3")
                s4 = p.let(s3 + grid[i + 1], "s4")
                out[i] = s4 * 0.2
            with p.else_():
                out[i] = c
    return p.build()


def case() -> Case:
    """Returns a random grid, and the averages from NumPy with the same order of additions."""
    grid = random_f32(13, WIDTH * HEIGHT)
    field = grid.reshape(HEIGHT, WIDTH)
    expected = field.copy()
    sums = field[1:-1, 1:-1] + field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
    expected[1:-1, 1:-1] = sums * np.float32(0.2)
    return Case({"grid": grid, "dims": np.array([WIDTH, HEIGHT], np.uint32)}, {"out": expected.reshape(-1)})


EXAMPLE = Example("P11", "five-point stencil", stencil, case, "NumPy")

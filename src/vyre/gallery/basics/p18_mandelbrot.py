"""Escape counts of the Mandelbrot iteration, every operation rounded on its own."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import Out, f32, u32
from vyre.gallery.example import Case, Example

WIDTH, HEIGHT, ROUNDS = 24, 16, 50


@vyre.kernel(workgroup=64)
def mandelbrot(out: Out[u32, WIDTH * HEIGHT]) -> None:
    """Each lane counts the rounds in which its point stays within radius 2."""
    i = vyre.global_id()
    if i < len(out):
        cx = f32(i % WIDTH) * 0.125 - 2.0
        cy = f32(i // WIDTH) * 0.125 - 1.0
        zx, zy = 0.0, 0.0
        n = 0
        for _ in range(ROUNDS):
            a, b = zx * zx, zy * zy
            if a + b <= 4.0:
                t = a - b + cx
                zy = zx * zy * 2.0 + cy
                zx = t
                n += 1
        out[i] = n


def case() -> Case:
    """Returns the counts from the same iteration in NumPy; the kernel takes no inputs."""
    lanes = np.arange(WIDTH * HEIGHT)
    cx = (lanes % WIDTH).astype(np.float32) * np.float32(0.125) - np.float32(2.0)
    cy = (lanes // WIDTH).astype(np.float32) * np.float32(0.125) - np.float32(1.0)
    zx, zy = np.zeros_like(cx), np.zeros_like(cy)
    n = np.zeros(lanes.size, np.uint32)
    for _ in range(ROUNDS):
        a, b = zx * zx, zy * zy
        inside = a + b <= 4
        zy = np.where(inside, zx * zy * np.float32(2.0) + cy, zy)
        zx = np.where(inside, (a - b) + cx, zx)
        n += inside
    return Case({}, {"out": n})


EXAMPLE = Example("P18", "Mandelbrot escape counts", mandelbrot, case, "NumPy")

"""Conway's Game of Life on a torus: one dispatch per generation."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import DispatchConfig, In, Out, Program, like, u8, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, Outputs

GENERATIONS = 20
R_PENTOMINO = ((0, 1), (0, 2), (1, 0), (1, 1), (2, 1))


@vyre.kernel(workgroup=(16, 16))
def life(width: u32, height: u32, cells: In[u8], next_cells: Out[u8, like("cells")]) -> None:
    """Computes the next generation of a torus of ``width`` x ``height`` cells."""
    x, y = vyre.global_id(0), vyre.global_id(1)
    if x < width and y < height:
        west, east = (x + width - 1) % width, (x + 1) % width
        north, south = (y + height - 1) % height, (y + 1) % height
        around = 0
        for row in (north, y, south):
            for column in (west, x, east):
                around += cells[row * width + column]
        here = y * width + x
        alive = cells[here] != 0
        neighbours = around - cells[here]
        next_cells[here] = 1 if neighbours == 3 or (alive and neighbours == 2) else 0


def generations(session: Dispatcher, program: Program, cells: Array, count: int) -> Array:
    """Returns ``cells`` (u8 0 or 1, height x width) after ``count`` generations."""
    height, width = cells.shape
    config = DispatchConfig(extent=(width, height))
    state = cells
    for _ in range(count):
        inputs = {"width": width, "height": height, "cells": state}
        state = session.dispatch(program, inputs, config)["next_cells"].copy()
    return state


def generations_by_numpy(cells: Array, count: int) -> Array:
    """Returns the same generation from NumPy, with rolled arrays."""
    for _ in range(count):
        shifts = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0)]
        total = sum(np.roll(cells, shift, axis=(0, 1)) for shift in shifts)
        cells = ((total == 3) | ((cells != 0) & (total == 2))).astype(np.uint8)
    return cells


def r_pentomino(height: int, width: int) -> Array:
    """Returns an empty field with an r-pentomino in its middle: five cells that stabilise after 1103 generations."""
    cells = np.zeros((height, width), np.uint8)
    for dy, dx in R_PENTOMINO:
        cells[height // 2 + dy, width // 2 + dx] = 1
    return cells


def case() -> Case:
    """Returns an r-pentomino, and its 20th generation from NumPy."""
    cells = r_pentomino(24, 32)
    return Case({"cells": cells}, {"cells": generations_by_numpy(cells, GENERATIONS)})


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Runs 20 generations and returns the cells."""
    return {"cells": generations(session, program, np.asarray(case.inputs["cells"]), GENERATIONS)}


EXAMPLE = Example("game-of-life", "Conway's Game of Life", life, case, "NumPy", run)

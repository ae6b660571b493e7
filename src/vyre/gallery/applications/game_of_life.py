"""Conway's Game of Life on a torus: one dispatch per generation."""

from __future__ import annotations

import numpy as np

from vyre import DispatchConfig, Program, ProgramBuilder, Value, select, u8, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, Outputs

GENERATIONS = 20
R_PENTOMINO = ((0, 1), (0, 2), (1, 0), (1, 1), (2, 1))


def life() -> Program:
    """Builds the kernel: computes the next generation of a torus of ``width`` x ``height`` cells."""
    with ProgramBuilder("life", workgroup=(16, 16)) as p:
        width = p.param("width", u32)
        height = p.param("height", u32)
        cells = p.input("cells", u8)
        next_cells = p.output("next_cells", u8, like=cells)
        x, y = p.global_id(0), p.global_id(1)
        with p.if_((x < width) & (y < height)):
            columns = ((x + width - 1) % width, x, (x + 1) % width)
            rows = ((y + height - 1) % height, y, (y + 1) % height)
            neighbours: Value = u32(0)
            for r, row in enumerate(rows):
                for c, column in enumerate(columns):
                    if (r, c) != (1, 1):
                        neighbours = neighbours + cells[row * width + column]
            total = p.let(neighbours, "total")
            alive = cells[y * width + x] != 0
            next_cells[y * width + x] = select((total == 3) | (alive & (total == 2)), 1, 0)
    return p.build()


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

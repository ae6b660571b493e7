"""A tree of tasks with a work queue: queens are put on a board row by row, and each task pushes what follows from it.

A task is a board with some rows filled: one byte each for the columns that are taken, and for those that queens attack
along the two diagonals in the next row.
"""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, InOut, Program, u32
from vyre.gallery.applications.queues import drained
from vyre.gallery.example import Case, Dispatcher, Example, Outputs

QUEENS = 6
ALL = (1 << QUEENS) - 1


@vyre.kernel(workgroup=32)
def task_tree(items: In[u32], pushed: InOut[u32], count: InOut[u32], boards: InOut[u32]) -> None:
    """Counts each board in ``boards`` by its filled rows, and pushes those with one more queen."""
    lane = vyre.global_id()
    if lane < len(items):
        board = items[lane]
        columns = board & ALL
        falling = (board >> 8) & ALL
        rising = board >> 16
        boards.atomic_add(vyre.popcount(columns), 1)
        free = ALL & ~(columns | falling | rising)
        place = count.atomic_add(0, vyre.popcount(free))
        while free > 0:
            queen = free & (0 - free)
            free ^= queen
            attacked = ((falling | queen) << 1) & ALL
            pushed[place] = columns | queen | (attacked << 8) | (((rising | queen) >> 1) << 16)
            place += 1


def plain_boards(row: int = 0, queens: tuple[int, ...] = ()) -> list[int]:
    """Returns the number of boards by their filled rows, found by recursion."""
    boards = [0] * (QUEENS + 1)
    boards[row] = 1
    for column in range(QUEENS):
        if row < QUEENS and all(column != c and abs(column - c) != row - r for r, c in enumerate(queens)):
            boards = [a + b for a, b in zip(boards, plain_boards(row + 1, (*queens, column)), strict=True)]
    return boards


def case() -> Case:
    """Returns an empty board, and the boards that follow from it."""
    wanted = np.array(plain_boards(), np.uint32)
    return Case({"boards": np.zeros(QUEENS + 1, np.uint32)}, {"boards": wanted, "tasks": wanted.sum(keepdims=True)})


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Drains the queue in one dispatch; returns the boards by their filled rows, and the number of tasks."""
    results = drained(session, program, case.inputs, np.zeros(1, np.uint32), capacity=128)
    return {"boards": results["boards"], "tasks": results["processed"]}


EXAMPLE = Example(
    "task-tree", "a tree of tasks with a work queue (queens on a board)", task_tree, case, "recursion in Python", run
)

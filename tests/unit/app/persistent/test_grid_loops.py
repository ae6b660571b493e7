"""Grid loops beside persistent engines: an engine refuses them, and a batch of dispatches does without one."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

import vyre
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.program import Program

COUNT: Final = """workgroup_size 4, 1, 1
    buffer x @0 read_write u32[4]
    buffer flag @1 read_write u32[1]
    body {
      let rounds = grid_loop(3u, flag) {
        x[gid.x] = x[gid.x] + 1u
        flag[0u] = 1u
      }
    }"""


def test_an_engine_refuses_a_grid_loop() -> None:
    program = Program.from_text(COUNT)
    given = [np.zeros(4, np.uint32), np.zeros(1, np.uint32)]
    refused = pytest.raises(UnsupportedFeature, match="a grid loop in a persistent engine")
    with vyre.open("cpu") as session, session.persistent(program) as jobs, refused:
        jobs.submit(given)


def test_many_dispatches_do_without_an_engine() -> None:
    program = Program.from_text(COUNT)
    with vyre.open("cpu") as session:
        batch = [[np.full(4, k, np.uint32), np.zeros(1, np.uint32)] for k in range(3000)]
        for _ in range(2):
            found = session.dispatch_many(program, batch)
            assert [result["x"].tolist() for result in found] == [[k + 3] * 4 for k in range(3000)]

"""Lanes that add the same number to one word share an instruction, whichever lanes run together."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from vyre import Program
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.testing import cuda_machine

LANES = 200


def reserving(update: str, lanes: int = 64) -> Program:
    """Every third lane, and then those that are left, reserve a place and store their number there."""
    return Program.from_text(f"""
    workgroup_size {lanes}, 1, 1
    buffer count @0 read_write u32[1]
    buffer out @1 read_write u32[runtime]
    body {{
      if gid.x < {LANES}u {{
        if gid.x % 3u == 0u {{
          let place = {update}
          out[place] = gid.x
        }} else {{
          let place = {update}
          out[place] = gid.x
        }}
      }}
    }}
    """)


@pytest.mark.parametrize(
    ("update", "lanes", "shared"),
    [
        ("atomic_add.relaxed(count, 0u, 1u)", 64, 2),
        ("atomic_add.relaxed(count, 0u, 1u)", 1, 0),  # a warp of one lane
        ("atomic_add(count, 0u, 1u)", 64, 0),  # in an order
        ("atomic_add.relaxed(count, 0u, gid.x)", 64, 0),  # numbers that differ
        ("atomic_add.relaxed(count, gid.x, 1u)", 64, 0),  # words that may differ
        ("atomic_max.relaxed(count, 0u, 1u)", 64, 0),
    ],
)
def test_what_is_shared(update: str, lanes: int, shared: int) -> None:
    text = vyre.emit(reserving(update, lanes), target="sm_80").text
    assert (text.count("activemask"), text.count("shfl")) == (shared, shared)
    assert text.count("atom.") == 2


@pytest.mark.parametrize("lanes", [1, 20, 64])
@pytest.mark.parametrize("options", [RunOptions("lockstep"), RunOptions("reverse"), RunOptions("shuffled", seed=3)])
def test_every_lane_gets_a_place_of_its_own(options: RunOptions, lanes: int) -> None:
    program = reserving("atomic_add.relaxed(count, 0u, 1u)", lanes)
    groups = -(-LANES // lanes)
    with cuda_machine(kernels=options).open() as session:
        inputs = {"count": np.array([5], np.uint32), "out": np.full(LANES + 9, 999, np.uint32)}
        result = session.dispatch(program, inputs, grid=(groups, 1, 1))
    assert result["count"].tolist() == [5 + LANES]
    assert sorted(result["out"].tolist()) == [*range(LANES), *[999] * 9]
    assert (result["out"][:5] == 999).all()

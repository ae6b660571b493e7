"""What a launch needs besides its buffers stays small, however many workgroups, locals and shared bytes there are."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from support.reference.agreement import ENGINE
from vyre.adapters.reference.engine import RunOptions
from vyre.adapters.reference.vector.engine import CHUNK_BYTES
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Program

_COUNTER = """
program counter
workgroup_size 1, 1, 1
buffer total @0 read_write u32[1]
body {
  let old = atomic_add(total, 0u, 1u)
}
"""
_LOCALS = """
program locals
workgroup_size 64, 1, 1
buffer total @0 read_write u32[1]
body {{
  let v0 = gid.x * gid.x
  {lets}
  total[0u] = v300
}}
"""
_SHARED = """
program shared
workgroup_size 1, 1, 1
buffer total @0 read_write u32[1]
buffer s @- workgroup u32[16384]
body {
  s[gid.x % 16384u] = gid.x
  total[0u] = s[0u]
}
"""


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        (_COUNTER, 1 << 20),
        (_LOCALS.format(lets="\n".join(f"let v{k + 1} = v{k} * v{k} + {k}u" for k in range(300))), 1 << 13),
        (_SHARED, 1 << 11),
    ],
    ids=["workgroups", "locals", "workgroup memory"],
)
def test_temporaries_are_bounded(text: str, groups: int) -> None:
    program = Program.from_text(text)
    launch = resolve_launch(program, (4,), DispatchConfig(grid=(groups, 1, 1)), LaunchLimits("reference"))
    kernel = ENGINE(program, {})
    memory = {"total": np.zeros(4, np.uint8)}
    tracemalloc.start()
    try:
        kernel.run(memory, launch, RunOptions())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * CHUNK_BYTES

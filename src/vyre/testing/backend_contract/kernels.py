"""Kernels that several modules of this package run."""

from __future__ import annotations

from typing import Final

INCREMENT: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { x[gid.x] = x[gid.x] + 1u }
    """
ADD: Final = """
    workgroup_size 8, 1, 1
    param a @0 u32
    buffer x @1 read_write u32[runtime]
    body { x[gid.x] = x[gid.x] + a }
    """
SUM: Final = """
    workgroup_size 8, 1, 1
    buffer a @0 read u32[runtime]
    buffer b @1 read u32[runtime]
    buffer y @2 write u32[runtime] like a
    body { y[gid.x] = a[gid.x] + b[gid.x] }
    """
DOUBLE: Final = "workgroup_size 4, 1, 1 buffer x @0 read_write u32[runtime] body { x[gid.x] = x[gid.x] * 2u }"
SCALE: Final = """
    workgroup_size 8, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    body { y[gid.x] = x[gid.x] * spec(factor, 3u) + wid.x }
    """
TRAP: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { if x[gid.x] == 9u { trap(gid.x, "nine") } x[gid.x] = x[gid.x] + 1u }
    """
"""Increments every element, and traps at a 9 with the place of its lane."""


def mapped(body: str, lanes: int = 4) -> str:
    """Returns a kernel that runs ``body`` for each index ``i`` of an input ``x`` and an output ``y`` of u32."""
    return f"""
    workgroup_size {lanes}, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    body {{ let i = gid.x {body} }}
    """

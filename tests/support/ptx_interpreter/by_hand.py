"""Runs hand-written instructions: an array in, the array out."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from support.ptx_interpreter.engine import SCHEDULES, Launch, Schedule, run
from support.ptx_interpreter.memory import Array, GlobalMemory
from support.ptx_interpreter.syntax import read_module

_REGISTERS: Final = """
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<8>; .reg .f64 %fd<8>;
"""
_PROLOGUE: Final = """
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;
ld.param.u64 %rd0, [a]; cvta.to.global.u64 %rd1, %rd0;
"""


def kernel(body: str, *, block: int = 32, declarations: str = "") -> str:
    """Returns a module with the entry ``k`` of one array, whose address is in ``%rd1``.

    ``%r0`` is the lane's number in its block, ``%r1`` the number of the block, ``%r2`` the size of a block, and ``%r3``
    the lane's number in the grid.
    """
    return (
        ".version 7.8\n.target sm_90\n.address_size 64\n"
        f".visible .entry k(.param .u64 a)\n.reqntid {block}, 1, 1\n"
        f"{{{_REGISTERS}{declarations}{_PROLOGUE}{body}\nret;\n}}\n"
    )


def changed(text: str, data: NDArray[Any], *, grid: int = 1, schedule: Schedule = SCHEDULES[0], seed: int = 0) -> Array:
    """Returns what the array holds after a launch of ``k``."""
    module = read_module(text)
    memory = GlobalMemory([data.nbytes, *(v.nbytes for v in module.constants.values())], np.random.default_rng(seed))
    address, *others = memory.addresses
    memory.write(address, data.tobytes())
    for where, constant in zip(others, module.constants.values(), strict=True):
        memory.write(where, constant.data)
    launch = Launch((grid, 1, 1), address.to_bytes(8, "little"), schedule, seed)
    run(module.entries["k"], launch, memory, dict(zip(module.constants, others, strict=True)))
    return np.frombuffer(memory.read(address, data.nbytes), data.dtype)


def computed(body: str, result: str = "%r7") -> int:
    """Returns the bits that one lane has in a register after some instructions."""
    kind = result.strip("%0123456789")
    stored = {"r": "b32", "f": "f32", "rd": "b64", "fd": "f64", "h": "b16"}
    store = f"selp.b32 %r15, 1, 0, {result}; st.global.b32 [%rd1], %r15;"
    if kind != "p":
        store = f"st.global.{stored[kind]} [%rd1], {result};"
    return int(changed(kernel(f"{body} {store}", block=1), np.zeros(1, np.uint64))[0])

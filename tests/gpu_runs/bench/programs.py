"""The kernels that are measured, each in several shapes: what is fastest depends on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_
from typing import Final

import numpy as np
import numpy.typing as npt

from vyre import BufferHandle, Program, ProgramBuilder, Value, f32, u32

WORKGROUP: Final = 256
SHAPES: Final = {"one": (1, False), "four apart": (4, False), "four together": (4, True), "eight apart": (8, False)}
"""Elements of a lane, and whether they are neighbours in memory (else those of a workgroup are)."""


def _indices(p: ProgramBuilder, shape: str) -> list[Value]:
    each, together = SHAPES[shape]
    if together:
        start = p.let(p.global_id() * each)
        return [start + k for k in range(each)]
    start = p.let(p.group_id() * (WORKGROUP * each) + p.local_id())
    return [start + k * WORKGROUP for k in range(each)]


def _inside(indices: list[Value], *buffers: BufferHandle) -> Value:
    """Whether the last index is in range of every buffer: one guard for all accesses."""
    tests = [indices[-1] < buffer.length for buffer in buffers]
    return reduce(and_, tests)


def elements_of_group(shape: str) -> int:
    return WORKGROUP * SHAPES[shape][0]


def copy(shape: str) -> Program:
    """``y = x``."""
    with ProgramBuilder("copy", workgroup=WORKGROUP) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        indices = _indices(p, shape)
        with p.if_(_inside(indices, x, y)):
            values = [p.let(x[i]) for i in indices]
            for i, value in zip(indices, values, strict=True):
                y[i] = value
    return p.build()


def elementwise(shape: str) -> Program:
    """``y = x * x + 1``, two roundings."""
    with ProgramBuilder("elementwise", workgroup=WORKGROUP) as p:
        x, y = p.input("x", f32), p.inout("y", f32)
        indices = _indices(p, shape)
        with p.if_(_inside(indices, x, y)):
            values = [p.let(x[i]) for i in indices]
            for i, value in zip(indices, values, strict=True):
                y[i] = value * value + 1.0
    return p.build()


def saxpy(shape: str) -> Program:
    """``z = a * x + y``, two roundings."""
    with ProgramBuilder("saxpy", workgroup=WORKGROUP) as p:
        a = p.param("a", f32)
        x, y, z = p.input("x", f32), p.input("y", f32), p.inout("z", f32)
        indices = _indices(p, shape)
        with p.if_(_inside(indices, x, y, z)):
            values = [(p.let(x[i]), p.let(y[i])) for i in indices]
            for i, (left, right) in zip(indices, values, strict=True):
                z[i] = a * left + right
    return p.build()


def reduction(shape: str) -> Program:
    """``total += sum(x)`` modulo 2^32: every lane sums along the grid, a workgroup by halving, the grid by atomics."""
    each, _ = SHAPES[shape]
    with ProgramBuilder("reduction", workgroup=WORKGROUP) as p:
        x, total = p.input("x", u32), p.inout("total", u32, 1)
        shared = p.workgroup("shared", u32, WORKGROUP)
        lane, stride = p.local_id(), p.let(p.num_groups() * (WORKGROUP * each))
        partial = p.var(u32(0))
        with p.for_(p.group_id() * (WORKGROUP * each) + lane, x.length, stride) as start:
            values = [p.let(x[start + k * WORKGROUP]) for k in range(each)]
            for value in values:
                partial.assign(partial + value)
        shared[lane] = partial
        p.barrier()
        width = WORKGROUP // 2
        while width:
            with p.if_(lane < width):
                shared[lane] = shared[lane] + shared[lane + width]
            p.barrier()
            width //= 2
        with p.if_(lane == 0):
            total.atomic_add(0, shared[0])
    return p.build()


def launch_probe() -> Program:
    """``y = a * x + y`` on one workgroup: the kernel whose launch is timed; ``n`` makes it four arguments."""
    with ProgramBuilder("launch_probe", workgroup=WORKGROUP) as p:
        a, n = p.param("a", f32), p.param("n", u32)
        x, y = p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < n):
            y[i] = a * x[i] + y[i]
    return p.build()


SPIN_LANES: Final = 32
_SPIN_FACTOR: Final = 1_664_525


def spin() -> Program:
    """One warp that takes ``loops`` times as long as a multiplication: each lane adds to its element the last number
    of a sequence whose steps are ``x * _SPIN_FACTOR + salt`` modulo 2^32."""
    with ProgramBuilder("spin", workgroup=SPIN_LANES) as p:
        loops, salt = p.param("loops", u32), p.param("salt", u32)
        sums = p.inout("sums", u32, SPIN_LANES)
        lane = p.local_id()
        value = p.var(lane + salt)
        with p.for_(0, loops):
            value.assign(value * _SPIN_FACTOR + salt)
        sums[lane] = sums[lane] + value
    return p.build()


def spun(loops: int, salt: int) -> npt.NDArray[np.uint32]:
    """What one launch of ``spin`` adds."""
    factor, step = np.uint32(_SPIN_FACTOR), np.uint32(salt)
    values = np.arange(SPIN_LANES, dtype=np.uint32) + step
    for _ in range(loops):
        values = values * factor + step
    return values


STREAMING: Final[dict[str, Callable[[str], Program]]] = {"copy": copy, "elementwise": elementwise, "saxpy": saxpy}

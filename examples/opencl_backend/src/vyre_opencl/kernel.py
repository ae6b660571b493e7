"""One kernel in OpenCL C for a program without calls, constants and grid barriers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Final

from vyre.ir import Barrier, Buffer, Program, walk_statements
from vyre.lowering import ALL_OPS, OpId, native_op, required_ops
from vyre_opencl.expressions import LOCAL_LINEAR
from vyre_opencl.statements import BARRIER, LINEAR, STEPS, body
from vyre_opencl.types import ELEMENT
from vyre_opencl.writer import NAME, Place, Writer, unsupported

ENTRY: Final = "vyre_kernel"
"""The name of the kernel function."""
LACKING: Final = frozenset(
    map(
        OpId,
        (
            "vyre.subgroup_add",
            "vyre.subgroup_ballot",
            "vyre.subgroup_shuffle",
            "vyre.node.indirect_dispatch",
        ),
    )
)
"""Subgroups of 32 lanes are no part of OpenCL 1.2, nor are launches whose size is in device memory."""
SUPPORTED_OPS: Final = (ALL_OPS - LACKING) | {native_op(NAME)}


@dataclass(frozen=True, slots=True)
class KernelText:
    """The source of one kernel.

    Its arguments are, for every bound buffer in binding order, a pointer, a u64 with the first byte behind it, and a
    u32 with the number of elements; then, if the kernel can fail, a pointer to ``1 + len(traps)`` u64 of status that
    begin as all ones; then, if it counts steps, a pointer to a u64 for each lane, and the budget as a u64.
    """

    source: str
    traps: tuple[str, ...]
    counts_steps: bool
    local_nbytes: int
    private_nbytes: int
    """The bytes of arrays that each lane has for itself."""

    @property
    def can_fail(self) -> bool:
        """Whether the kernel has words of status."""
        return bool(self.traps) or self.counts_steps


def emit(program: Program, *, counts_steps: bool = False) -> KernelText:
    """Returns the kernel of a program; raises ``UnsupportedFeature`` for what OpenCL 1.2 does not have."""
    for lacking in sorted(required_ops(program) & LACKING):
        raise unsupported(lacking, "run this program on another backend; `vyre backends` lists them.")
    if counts_steps and any(isinstance(stmt, Barrier) for stmt in walk_statements(program.body)):
        raise unsupported(
            "a step budget with barriers",  # the lanes that are left would wait for one that has ended
            "leave step_budget out, or run the program on another backend.",
        )
    w = Writer(program, counts_steps=counts_steps)
    body(w, program.body)
    shared = [place for place in w.places.values() if place.space == "__local"]
    head = [
        f"__kernel __attribute__((reqd_work_group_size({', '.join(map(str, program.workgroup_size))})))",
        f"void {ENTRY}({', '.join(_parameters(w))}) {{",
        *(f"__local {ELEMENT[p.element]} {p.name}[{max(1, p.buffer.count)}];" for p in shared),
        *_starts(w),
        *_zeroed(shared, prod(program.workgroup_size)),
        *_private(w),
        *_linear(w),
        *w.top,
    ]
    source = "\n".join([prelude(), *w.functions.values(), *head, *w.lines, "}"]) + "\n"
    local_nbytes = sum(p.buffer.count * p.element.size for p in shared)
    private = sum(p.buffer.count * p.element.size for p in w.places.values() if p.space == "__private")
    return KernelText(source, tuple(w.traps), counts_steps, local_nbytes, private + w.captured_nbytes)


@cache
def prelude() -> str:
    """Returns the helpers of all kernels."""
    return (Path(__file__).parent / "prelude.cl").read_text()


def _parameters(w: Writer) -> list[str]:
    found = []
    for buffer in w.program.abi_buffers:
        place = w.places[buffer.name]
        found += [f"__global {_constant(buffer)}uchar* p_{place.name}", f"ulong o_{place.name}", f"uint {place.count}"]
    if w.traps or w.counts_steps:
        found.append("volatile __global ulong* vy_status")
    if w.counts_steps:
        found += [f"__global ulong* {STEPS}", "ulong vy_budget"]
    return found


def _starts(w: Writer) -> list[str]:
    """Returns the lines that make a pointer to the first element of every bound buffer."""
    found = []
    for buffer in w.program.abi_buffers:
        place = w.places[buffer.name]
        kind = f"__global {_constant(buffer)}{ELEMENT[place.element]}*"
        found.append(f"{kind} {place.name} = ({kind})(p_{place.name} + o_{place.name});")
    return found


def _constant(buffer: Buffer) -> str:
    return "" if buffer.is_writable else "const "


def _zeroed(shared: list[Place], lanes: int) -> list[str]:
    """Returns the lines with which the lanes of a workgroup set its memory to zero together."""
    if not shared:
        return []
    loops = (
        f"for (uint k = {LOCAL_LINEAR}; k < {place.buffer.count}u; k += {lanes}u) {place.name}[k] = 0;"
        for place in shared
    )
    return [*loops, BARRIER]


def _private(w: Writer) -> list[str]:
    return [
        f"{ELEMENT[p.element]} {p.name}[{max(1, p.buffer.count)}];"
        f" for (uint k = 0; k < {p.buffer.count}u; k++) {p.name}[k] = 0;"
        for p in w.places.values()
        if p.space == "__private"
    ]


def _linear(w: Writer) -> list[str]:
    if not (w.traps or w.counts_steps):
        return []
    x, y, z = (f"(ulong)(uint)get_global_id({axis})" for axis in range(3))
    width, height = (f"(ulong)get_global_size({axis})" for axis in range(2))
    return [f"const ulong {LINEAR} = ({z} * {height} + {y}) * {width} + {x};"]

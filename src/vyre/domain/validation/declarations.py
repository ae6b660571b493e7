"""Rules on the workgroup size and on buffer declarations."""

from __future__ import annotations

from math import prod
from typing import Final

from vyre.domain.ir.limits import U32_MAX
from vyre.domain.ir.program import Access, Buffer, MemoryKind, Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.validation.findings import Findings

MAX_PUSH_BYTES: Final = 256
MAX_PRIVATE_BYTES: Final = 64 << 10
"""The largest size of all private memory of one lane together."""
_MAX_AXIS_HINT: Final = 255


def check_declarations(program: Program, findings: Findings) -> None:
    """Reports defects of the workgroup size and of every buffer."""
    _check_workgroup_size(program, findings)
    names: set[str] = set()
    bindings: dict[int, Buffer] = {}
    for buffer in program.buffers:
        if buffer.name in names:
            findings.add("V103", f"two buffers are named `{buffer.name}`", buffer)
        names.add(buffer.name)
        if buffer.is_bound:
            other = bindings.setdefault(buffer.binding, buffer)
            if other is not buffer and other.name != buffer.name:
                message = f"buffers `{other.name}` and `{buffer.name}` both have binding {buffer.binding}"
                findings.add("V104", message, buffer)
        if not isinstance(buffer.element, ScalarType):
            findings.add("V201", f"buffer `{buffer.name}` has elements of type {buffer.element.text}", buffer)
        _check_numbers(buffer, findings)
        _check_role(buffer, findings)
        _check_output_range(buffer, findings)
        _check_like(buffer, program, findings)
    _check_push_total(program, findings)
    _check_private_total(program, findings)


def _check_workgroup_size(program: Program, findings: Findings) -> None:
    size: tuple[int, ...] = program.workgroup_size
    if len(size) != 3:
        findings.add("V102", f"the workgroup size {size} has {len(size)} axes", program)
        return
    for axis, lanes in zip("xyz", size, strict=True):
        if lanes < 1:
            findings.add("V102", f"the workgroup size is {lanes} along {axis}", program)
    if all(lanes >= 1 for lanes in size) and prod(size) > U32_MAX:
        findings.add("V102", f"a workgroup of {size} has more than {U32_MAX} lanes", program)


def _check_numbers(buffer: Buffer, findings: Findings) -> None:
    axis = buffer.hints.coalesce_axis
    for what, value, high in (
        ("binding", buffer.binding, U32_MAX),
        ("count", buffer.count, U32_MAX),
        ("preferred alignment", buffer.hints.preferred_alignment, U32_MAX),
        ("coalesce axis", 0 if axis is None else axis, _MAX_AXIS_HINT),
    ):
        if not 0 <= value <= high:
            message = f"the {what} of buffer `{buffer.name}` is {value}"
            findings.add("V217", message, buffer, fix=f"use an integer in 0..{high}.")
    if not buffer.is_bound and buffer.count == 0:
        findings.add("V105", f"{_word(buffer.access)} buffer `{buffer.name}` has no element count", buffer)


def _check_role(buffer: Buffer, findings: Findings) -> None:
    if buffer.is_push:
        _check_push(buffer, findings)
        return
    contradiction = None
    if buffer.is_workgroup is not (buffer.kind is MemoryKind.SHARED) or (
        buffer.is_private is not (buffer.kind is MemoryKind.PRIVATE)
    ):
        contradiction = f"has access {_word(buffer.access)} but memory kind {_word(buffer.kind)}"
    elif buffer.is_output and buffer.access not in (Access.READ_WRITE, Access.WRITE_ONLY):
        contradiction = f"is an output but {_word(buffer.access)}"
    elif buffer.access is Access.WRITE_ONLY and not buffer.is_output:
        contradiction = "is write-only but no output"
    if contradiction is not None:
        findings.add("V216", f"buffer `{buffer.name}` {contradiction}", buffer)


def _word(value: Access | MemoryKind) -> str:
    return value.name.lower().replace("_", "-")


def _check_push(buffer: Buffer, findings: Findings) -> None:
    defect = None
    if buffer.access is not Access.UNIFORM:
        defect = f"has access {_word(buffer.access)}, not uniform"
    elif buffer.is_output:
        defect = "is an output"
    elif buffer.count != 1:
        defect = f"has {buffer.count} elements, not one"
    elif isinstance(buffer.element, ScalarType) and not buffer.element.is_executable:
        defect = f"has the type {buffer.element.text}, which is not executable"
    if defect is not None:
        findings.add("V212", f"parameter `{buffer.name}` {defect}", buffer)


def _check_push_total(program: Program, findings: Findings) -> None:
    sizes = [(b, b.element.size) for b in program.buffers if b.is_push and isinstance(b.element, ScalarType)]
    total = sum(size for _, size in sizes)
    if total > MAX_PUSH_BYTES:
        message = f"the parameters take {total} bytes together; the limit is {MAX_PUSH_BYTES}"
        findings.add("V212", message, sizes[-1][0])


def _check_private_total(program: Program, findings: Findings) -> None:
    private = [buffer for buffer in program.buffers if buffer.is_private]
    total = sum(buffer.static_nbytes or 0 for buffer in private)
    if total > MAX_PRIVATE_BYTES:
        message = f"the private memory of a lane takes {total} bytes; the limit is {MAX_PRIVATE_BYTES}"
        findings.add("V220", message, private[-1])


def _check_output_range(buffer: Buffer, findings: Findings) -> None:
    if buffer.output_range is None:
        return
    start, end = buffer.output_range
    what = f"the output range {start}..{end} of buffer `{buffer.name}`"
    size = buffer.static_nbytes
    if not buffer.is_returned:
        findings.add("V215", f"buffer `{buffer.name}` has an output range but is not returned", buffer)
    elif not 0 <= start <= end:
        findings.add("V215", f"{what} is reversed or negative", buffer)
    elif size is not None and end > size:
        findings.add("V215", f"{what} ends beyond its {size} bytes", buffer)
    elif end > U32_MAX * 8:
        findings.add("V215", f"{what} ends beyond the largest buffer", buffer)


def _check_like(buffer: Buffer, program: Program, findings: Findings) -> None:
    if buffer.like is None:
        return
    model = program.buffers_by_name.get(buffer.like)
    defect = None
    if model is None:
        defect = "which is not declared"
    elif not model.is_bound:
        defect = f"which is {_word(model.access)} memory"
    elif buffer.count != 0:
        defect = f"but has a count of its own, {buffer.count}"
    elif not buffer.is_output:
        defect = "but is no output"
    elif _is_cyclic(buffer, program):
        defect = "which leads back to it"
    if defect is not None:
        message = f"buffer `{buffer.name}` is sized like `{buffer.like}`, {defect}"
        findings.add(
            "V214", message, buffer, fix="name a declared buffer of the interface, on an output without a count."
        )


def _is_cyclic(buffer: Buffer, program: Program) -> bool:
    """Returns whether the chain of ``like`` references from the buffer leads back to it."""
    seen: set[str] = set()
    current: Buffer | None = buffer
    while current is not None and current.like is not None and current.like not in seen:
        if current.like == buffer.name:
            return True
        seen.add(current.like)
        current = program.buffers_by_name.get(current.like)
    return False

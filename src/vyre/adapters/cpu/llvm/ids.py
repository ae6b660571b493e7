"""Launch ids of the lanes of a vector.  Lanes are numbered through the workgroup, x fastest."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm.context import Kernel, vector_text
from vyre.adapters.cpu.llvm.options import SUBGROUP
from vyre.adapters.cpu.llvm.values import Value, literal
from vyre.domain.ir.expr import IdKind
from vyre.domain.ir.types import ScalarType

_U32: Final = ScalarType.U32


def launch_id(k: Kernel, kind: IdKind, axis: int) -> Value:
    """Returns an id along one axis, a u32."""
    match kind:
        case IdKind.NUM_GROUPS:
            return k.uniform(_U32, k.w.pure("trunc i64 {} to i32", k.word(axis)))
        case IdKind.GROUP:
            return _joined_id(k, "udiv") if k.joined and axis == 0 else k.uniform(_U32, k.group[axis])
        case IdKind.LOCAL:
            return local_id(k, axis)
        case IdKind.GLOBAL:
            return _global_id(k, axis)


def _global_id(k: Kernel, axis: int) -> Value:
    size = k.program.workgroup_size[axis]
    if k.joined and axis == 0:
        return k.affine(_U32, k.first_lane, 1)
    first = k.w.pure(f"mul i32 {{}}, {size}", k.group[axis]) if size != 1 else k.group[axis]
    local = local_id(k, axis)
    if local.number == 0:
        return k.uniform(_U32, first)
    base = k.w.pure("add i32 {}, {}", first, local.operand) if local.stride or local.is_uniform else ""
    if local.is_uniform:
        return k.uniform(_U32, base)
    if local.stride:
        return k.affine(_U32, base, local.stride)
    return k.varying(_U32, k.w.pure(f"add {k.vector_type('i32')} {{}}, {{}}", k.splat("i32", first), local.operand))


def local_id(k: Kernel, axis: int) -> Value:
    """Returns the position of the lanes in their workgroup along one axis, a u32."""
    sizes = k.program.workgroup_size
    size = sizes[axis]
    if size == 1:
        return literal(_U32, 0)
    if k.joined:
        return _joined_id(k, "urem")
    below = 1
    for earlier in sizes[:axis]:
        below *= earlier
    first, lanes, vector = linear_base(k), k.lanes, k.vector_type("i32")
    is_last = below * size == k.size
    if below % lanes == 0:  # the whole vector has one position
        position = k.w.pure(f"udiv i32 {{}}, {below}", first)
        return k.uniform(_U32, position if is_last else k.w.pure(f"urem i32 {{}}, {size}", position))
    if below == 1 and (is_last or size % lanes == 0):
        return k.affine(_U32, first if is_last else k.w.pure(f"urem i32 {{}}, {size}", first), 1)
    if lanes % (below * size) == 0:  # every vector holds the same positions
        positions = vector_text("i32", [lane // below % size for lane in range(lanes)])
        return k.varying(_U32, k.w.pure(f"add {vector} {{}}, {positions}", k.splat("i32", k.zero)))
    linear = k.vector(k.affine(_U32, first, 1))
    if below > 1:
        linear = k.w.pure(f"udiv {vector} {{}}, splat (i32 {below})", linear)
    return k.varying(_U32, linear if is_last else k.w.pure(f"urem {vector} {{}}, splat (i32 {size})", linear))


def _joined_id(k: Kernel, op: str) -> Value:
    """Returns the quotient or the remainder of the global id by the size of a workgroup."""
    own = k.affine(_U32, k.first_lane, 1)
    if k.size == 1 and op == "udiv":
        return own
    if own.is_uniform:
        return k.uniform(_U32, k.w.pure(f"{op} i32 {{}}, {k.size}", own.operand))
    linear = k.vector(own)
    return k.varying(_U32, k.w.pure(f"{op} {k.vector_type('i32')} {{}}, splat (i32 {k.size})", linear))


def linear_base(k: Kernel) -> str:
    """Returns the number in the workgroup of the first lane of the vector, an i32 operand."""
    if k.chunk == "0":
        return k.zero
    first = k.w.pure(f"mul i32 {{}}, {k.lanes}", k.w.pure("trunc i64 {} to i32", k.chunk))
    return k.w.pure("add i32 {}, {}", first, k.zero)


def subgroup_lane(k: Kernel) -> Value:
    """Returns the positions of the lanes in their subgroups, a u32."""
    if k.joined:
        local = k.vector(local_id(k, 0))
        return k.varying(_U32, k.w.pure(f"and {k.vector_type('i32')} {{}}, {k.splat('i32', str(SUBGROUP - 1))}", local))
    base = k.zero if k.lanes % SUBGROUP == 0 else k.w.pure(f"and i32 {{}}, {SUBGROUP - 1}", linear_base(k))
    if k.lanes <= SUBGROUP:
        return k.affine(_U32, base, 1)
    lanes = vector_text("i32", [lane % SUBGROUP for lane in range(k.lanes)])
    return k.varying(_U32, k.w.pure(f"add {k.vector_type('i32')} {{}}, {lanes}", k.splat("i32", base)))


def linear_global_id(k: Kernel) -> str:
    """Returns the numbers of the lanes in the whole grid, a vector of i64."""
    w, wide = k.w, k.vector_type("i64")
    total, stride = "", "1"
    for axis in range(3):
        value = k.vector(launch_id(k, IdKind.GLOBAL, axis))
        part = w.pure(f"zext {k.vector_type('i32')} {{}} to {wide}", value)
        if axis:
            part = w.pure(f"mul {wide} {{}}, {{}}", part, k.splat("i64", stride))
        total = w.pure(f"add {wide} {{}}, {{}}", total, part) if total else part
        lanes = w.pure(f"mul i64 {{}}, {k.program.workgroup_size[axis]}", k.word(axis))
        stride = w.pure("mul i64 {}, {}", stride, lanes)
    return total

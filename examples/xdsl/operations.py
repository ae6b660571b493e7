"""The place, name, attributes and types of an operation of MLIR, and the errors that name it."""

from __future__ import annotations  # noqa: I001

from math import prod
from typing import Any, Final

# fmt: off
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX, FileLineColLoc, MemRefType, NoneAttr, StridedLayoutAttr, UnregisteredOp,
)
# fmt: on
from xdsl.ir import Block, Operation, Region, SSAValue

from vyre.ir import ScalarType as S
from vyre.ir import SourceLocation

STORED: Final = {
    "i1": S.BOOL8, "i8": S.I8, "i16": S.I16, "i32": S.I32, "i64": S.I64, "index": S.I64,
    "f16": S.F16, "bf16": S.BF16, "f32": S.F32, "f64": S.F64,
}  # fmt: skip
"""The type that elements of an MLIR type have in memory.  MLIR's integers have no sign, and an index has 64 bits."""
TERMINATORS: Final = (
    "gpu.return", "gpu.yield", "gpu.terminator", "func.return", "scf.yield", "scf.condition", "scf.reduce",
    "scf.reduce.return",
)  # fmt: skip
"""The operations that end a block and leave its region."""
ATOMIC_KINDS: Final = {1: "addi", 4: "maxsi", 7: "minsi", 11: "ori", 12: "andi"}
"""The operators of ``arith`` that ``memref.atomic_rmw`` has by numbers, of those that are lowered."""
CONSTANTS: Final = ("arith.constant", "index.constant", "index.bool.constant")


class Refused(Exception):
    """An operation that this example does not lower; ``reason`` leaves out where it stands."""

    def __init__(self, op: Operation, why: str, fix: str) -> None:
        self.reason = f"{name_of(op)}: {why}"
        super().__init__(f"{place_of(op)}: `{name_of(op)}`: {why}. Fix: {fix}.")


class Malformed(Exception):
    """An operation that is not what MLIR says it must be; ``reason`` leaves out where it stands."""

    def __init__(self, op: Operation, why: str) -> None:
        self.reason = f"{name_of(op)}: {why}"
        fix = "write it as MLIR defines it; mlir-opt says the same of it"
        super().__init__(f"{place_of(op)}: `{name_of(op)}` is malformed: {why}. Fix: {fix}.")


def place_of(op: Operation) -> SourceLocation | None:
    """Returns the file and the line of an operation."""
    where = op.location
    return SourceLocation(where.filename.data, where.line.data) if isinstance(where, FileLineColLoc) else None


def name_of(op: Operation) -> str:
    """Returns the name of an operation, whether xDSL knows it or not."""
    return str(op.op_name.data) if isinstance(op, UnregisteredOp) else op.name


def attribute(op: Operation, *names: str) -> Any:
    """Returns the attribute or property with the first of these names that is there, or None."""
    return next((kept[name] for name in names for kept in (op.attributes, op.properties) if name in kept), None)


def word(op: Operation, name: str) -> str:
    """Returns the last word of an attribute: ``x`` of ``#gpu<dim x>``; empty if the attribute is missing."""
    found = attribute(op, name)
    return "" if found is None else str(found).replace("<", " ").rstrip(">").split()[-1].strip('"@')


def symbol(op: Operation) -> str:
    name: str = attribute(op, "sym_name").data
    return name


def integers(op: Operation, *names: str) -> list[int]:
    """Returns a list of integers, which is empty if the attribute is missing."""
    found = attribute(op, *names)
    return [] if found is None else [int(each) for each in found.get_values()]


def number(op: Operation, name: str) -> int | float | None:
    """Returns an attribute that is a number, or None if it is another thing."""
    value = getattr(attribute(op, name), "value", None)
    return getattr(value, "data", None)


def stored(op: Operation, type_: Any) -> S:
    """Returns the type in memory of the values of an MLIR type."""
    try:
        return STORED[str(type_)]
    except KeyError:
        raise Refused(op, f"values of type {_family(type_)}", f"use one of {', '.join(STORED)}") from None


def _family(type_: Any) -> str:
    return str(type_).split("<")[0]


class Shape:
    """The sizes, strides and offset of a memref type, in elements; None stands for what is known at run time only."""

    def __init__(self, op: Operation, type_: Any) -> None:
        if not isinstance(type_, MemRefType):
            raise Refused(op, f"memory of type {_family(type_)}", "use a ranked memref")
        self.element = stored(op, type_.element_type)
        self.sizes = [_known(size) for size in type_.get_shape()]
        self.offset: int | None = 0
        self.strides: list[int | None] = []
        if isinstance(type_.layout, StridedLayoutAttr):
            self.strides = [getattr(each, "data", None) for each in type_.layout.strides]
            self.offset = getattr(type_.layout.offset, "data", None)
        elif isinstance(type_.layout, NoneAttr) or _is_identity(type_.layout):
            stride: int | None = 1
            for size in reversed(self.sizes):
                self.strides.insert(0, stride)
                stride = None if size is None or stride is None else size * stride
        else:
            raise Refused(op, "a memref whose layout is an affine map", "use the identity or strided<...>")
        space = str(type_.memory_space)
        self.in_workgroup = "workgroup" in space or space.startswith("3")

    @property
    def count(self) -> int | None:
        """Returns the number of elements from the first to the last, or None."""
        if self.offset is None:
            return None
        last = self.offset
        for size, stride in zip(self.sizes, self.strides, strict=True):
            if size is None or stride is None:
                return None
            last += (size - 1) * stride
        return last + 1


def _is_identity(layout: Any) -> bool:
    data = getattr(layout, "data", None)
    return data is not None and [str(each) for each in data.results] == [f"d{n}" for n in range(data.num_dims)]


def _known(size: int) -> int | None:
    return None if size == DYNAMIC_INDEX else size


def entry(op: Operation, region: Region) -> Block:
    """Returns the first block of a region, which has one."""
    if not region.blocks:
        raise Refused(op, "a missing body", "define it")
    return region.blocks[0]


def ending(block: Block) -> Operation:
    """Returns the last operation of a block, which has one where it verifies."""
    op = block.last_op
    assert op is not None
    return op


def constant(value: SSAValue) -> int | None:
    """Returns the integer that a value always is, or None."""
    owner = value.owner
    found = number(owner, "value") if isinstance(owner, Operation) and name_of(owner) in CONSTANTS else None
    return found if isinstance(found, int) else None


def groups(op: Operation) -> list[list[int]]:
    """Returns the axes that ``memref.expand_shape`` makes of each axis, or that ``collapse_shape`` makes one of."""
    found = [[axis.value.data for axis in group] for group in attribute(op, "reassociation")]
    source, result = Shape(op, op.operands[0].type), Shape(op, op.results[0].type)
    many, few = (result, source) if name_of(op) == "memref.expand_shape" else (source, result)
    axes = [axis for group in found for axis in group]
    if len(found) != len(few.sizes) or axes != list(range(len(many.sizes) if found else 0)):
        raise Malformed(op, "its groups are not all axes in their order")
    for size, group in zip(few.sizes, found, strict=True):
        if not group:
            raise Malformed(op, "a group without an axis")
        sizes = [many.sizes[axis] for axis in group]
        if size is not None and None not in sizes and size != prod(each or 0 for each in sizes):
            raise Malformed(op, f"axes of sizes {sizes} are not one of size {size}")
        if name_of(op) == "memref.expand_shape" and sizes.count(None) > 1 and len(op.operands) == 1:
            raise Refused(op, "an axis split into several of unknown size", "pass output_shape")
    return found

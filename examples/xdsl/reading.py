"""Reads MLIR in its generic form with xDSL: modules, the line of each operation, types and attributes."""

from __future__ import annotations  # noqa: I001

from typing import Any, Final

from xdsl.context import Context
from xdsl.dialects import get_all_dialects

# fmt: off
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX, FileLineColLoc, IntAttr, MemRefType, NoneAttr, StridedLayoutAttr, StringAttr, UnregisteredOp,
)
# fmt: on
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from vyre.ir import ScalarType as S
from vyre.ir import SourceLocation

DIALECTS: Final = ("builtin", "func", "gpu", "arith", "math", "scf", "memref", "cf")
STORED: Final = {
    "i1": S.BOOL8, "i8": S.I8, "i16": S.I16, "i32": S.I32, "i64": S.I64, "index": S.I64,
    "f16": S.F16, "f32": S.F32, "f64": S.F64,
}  # fmt: skip
"""The type that elements of an MLIR type have in memory.  MLIR's integers have no sign, and an index has 64 bits."""


class Refused(Exception):
    """An operation that this example does not lower; ``reason`` leaves out where it stands."""

    def __init__(self, op: Operation, why: str, fix: str) -> None:
        self.reason = f"{name_of(op)}: {why}"
        super().__init__(f"{place_of(op)}: `{name_of(op)}`: {why}. Fix: {fix}.")


class Unreadable(Exception):
    """Text that is no MLIR module in the generic form; ``reason`` leaves out where it stands."""

    def __init__(self, file: str, why: str) -> None:
        self.reason = f"xDSL: {why}"
        super().__init__(f"{file}: {why}. Fix: write the generic form, as mlir-opt --mlir-print-op-generic does.")


class _LineKeeper(Parser):
    """A parser that notes on which line of ``file`` each operation begins."""

    def __init__(self, context: Context, text: str, file: str) -> None:
        super().__init__(context, text, file)
        self.text, self.file = text, StringAttr(file)

    def parse_operation(self) -> Operation:
        begin = self.pos
        op = super().parse_operation()
        op.location = FileLineColLoc(self.file, IntAttr(self.text.count("\n", 0, begin) + 1), IntAttr(1))
        return op


def read(text: str, file: str) -> Operation:
    """Returns the module that a text describes.  Raises ``Unreadable`` for what xDSL cannot parse."""
    context = Context(allow_unregistered=True)
    for name in DIALECTS:
        context.register_dialect(name, get_all_dialects()[name])
    try:
        return _LineKeeper(context, text, file).parse_module()
    except (ParseError, VerifyException, NotImplementedError) as error:
        lines = [line.strip(" ^") for line in str(error).splitlines()]
        where = next((line.split("@")[-1] for line in lines if file in line), file)
        raise Unreadable(where, [line for line in lines if line][-1].partition(" self: ")[0]) from error


def place_of(op: Operation) -> SourceLocation | None:
    """Returns the file and the line of an operation."""
    where = op.location
    return SourceLocation(where.filename.data, where.line.data) if isinstance(where, FileLineColLoc) else None


def name_of(op: Operation) -> str:
    """Returns the name of an operation, whether xDSL knows it or not."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def attribute(op: Operation, *names: str) -> Any:
    """Returns the attribute or property with the first of these names that is there, or None."""
    return next((kept[name] for name in names for kept in (op.attributes, op.properties) if name in kept), None)


def word(op: Operation, name: str) -> str:
    """Returns the last word of an attribute: ``x`` of ``#gpu<dim x>``; empty if the attribute is missing."""
    found = attribute(op, name)
    return "" if found is None else str(found).replace("<", " ").rstrip(">").split()[-1].strip('"@')


def symbol(op: Operation) -> str:
    return attribute(op, "sym_name").data


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
        known = [self.offset, *self.sizes, *self.strides]
        if any(each is None for each in known):
            return None
        return self.offset + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True)) + 1


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


def jump(op: Operation) -> Block:
    """Returns the block to which ``cf.br`` goes.  Since no other jump is lowered, blocks are a chain."""
    target, here = op.successors[0], op.parent_block()
    order = list(op.parent_region().blocks)
    if order.index(target) <= order.index(here):
        raise Refused(op, "a jump back", "use scf.for or scf.while")
    return target


def constant(value: SSAValue) -> int | None:
    """Returns the integer that a value always is, or None."""
    owner = value.owner
    return number(owner, "value") if isinstance(owner, Operation) and name_of(owner) in CONSTANTS else None


CONSTANTS: Final = ("arith.constant", "index.constant", "index.bool.constant")

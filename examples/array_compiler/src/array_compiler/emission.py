"""Groups to programs of vyre, by its builder for compilers; every statement has its place in the text of the language.

Order of floats: a reduction goes through the elements in the order of their indices, and ``@`` through the inner axis,
with one rounding for each operator, so that ``np.add.accumulate`` and a loop in NumPy give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from array_compiler.fusion import Group
from array_compiler.shapes import INTEGERS, REDUCTIONS, Node, Shape
from vyre import ir
from vyre.ir import Binary, BinaryOp, Expr, Literal, Var, bool_, i32, u32

LANES: Final = 64  # of a workgroup; tuning may find a better number
_FOLDS: Final = {"sum": BinaryOp.ADD, "@": BinaryOp.ADD, "least": BinaryOp.MIN, "greatest": BinaryOp.MAX}
_BINARY: Final = {row.text: op for op, row in ir.BINARY.items()}
_UNARY: Final = {row.text: op for op, row in ir.UNARY.items()} | {"~": ir.UnaryOp.BIT_NOT}
_OF_BOOL: Final = {"&": BinaryOp.AND, "|": BinaryOp.OR, "^": BinaryOp.NE}
_ZERO: Final = Literal.of(u32, 0)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A program of vyre; its buffers have the names of the arrays, of which it reads some and writes the others."""

    program: ir.Program
    lanes: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    place: ir.SourceLocation


@dataclass(slots=True)
class _Point:
    """An element, by its index, of values of one shape; the locals that hold values there; the same of other shapes."""

    shape: Shape
    index: Expr
    locals: dict[Node, Expr] = field(default_factory=dict[Node, Expr])
    broadcast: dict[Shape, _Point] = field(default_factory=dict[Shape, "_Point"])

    def coordinates(self) -> list[Expr]:
        """The coordinate along each axis; vyre leaves out what changes nothing, such as a quotient by 1."""
        strides = [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        return [_u32("%", _u32("/", self.index, n), size) for n, size in zip(strides, self.shape, strict=True)]

    def of_shape(self, shape: Shape) -> _Point:
        """The element that broadcasting takes of values of another shape."""
        if shape == self.shape:
            return self
        if shape not in self.broadcast:
            index: Expr = _ZERO
            for size, coordinate in zip(shape, self.coordinates()[len(self.shape) - len(shape) :], strict=True):
                index = _sum(_u32("*", index, size), _u32("%", coordinate, size))
            self.broadcast[shape] = _Point(shape, index)
        return self.broadcast[shape]


class Emission:
    def __init__(self, group: Group, arrays: dict[Node, str], name: str) -> None:
        self._group, self._arrays = group, arrays
        (self._name, self._node), *_ = group.outputs.items()
        self._builder = ir.EventBuilder(name, workgroup=LANES)
        self._reads = dict[str, None]()
        self._locals = 0
        for output, node in group.outputs.items():
            self._builder.output(output, node.dtype, node.size, loc=node.place)

    def kernel(self) -> Kernel:
        group, node, b = self._group, self._node, self._builder
        adds = group.op == "histogram" or (group.op == "sum" and not node.numbers and node.dtype in INTEGERS)
        operand = node.inputs[0] if group.op else node
        i, lanes = ir.LaunchId(ir.IdKind.GLOBAL, 0), operand.size if adds else node.size
        with b.at(node.place):
            if group.op == "scan":
                lanes = self._scan(operand)
            else:
                b.if_(_u32("<", i, lanes))
                if adds:
                    self._add(self._value(operand, _Point(operand.shape, i)))
                elif group.op in REDUCTIONS:
                    self._reduce(operand, i)
                elif group.op == "@":
                    self._multiply(node.inputs[0], node.inputs[1], i)
                else:
                    point = _Point(group.shape, i)
                    for name, output in group.outputs.items():
                        b.store(name, i, self._value(output, point), loc=output.place)
                b.close()
        return Kernel(b.build(), lanes, tuple(self._reads), tuple(group.outputs), node.place)

    def _add(self, value: Expr) -> None:
        """Adds a value of each lane to an element: the integers of a sum, or the ones of a histogram."""
        b = self._builder
        index: Expr = _ZERO
        if self._group.op == "histogram":
            index, value = ir.Bitcast(u32, value), Literal.of(u32, 1)
            b.if_(_u32(">=", index, self._node.size))
            b.trap(index, "a value has no bin")
            b.close()
        b.let("before", ir.Atomic(ir.AtomicOp.ADD, self._name, index, None, value))

    def _fold(self, i: Expr, count: int, element: Callable[[Expr], Expr]) -> None:
        """One lane goes through so many elements in order, and stores the result at ``i``."""
        b = self._builder
        b.let("total", element(_ZERO))
        b.for_("k", Literal.of(u32, 1), Literal.of(u32, count))
        b.assign("total", Binary(_FOLDS[self._group.op], Var("total"), element(Var("k"))))
        b.close()
        b.store(self._name, i, Var("total"))

    def _reduce(self, operand: Node, i: Expr) -> None:
        count, inner = operand.size, 1
        for axis in self._node.numbers:
            count, inner = operand.shape[axis], math.prod(operand.shape[axis + 1 :])
        first = _sum(_u32("*", _u32("/", i, inner), count * inner), _u32("%", i, inner))
        self._fold(i, count, lambda k: self._value(operand, _Point(operand.shape, _sum(first, _u32("*", k, inner)))))

    def _multiply(self, left: Node, right: Node, i: Expr) -> None:
        (_, inner), (_, width) = left.shape, right.shape
        row, column = _u32("*", _u32("/", i, width), inner), _u32("%", i, width)

        def product(k: Expr) -> Expr:
            return Binary(
                BinaryOp.MUL, self._load(left, _sum(row, k)), self._load(right, _sum(_u32("*", k, width), column))
            )

        self._fold(i, inner, product)

    def _scan(self, operand: Node) -> int:
        """A workgroup goes along a row, as many elements at a time as it has lanes; integers, whose order is free."""
        b, count, dtype = self._builder, operand.shape[-1], operand.dtype
        b.workgroup("tile", dtype, LANES)
        lane, row = ir.LaunchId(ir.IdKind.LOCAL, 0), ir.LaunchId(ir.IdKind.GROUP, 0)
        b.let("before", Literal.of(dtype, 0))
        b.for_("start", _ZERO, Literal.of(u32, count), Literal.of(u32, LANES))
        column = _sum(Var("start"), lane)
        element = _sum(_u32("*", row, count), column)
        b.let("mine", Literal.of(dtype, 0))
        b.if_(_u32("<", column, count))
        b.assign("mine", self._value(operand, _Point(operand.shape, element)))
        b.close()
        for distance in (2**bit for bit in range(LANES.bit_length() - 1)):
            b.store("tile", lane, Var("mine"))
            b.barrier()
            b.assign("mine", _sum(Var("mine"), ir.Load("tile", _u32("-", lane, distance))))  # zero where there is none
            b.barrier()
        b.store("tile", lane, Var("mine"))
        b.if_(_u32("<", column, count))
        b.store(self._name, element, _sum(Var("before"), Var("mine")))
        b.close()
        b.barrier()
        b.assign("before", _sum(Var("before"), ir.Load("tile", Literal.of(u32, LANES - 1))))
        b.barrier()
        b.close()
        return operand.size // count * LANES

    def _value(self, node: Node, point: _Point) -> Expr:
        """The value at a point: a local, which is declared here unless it is there."""
        point = point.of_shape(node.shape)
        if node.literal is not None:
            return node.literal
        if node not in point.locals:
            with self._builder.at(node.place):
                is_array = node.op == "source" or self._arrays.get(node, self._name) not in self._group.outputs
                value = self._load(node, point.index) if is_array else self._computed(node, point)
                self._locals += 1
                self._builder.let(f"v{self._locals}", value)
                point.locals[node] = Var(f"v{self._locals}")
        return point.locals[node]

    def _load(self, node: Node, index: Expr) -> Expr:
        name = node.name or self._arrays[node]
        if name not in self._reads:
            self._reads[name] = None
            self._builder.input(name, node.dtype, node.size, loc=node.place)
        return ir.Load(name, index)

    def _computed(self, node: Node, point: _Point) -> Expr:
        if node.op in ("transpose", "shift"):
            return self._load(node.inputs[0], _moved(node, point.coordinates()))
        operands = [self._value(each, point) for each in node.inputs]
        if node.op == "cast":
            return ir.Cast(node.dtype, *operands)
        if node.op == "where":
            return ir.Select(*operands)
        if len(operands) == 1:
            return ir.Unary(ir.UnaryOp.LOGICAL_NOT if node.dtype is bool_ else _UNARY[node.op], *operands)
        is_logical = node.inputs[0].dtype is bool_ and node.op in _OF_BOOL
        return Binary(_OF_BOOL[node.op] if is_logical else _BINARY[node.op], *operands)


def _moved(node: Node, coordinates: list[Expr]) -> Expr:
    """The index of the element that is read; vyre reads zero where a coordinate is outside its axis."""
    if node.op == "transpose":
        return _sum(_u32("*", coordinates[1], node.shape[0]), coordinates[0])
    offsets = [Literal.of(i32, number) for number in node.numbers]
    moved = [_sum(ir.Cast(i32, each), offset) for each, offset in zip(coordinates, offsets, strict=True)]
    sizes = tuple(Literal.of(u32, size) for size in node.shape[1:])
    return ir.view_index(*moved, sizes=sizes) if sizes else moved[0]


def _u32(symbol: str, a: Expr, number: int) -> Expr:
    return Binary(_BINARY[symbol], a, Literal.of(u32, number))


def _sum(a: Expr, b: Expr) -> Expr:
    return Binary(BinaryOp.ADD, a, b)

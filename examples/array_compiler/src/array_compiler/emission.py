"""Groups to programs of vyre, by its builder for compilers; every statement has its place in the text of the language.

Order of floats: reductions and scans go through the elements in the order of their indices, and ``@`` through the inner
axis, with one rounding for each operator, so that ``np.add.accumulate`` and a loop in NumPy give the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from array_compiler.fusion import Group
from array_compiler.shapes import INTEGERS, REDUCTIONS, Node, Shape
from vyre import ir
from vyre.ir import Binary, BinaryOp, EventBuilder, Expr, Literal, Var, bool_, i32, u32

LANES: Final = 64
"""Lanes of a workgroup; tuning may find a better number."""
_BINARY: Final = {row.text: op for op, row in ir.BINARY.items()} | {
    "sum": BinaryOp.ADD,
    "least": BinaryOp.MIN,
    "greatest": BinaryOp.MAX,
}
_UNARY: Final = {row.text: op for op, row in ir.UNARY.items()} | {"~": ir.UnaryOp.BIT_NOT}
_OF_BOOL: Final = {"&": BinaryOp.AND, "|": BinaryOp.OR, "^": BinaryOp.NE}
_ZERO: Final = Literal.of(u32, 0)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A program of vyre; its buffers have the names of the arrays, of which it reads some and writes the others."""

    program: ir.Program
    extent: tuple[int, ...]
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
        """The coordinate along each axis."""
        inner = [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        return [_remainder(_quotient(self.index, n), m) for n, m in zip(inner, (None, *self.shape[1:]), strict=False)]

    def of_shape(self, shape: Shape) -> _Point:
        """The element that broadcasting takes of values of another shape."""
        if shape == self.shape:
            return self
        if shape not in self.broadcast:
            index: Expr = _ZERO
            for size, coordinate in zip(shape, self.coordinates()[len(self.shape) - len(shape) :], strict=True):
                index = _sum(_times(index, size), coordinate if size > 1 else _ZERO)
            self.broadcast[shape] = _Point(shape, index)
        return self.broadcast[shape]


def emit(group: Group, arrays: dict[Node, str], name: str) -> Kernel:
    """The program of a group."""
    return _Emission(group, arrays, name).kernel()


class _Emission:
    def __init__(self, group: Group, arrays: dict[Node, str], name: str) -> None:
        self._group, self._arrays = group, arrays
        (self._name, self._node), *_ = group.outputs.items()
        self._builder = EventBuilder(name, workgroup=LANES)
        self._reads = dict[str, None]()
        self._count = 0
        for output, node in group.outputs.items():
            self._builder.output(output, node.dtype, node.size, loc=node.place)

    def kernel(self) -> Kernel:
        group, node, b = self._group, self._node, self._builder
        operand = node.inputs[0] if group.op else node
        with b.at(node.place):
            i = ir.LaunchId(ir.IdKind.GLOBAL, 0)
            if group.op == "scan":
                lanes = self._scan(operand)
            elif group.op == "histogram" or (group.op == "sum" and not node.numbers and node.dtype in INTEGERS):
                lanes = operand.size
                b.if_(_less(i, lanes))
                self._add(self._value(operand, _Point(operand.shape, i)))
                b.close()
            else:
                lanes = node.size
                b.if_(_less(i, lanes))
                if group.op in REDUCTIONS:
                    self._fold(operand, i)
                elif group.op == "@":
                    self._multiply(i)
                else:
                    point = _Point(group.shape, i)
                    for name, output in group.outputs.items():
                        b.store(name, i, self._value(output, point), loc=output.place)
                b.close()
        program = b.build()
        return Kernel(program, (lanes,), tuple(self._reads), tuple(group.outputs), node.place)

    # -- kernels of their own ---------------------------------------------------------------------------

    def _add(self, value: Expr) -> None:
        """Adds a value of each lane to an element: the integers of a sum, or the ones of a histogram."""
        b = self._builder
        index: Expr = _ZERO
        added = value
        if self._group.op == "histogram":
            index, added = ir.Bitcast(u32, value), Literal.of(u32, 1)
            b.if_(Binary(BinaryOp.GE, index, Literal.of(u32, self._node.size)))
            b.trap(index, "a value has no bin")
            b.close()
        b.let("before", ir.Atomic(ir.AtomicOp.ADD, self._name, index, None, added))

    def _fold(self, operand: Node, i: Expr) -> None:
        """One lane goes along an axis, or over all elements, in order."""
        b, node = self._builder, self._node
        axis = node.numbers[0] if node.numbers else None
        count = operand.size if axis is None else operand.shape[axis]
        inner = 1 if axis is None else math.prod(operand.shape[axis + 1 :])
        b.let("first", _sum(_times(_quotient(i, inner), count * inner), _remainder(i, inner)))
        b.let("total", self._value(operand, _Point(operand.shape, Var("first"))))
        b.for_("k", Literal.of(u32, 1), Literal.of(u32, count))
        element = self._value(operand, _Point(operand.shape, _sum(Var("first"), _times(Var("k"), inner))))
        b.assign("total", Binary(_BINARY[node.op], Var("total"), element))
        b.close()
        b.store(self._name, i, Var("total"))

    def _scan(self, operand: Node) -> int:
        """A workgroup goes along a row, as many elements at a time as it has lanes; integers, whose order is free."""
        b, count, dtype = self._builder, operand.shape[-1], operand.dtype
        b.workgroup("tile", dtype, LANES)
        lane, row = ir.LaunchId(ir.IdKind.LOCAL, 0), ir.LaunchId(ir.IdKind.GROUP, 0)
        b.let("before", Literal.of(dtype, 0))
        b.for_("start", _ZERO, Literal.of(u32, count), Literal.of(u32, LANES))
        b.let("column", _sum(Var("start"), lane))
        element = _sum(_times(row, count), Var("column"))
        b.let("mine", Literal.of(dtype, 0))
        b.if_(_less(Var("column"), count))
        b.assign("mine", self._value(operand, _Point(operand.shape, element)))
        b.close()
        b.store("tile", lane, Var("mine"))
        b.barrier()
        distance = 1
        while distance < LANES:
            left = ir.Load("tile", Binary(BinaryOp.SUB, lane, Literal.of(u32, distance)))  # zero where there is none
            b.assign("mine", _sum(Var("mine"), left))
            b.barrier()
            b.store("tile", lane, Var("mine"))
            b.barrier()
            distance *= 2
        b.if_(_less(Var("column"), count))
        b.store(self._name, element, _sum(Var("before"), Var("mine")))
        b.close()
        b.assign("before", _sum(Var("before"), ir.Load("tile", Literal.of(u32, LANES - 1))))
        b.barrier()
        b.close()
        return operand.size // count * LANES

    def _multiply(self, i: Expr) -> None:
        b, (left, right) = self._builder, self._node.inputs
        (_, inner), (_, columns) = left.shape, right.shape

        def product(k: Expr) -> Expr:
            row, column = _quotient(i, columns), _remainder(i, columns)
            factors = (
                self._load(left, _sum(_times(row, inner), k)),
                self._load(right, _sum(_times(k, columns), column)),
            )
            return Binary(BinaryOp.MUL, *factors)

        b.let("total", product(_ZERO))
        b.for_("k", Literal.of(u32, 1), Literal.of(u32, inner))
        b.assign("total", _sum(Var("total"), product(Var("k"))))
        b.close()
        b.store(self._name, i, Var("total"))

    # -- elements ---------------------------------------------------------------------------------------

    def _value(self, node: Node, point: _Point) -> Expr:
        """The value at a point: a local, which is declared here unless it is there."""
        point = point.of_shape(node.shape)
        if node.literal is not None:
            return node.literal
        if node not in point.locals:
            with self._builder.at(node.place):
                is_array = node.op == "source" or self._arrays.get(node, self._name) not in self._group.outputs
                value = self._load(node, point.index) if is_array else self._computed(node, point)
                name = f"v{self._count}"
                self._count += 1
                self._builder.let(name, value)
                point.locals[node] = Var(name)
        return point.locals[node]

    def _load(self, node: Node, index: Expr) -> Expr:
        name = node.name or self._arrays[node]
        if name not in self._reads:
            self._reads[name] = None
            self._builder.input(name, node.dtype, node.size, loc=node.place)
        return ir.Load(name, index)

    def _computed(self, node: Node, point: _Point) -> Expr:
        if node.op == "transpose":
            row, column = point.coordinates()
            return self._load(node.inputs[0], _sum(_times(column, node.shape[0]), row))
        if node.op == "shift":
            return self._shifted(node, point)
        operands = [self._value(each, point) for each in node.inputs]
        if node.op == "cast":
            return ir.Cast(node.dtype, *operands)
        if node.op == "where":
            return ir.Select(*operands)
        if len(operands) == 1:
            return ir.Unary(ir.UnaryOp.LOGICAL_NOT if node.dtype is bool_ else _UNARY[node.op], *operands)
        is_logical = node.inputs[0].dtype is bool_ and node.op in _OF_BOOL
        return Binary(_OF_BOOL[node.op] if is_logical else _BINARY[node.op], *operands)

    def _shifted(self, node: Node, point: _Point) -> Expr:
        """The element at other coordinates; vyre reads zero where one of them is outside its axis."""
        moved: list[Expr] = []
        for coordinate, offset in zip(point.coordinates(), node.numbers, strict=True):
            moved.append(Binary(BinaryOp.ADD, ir.Cast(i32, coordinate), Literal.of(i32, offset)))
        if len(moved) == 1:
            return self._load(node.inputs[0], moved[0])
        sizes = tuple(Literal.of(u32, size) for size in node.shape[1:])
        return self._load(node.inputs[0], ir.view_index(*moved, sizes=sizes))


def _less(index: Expr, count: int) -> Expr:
    return Binary(BinaryOp.LT, index, Literal.of(u32, count))


def _sum(a: Expr, b: Expr) -> Expr:
    return b if a == _ZERO else a if b == _ZERO else Binary(BinaryOp.ADD, a, b)


def _times(a: Expr, factor: int) -> Expr:
    return a if factor == 1 or a == _ZERO else Binary(BinaryOp.MUL, a, Literal.of(u32, factor))


def _quotient(a: Expr, divisor: int) -> Expr:
    return a if divisor == 1 else Binary(BinaryOp.DIV, a, Literal.of(u32, divisor))


def _remainder(a: Expr, divisor: int | None) -> Expr:
    return a if divisor is None else _ZERO if divisor == 1 else Binary(BinaryOp.MOD, a, Literal.of(u32, divisor))

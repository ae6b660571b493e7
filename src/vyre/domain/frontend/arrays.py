"""Arrays of a kernel: elements, stores, lengths and shapes."""

from __future__ import annotations

import ast
from math import prod
from typing import Final

from vyre.domain.frontend.lowering import Lowering
from vyre.domain.frontend.operands import Array, Constant, Items, Operand, Scalar, indices_of
from vyre.domain.frontend.operators import integer, literal, typed
from vyre.domain.ir.buffers import Access
from vyre.domain.ir.expr import Binary, BufferLength, Cast, Expr, LaunchId, Literal, Load, Var
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.views import checked_index

_U32: Final = ScalarType.U32


def element(k: Lowering, array: Array, indices: list[Operand], node: ast.AST) -> Scalar:
    """Returns an element; it is zero where the index is out of range."""
    index = position(k, array, indices, node)
    load = Load(array.name, index.expr, loc=k.loc(node))
    if array.is_writable and not array.is_private:
        k.loads.append((node, load))
    return Scalar(load, array.dtype, None, index.changes or array.is_writable)


def store(k: Lowering, array: Array, indices: list[Operand], stored: Operand, node: ast.AST) -> None:
    """Records a store, which is dropped where the index is out of range."""
    if not array.is_writable:
        k.fail(
            node, f"`{array.name}` is read-only", f"annotate it as InOut[{array.element!r}] or Out[...] to store to it."
        )
    index = position(k, array, indices, node)
    value = typed(k, stored, array.dtype, f"what is stored to `{array.name}`", node)
    k.emit(Store(array.name, index.expr, value.expr, loc=k.loc(node)))


def position(k: Lowering, array: Array, indices: list[Operand], node: ast.AST) -> Scalar:
    """Returns the index of an element in the memory of an array."""
    if len(indices) != array.axes:
        count = f"{len(indices)} indices are given" if len(indices) != 1 else "one index is given"
        axes = "one axis" if array.axes == 1 else f"{array.axes} axes"
        fix = f"write {array.name}[{indices_of(array.axes)}]."
        if array.axes == 1:
            fix += f" Rows and columns need In[{array.element!r}, 2]."
        k.fail(node, f"`{array.name}` has {axes}, and {count}", fix)
    for index in indices:
        if isinstance(index, Constant) and isinstance(index.value, int) and index.value < 0:
            name = array.name
            k.fail(
                node,
                f"the index {index.value} counts from the end of `{name}` in Python",
                f"write {name}[len({name}) - {-index.value}].",
            )
    values = [integer(k, index, f"an index of `{array.name}`", node) for index in indices]
    if array.axes == 1:
        return values[0]
    if any(value.dtype is None for value in values):
        return Scalar(Literal(ScalarType.U64, 0), ScalarType.U64)
    named = [value if isinstance(value.expr, Literal) else _simple(k, value, node) for value in values]
    coordinates = [(value.expr, value.dtype) for value in named if value.dtype is not None]
    expr = checked_index(coordinates, array.sizes, k.loc(node))
    return Scalar(expr, ScalarType.U64, None, any(value.changes for value in named))


def _simple(k: Lowering, value: Scalar, node: ast.AST) -> Scalar:
    """Returns a value that may stand in an expression several times."""
    return value if isinstance(value.expr, Var | LaunchId) else k.let(value, "at", node)


def length(k: Lowering, array: Array, node: ast.AST) -> Operand:
    """Returns ``len(array)``: the number of elements, or of rows or planes, as a u32."""
    if array.axes == 1:
        return _length(k, array, node) if _is_bound(array) else Constant(array.count)
    return shape(k, array, node).items[0]


def _is_bound(array: Array) -> bool:
    return array.access not in (Access.WORKGROUP, Access.PRIVATE)


def _length(k: Lowering, array: Array, node: ast.AST) -> Scalar:
    return Scalar(BufferLength(array.name, loc=k.loc(node)), _U32)


def shape(k: Lowering, array: Array, node: ast.AST) -> Items:
    """Returns the sizes of the axes as u32; the last row or plane counts where it is not full."""
    if array.axes == 1:
        return Items((length(k, array, node),))
    sizes = tuple(Constant(int(s.value)) if isinstance(s, Literal) else Scalar(s, _U32) for s in array.sizes)
    if not _is_bound(array):
        inner = prod(int(size.value) for size in sizes if isinstance(size, Constant))
        return Items((Constant(array.count // inner), *sizes))
    outer: Expr = BufferLength(array.name, loc=k.loc(node))
    for size in reversed(array.sizes):
        outer = _parts(k, outer, size, node)
    return Items((Scalar(outer, _U32), *sizes))


def _parts(k: Lowering, whole: Expr, size: Expr, node: ast.AST) -> Expr:
    loc = k.loc(node)
    zero = literal(k, Constant(0), _U32, node).expr
    rest = Binary(BinaryOp.NE, Binary(BinaryOp.MOD, whole, size, loc=loc), zero, loc=loc)
    return Binary(BinaryOp.ADD, Binary(BinaryOp.DIV, whole, size, loc=loc), Cast(_U32, rest, loc=loc), loc=loc)

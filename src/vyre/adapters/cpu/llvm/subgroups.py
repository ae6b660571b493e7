"""Subgroup operations: a vector has 32 lanes and is the subgroup."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm import blocks
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.instructions import Instructions
from vyre.adapters.cpu.llvm.values import SCALAR, Value
from vyre.domain.ir.types import ScalarType

_U32: Final = ScalarType.U32


def add(k: Kernel, value: Value) -> Value:
    """Returns the sum over the active lanes, ascending from +0."""
    w, element = k.w, SCALAR[value.dtype]
    ones = k.narrow.get(value.operand)
    if ones is not None and ones.bits == 1:
        lanes = k.both(k.mask, ones.operand)
        assert lanes is not None
        count = blocks.lane_count(k, lanes)
        return k.uniform(value.dtype, Instructions(w, None).convert("zext", "i32", element, count))
    vector = k.vector_type(element)
    operand = k.vector(value)
    zero = "zeroinitializer"
    if k.mask is not None:
        operand = w.pure(f"select {k.vector_type('i1')} {{}}, {vector} {{}}, {vector} {zero}", k.mask, operand)
    if not value.dtype.is_float:
        name = f"@llvm.vector.reduce.add.v{k.lanes}{element}"
        w.declare(f"declare {element} {name}({vector})")
        return k.uniform(value.dtype, w.pure(f"call {element} {name}({vector} {{}})", operand))
    name = f"@llvm.vector.reduce.fadd.v{k.lanes}{'f32' if element == 'float' else 'f64'}"
    w.declare(f"declare {element} {name}({element}, {vector})")
    return k.uniform(value.dtype, w.pure(f"call {element} {name}({element} 0.0, {vector} {{}})", operand))


def ballot(k: Kernel, condition: Value) -> Value:
    """Returns a u32 whose bit l is the condition of lane l, 0 for lanes that are not active."""
    lanes = k.both(k.mask, k.vector(condition))
    assert lanes is not None
    return k.uniform(_U32, k.w.pure(f"bitcast {k.vector_type('i1')} {{}} to i{k.lanes}", lanes))


def shuffle(k: Kernel, value: Value, lane: Value) -> Value:
    """Returns the value of another lane; 0 where that lane is not active."""
    w = k.w
    if value.dtype is ScalarType.BOOL:
        bits = k.varying(_U32, w.pure(f"zext {k.vector_type('i1')} {{}} to {k.vector_type('i32')}", k.vector(value)))
        moved = shuffle(k, bits, lane)
        kind = k.type_of(moved)
        zero = "0" if moved.is_uniform else "zeroinitializer"
        result = w.pure(f"icmp ne {kind} {{}}, {zero}", moved.operand)
        return Value(ScalarType.BOOL, result, moved.shape)
    element = SCALAR[value.dtype]
    vector, indices = k.vector_type(element), k.vector_type("i32")
    operand = k.vector(value)
    if k.mask is not None:
        masked = f"select {k.vector_type('i1')} {{}}, {vector} {{}}, {vector} zeroinitializer"
        operand = w.pure(masked, k.mask, operand)
    if lane.is_uniform:
        inside = w.pure(f"icmp ult i32 {{}}, {k.lanes}", lane.operand)
        index = w.pure(f"and i32 {{}}, {k.lanes - 1}", lane.operand)
        found = w.pure(f"extractelement {vector} {{}}, i32 {{}}", operand, index)
        zero = "0.0" if value.dtype.is_float else "0"
        return k.uniform(value.dtype, w.pure(f"select i1 {{}}, {element} {{}}, {element} {zero}", inside, found))
    chosen = k.vector(lane)
    inside = w.pure(f"icmp ult {indices} {{}}, splat (i32 {k.lanes})", chosen)
    place = w.at_entry(f"alloca {vector}, align 64")
    w.line(f"store {vector} {operand}, ptr {place}, align 64")
    addresses = w.here(f"getelementptr {element}, ptr {place}, {indices} {chosen}")
    suffix = {"i32": "i32", "i64": "i64", "float": "f32", "double": "f64"}[element]
    name = f"@llvm.masked.gather.v{k.lanes}{suffix}.v{k.lanes}p0"
    pointers, mask = k.vector_type("ptr"), k.vector_type("i1")
    w.declare(f"declare {vector} {name}({pointers}, i32, {mask}, {vector})")
    size = value.dtype.size
    call = f"call {vector} {name}({pointers} {addresses}, i32 {size}, {mask} {inside}, {vector} zeroinitializer)"
    return k.varying(value.dtype, w.here(call))

"""Elements of buffers: how memory holds them, and the conversions between these bits and values."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm import conversion, narrowing
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.values import SCALAR, Narrow, Shape, Value
from vyre.domain.ir.types import ScalarType

_S = ScalarType
_FLOATS: Final = {_S.F32: "float", _S.F64: "double"}
_EXTENSION: Final = {_S.U8: "zext", _S.U16: "zext", _S.I8: "sext", _S.I16: "sext", _S.F16: "zext", _S.BF16: "zext"}
_BITS: Final = {_S.F32: _S.U32, _S.F64: _S.U64}
_SUFFIXES: Final = {"float": "f32", "double": "f64"}


def bits_type(element: ScalarType) -> str:
    """Returns the LLVM integer type of a stored element, for example ``i16`` for f16."""
    return f"i{element.bits}"


def loaded_type(element: ScalarType) -> str:
    """Returns the LLVM type in which an element is loaded: that of its bits, or a float type."""
    return _FLOATS.get(element) or bits_type(element)


def suffix(element: str) -> str:
    """Returns the name of an LLVM type in the names of intrinsics."""
    return _SUFFIXES.get(element, element)


def loaded(k: Kernel, element: ScalarType, raw: str, shape: Shape) -> Value:
    """Returns the value of loaded elements: one if the shape is uniform, else W.

    An integer is frozen: it may become an index, which another thread that writes the memory meanwhile (a data race)
    must not change between its comparison with the length and its use.
    """
    w, dtype = k.w, element.widened
    kind, wide = loaded_type(element), SCALAR[dtype]
    if shape is Shape.VARYING:
        kind, wide = k.vector_type(kind), k.vector_type(wide)
    if dtype is _S.BOOL:
        zero = "zeroinitializer" if shape is Shape.VARYING else "0"
        return Value(dtype, w.pure(f"icmp ne {kind} {{}}, {zero}", raw), shape)
    if element in _FLOATS:
        return Value(dtype, raw, shape)
    raw = w.pure(f"freeze {kind} {{}}", raw)
    if element not in _EXTENSION:
        return Value(dtype, raw, shape)
    if dtype is _S.F32:
        wide = k.vector_type("i32") if shape is Shape.VARYING else "i32"
        return narrowing.unpack(k, element, Value(_S.U32, w.pure(f"zext {kind} {{}} to {wide}", raw), shape))
    extended = Value(dtype, w.pure(f"{_EXTENSION[element]} {kind} {{}} to {wide}", raw), shape)
    if shape is Shape.VARYING:
        k.narrow[extended.operand] = Narrow(raw, element.bits, element.is_signed)
    return extended


def storable(k: Kernel, element: ScalarType, value: Value) -> str:
    """Returns the bits that a store of a value writes: a scalar of a uniform value, else a vector."""
    w = k.w
    if value.shape is Shape.AFFINE:
        value = k.varying(value.dtype, k.vector(value))
    if element in _BITS:
        return conversion.bitcast(k, _BITS[element], value).operand
    if element in (_S.F16, _S.BF16):
        value = narrowing.pack(k, element, value)
    source, target = SCALAR[value.dtype], bits_type(element)
    if source == target:
        return value.operand
    if not value.is_uniform:
        source, target = k.vector_type(source), k.vector_type(target)
    operation = "zext" if value.dtype is _S.BOOL else "trunc"
    return w.pure(f"{operation} {source} {{}} to {target}", value.operand)

"""Accesses to elements of buffers: how memory holds them, whether indices are in range, and addresses."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm import conversion, narrowing
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.values import SCALAR, Narrow, Shape, Value
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.expr import Atomic, Load
from vyre.domain.ir.stmt import Store
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


_HALF: Final = 1 << 31
"""The number of elements that an i32 can reach, and the least size in bytes of a large buffer."""


def is_large(k: Kernel, name: str) -> bool:
    """Returns whether a buffer may have 2^31 bytes or more, so that offsets of its elements need 64 bits."""
    nbytes = k.buffers[name].static_nbytes
    return k.options.wide if nbytes is None else nbytes >= _HALF


def number_of(index: Value) -> int | None:
    """Returns a constant index as a number, negative if it is so; None if it is not constant."""
    if index.number is None:
        return None
    bits = index.dtype.bits
    signed = index.dtype.is_signed and index.number >> (bits - 1)
    return index.number - (1 << bits) if signed else index.number


def extended(k: Kernel, index: Value) -> str:
    """Returns a uniform index, or the base of an affine one, as an i64 operand."""
    number = number_of(index)
    if number is not None:
        return str(number)
    if index.dtype.bits == 64:
        return index.operand
    return k.w.pure(f"{'sext' if index.dtype.is_signed else 'zext'} i32 {{}} to i64", index.operand)


def inside(k: Kernel, access: Load | Store | Atomic, index: Value) -> str | bool:
    """Returns whether a uniform index is in range: known now, or an i1 operand."""
    count, number = k.buffers[access.buffer].count, number_of(index)
    if number is not None:
        if not 0 <= number < (1 << 32) - 1:
            return False
        if count:
            return number < count
    if k.proven(access) or (access.buffer, index.operand) in k.in_range:
        return True
    return checked(k, access.buffer, index)


def checked(k: Kernel, name: str, index: Value) -> str:
    """Returns the comparison of a uniform index with the length of a buffer, an i1 operand."""
    return k.w.pure("icmp ult i64 {}, {}", extended(k, index), k.length(name))


def lanes_inside(k: Kernel, access: Load | Store | Atomic, index: Value) -> str | None:
    """Returns the lanes whose index is in range; None if it certainly is in all active lanes."""
    if k.proven(access):
        return None
    element = SCALAR[index.dtype]
    most = limit(k, access.buffer, index) if element == "i32" else k.length(access.buffer)
    return k.w.pure(f"icmp ult {k.vector_type(element)} {{}}, {{}}", k.vector(index), k.splat(element, most))


def limit(k: Kernel, name: str, index: Value) -> str:
    """Returns the number of elements that a 32-bit index can reach, an i32 operand."""
    reached = _reached(k, name, index)
    return reached if k.buffers[name].count else k.w.pure("trunc i64 {} to i32", reached)


def _reached(k: Kernel, name: str, index: Value) -> str:
    """Returns the number of elements that an index of its type can reach, an i64 operand."""
    count, length = k.buffers[name].count, k.length(name)
    narrow = index.dtype.is_signed and index.dtype.bits == 32
    if count:
        return str(min(count, _HALF) if narrow else count)
    return k.w.call("i64", "umin.i64", ("i64", length), ("i64", str(_HALF))) if narrow and is_large(k, name) else length


class Contiguous:
    """The elements that the lanes of an affine index of stride 1 or -1 access, if they are all in range.

    ``is_reversed`` tells that lane 0 accesses the last of them.
    """

    def __init__(self, k: Kernel, name: str, index: Value) -> None:
        self._k = k
        self._name = name
        self._index = index
        self.is_reversed: Final = index.stride != 1

    @staticmethod
    def applies(index: Value) -> bool:
        """Returns whether an index is affine with stride 1 or -1."""
        return index.shape is Shape.AFFINE and index.stride in (1, (1 << index.dtype.bits) - 1)

    def fits(self) -> str:
        """Returns whether the indices of all W lanes are in range and do not wrap, an i1 operand."""
        k, index = self._k, self._index
        room = _reached(k, self._name, index)
        if k.buffers[self._name].count:
            room = str(max(0, int(room) - (k.lanes - 1)))
        else:
            room = k.w.call("i64", "usub.sat.i64", ("i64", room), ("i64", str(k.lanes - 1)))
        return k.w.pure("icmp ult i64 {}, {}", self._first(extended(k, index)), room)

    def address(self) -> str:
        """Returns the address of the first element, provided that ``fits`` holds."""
        return self._at(extended(self._k, self._index))

    def masked_address(self) -> str:
        """Returns the address of the first element, from which every active lane whose index is in range finds its own.

        The first lanes may lie before the buffer.  That is right where no index in range exceeds 31 bits.
        """
        k, index = self._k, self._index
        if index.dtype.bits == 64 or index.number is not None:
            return self.address()
        return self._at(k.w.pure("sext i32 {} to i64", index.operand))

    def _at(self, first: str) -> str:
        k = self._k
        kind = bits_type(element_of(k.buffers[self._name]))
        return k.w.pure(f"getelementptr {kind}, ptr {{}}, i64 {{}}", k.base(self._name), self._first(first))

    def _first(self, base: str) -> str:
        return self._k.w.pure(f"add i64 {{}}, {1 - self._k.lanes}", base) if self.is_reversed else base

    def ordered(self, element: str, vector: str) -> str:
        """Returns a vector with its lanes in the order of memory, or those of memory in the order of the lanes."""
        if not self.is_reversed or vector.startswith("splat"):
            return vector
        k = self._k
        kind, order = k.vector_type(element), ", ".join(f"i32 {lane}" for lane in reversed(range(k.lanes)))
        return k.w.pure(f"shufflevector {kind} {{}}, {kind} poison, {k.vector_type('i32')} <{order}>", vector)


def element_address(k: Kernel, name: str, index: Value) -> str:
    """Returns the address of the element at a uniform index in range."""
    kind = bits_type(element_of(k.buffers[name]))
    return k.w.pure(f"getelementptr {kind}, ptr {{}}, i64 {{}}", k.base(name), extended(k, index))


def offsets(k: Kernel, name: str, index: Value) -> tuple[str, str]:
    """Returns the indices of the lanes as a vector, and its element type.

    Lanes whose index is in range have the right one when it is sign-extended.  They are 32-bit numbers unless the
    buffer may have 2^31 bytes or more.
    """
    w, vector = k.w, k.vector(index)
    if not is_large(k, name):
        if index.dtype.bits == 64:
            vector = w.pure(f"trunc {k.vector_type('i64')} {{}} to {k.vector_type('i32')}", vector)
        return vector, "i32"
    if index.dtype.bits == 32:
        vector = w.pure(f"zext {k.vector_type('i32')} {{}} to {k.vector_type('i64')}", vector)
    return vector, "i64"


def spare(k: Kernel) -> str:
    """Returns the address of memory that nothing reads: the place of stores that are dropped."""
    key = "spare"
    address = k.w.known(key)
    if address is None:
        offset = k.scratch.reserve(8)
        address = k.w.at_entry(f"getelementptr i8, ptr %scratch, i64 {offset}")
        k.w.remember_everywhere(key, address)
    return address


def zero_place(k: Kernel) -> str:
    """Returns the address of eight zero bytes: the place of loads that are out of range."""
    k.w.declare("@zero_element = private unnamed_addr constant i64 0, align 8")
    return "@zero_element"

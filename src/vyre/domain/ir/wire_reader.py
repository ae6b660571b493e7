"""Reading primitives of ``.vyrb``: every value has one encoding, every length is checked first."""

from __future__ import annotations

from collections.abc import Mapping

from vyre.domain.errors import MalformedWire
from vyre.domain.ir.limits import MAX_NAME_BYTES, MAX_TYPE_DEPTH, U32_MAX
from vyre.domain.ir.type_forms import ArgKind, argument_kinds
from vyre.domain.ir.types import RESERVED_TAGS, DataType, ReservedType, ScalarType, TypeArg

_RESERVED_BY_TAG = {tag: name for name, tag in RESERVED_TAGS.items()}


_MAX_SHIFT = 64


class WireReader:
    """A cursor over ``data[start:end]``; reading past ``end`` raises ``MalformedWire``."""

    __slots__ = ("_data", "_end", "position")

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data = data
        self._end = end
        self.position: int = start

    @property
    def at_end(self) -> bool:
        """Whether all bytes have been read."""
        return self.position == self._end

    def fail(self, problem: str) -> MalformedWire:
        """Returns the error for a problem at the current position."""
        return MalformedWire(problem, offset=self.position)

    def byte(self) -> int:
        """Reads one byte."""
        position = self.position
        if position >= self._end:
            raise self.fail("the data ends too early")
        self.position = position + 1
        return self._data[position]

    def uleb(self, high: int = U32_MAX) -> int:
        """Reads an unsigned LEB128 integer in 0..``high``, in its shortest form."""
        value = self.byte()
        if value >= 0x80:
            value &= 0x7F
            shift = 7
            while True:
                group = self.byte()
                value |= (group & 0x7F) << shift
                if value > high:
                    raise self.fail("an integer is too large")
                if group < 0x80:
                    break
                shift += 7
                if shift >= _MAX_SHIFT:
                    raise self.fail("an integer is too large")
            if group == 0:
                raise self.fail("an integer is not in its shortest form")
        if value > high:
            raise self.fail("an integer is too large")
        return value

    def take(self, count: int) -> bytes:
        """Reads ``count`` bytes."""
        start = self.position
        if count > self._end - start:
            raise self.fail("the data ends too early")
        self.position = start + count
        return self._data[start : start + count]

    def since(self, start: int) -> bytes:
        """Returns the bytes from position ``start`` to the cursor."""
        return self._data[start : self.position]

    def string(self) -> str:
        """Reads a string: its length in bytes, then UTF-8."""
        raw = self.take(self.uleb(MAX_NAME_BYTES))
        try:
            return raw.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self.fail("a string is not UTF-8") from None

    def type(self, scalars: Mapping[int, ScalarType], depth: int = 0) -> DataType:
        """Reads an element type, inside ``depth`` other types; ``scalars`` are the scalar types by tag."""
        if depth > MAX_TYPE_DEPTH:
            raise self.fail(f"element types are nested more than {MAX_TYPE_DEPTH} deep")
        tag = self.byte()
        if tag in scalars:
            return scalars[tag]
        name = _RESERVED_BY_TAG.get(tag)
        if name is None:
            raise self.fail(f"unknown element type {tag:#04x}")
        return ReservedType(name, tuple(self._argument(kind, scalars, depth) for kind in argument_kinds(name)))

    def _argument(self, kind: ArgKind, scalars: Mapping[int, ScalarType], depth: int) -> TypeArg:
        match kind:
            case ArgKind.INT:
                return self.uleb()
            case ArgKind.TYPE:
                return self.type(scalars, depth + 1)
            case ArgKind.TEXT:
                return self.string()
            case ArgKind.DIMS:
                return tuple(self.uleb() for _ in range(self.uleb()))

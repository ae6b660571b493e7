"""One array read and written as elements of different types of one size: the joined program holds unsigned integers.

A load of such an element and the value stored to it are the same bits either way: a store makes NaN bits canonical,
and so do ``bitcast`` and ``pack``.
"""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.expr import Binary, Bitcast, Expr, Literal, Narrow, Pack, Select, Unpack
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType

_S: Final = ScalarType
_CAST: Final = {_S.I32: _S.U32, _S.F32: _S.U32, _S.I64: _S.U64, _S.F64: _S.U64}
_NARROW: Final = frozenset({_S.U8, _S.U16, _S.I8, _S.I16, _S.F16, _S.BF16})


def from_held(element: ScalarType, stored: ScalarType, loaded: Expr) -> Expr:
    """Returns the value of an element of type ``element`` where ``loaded`` is the element as type ``stored``."""
    if element is stored:
        return loaded
    if element.widened is _S.BOOL:
        return Binary(BinaryOp.NE, loaded, Literal(stored.widened, 0))
    return Bitcast(element, loaded) if element in _CAST else Unpack(element, loaded)


def to_held(element: ScalarType, stored: ScalarType, value: Expr) -> Expr:
    """Returns what is stored as type ``stored`` for a value stored as type ``element``."""
    if element is stored:
        return value
    if element.widened is _S.BOOL:
        return Select(value, Literal(stored.widened, 1), Literal(stored.widened, 0))
    return Bitcast(_CAST[element], value) if element in _CAST else Pack(element, value)


def as_stored(element: ScalarType, value: Expr) -> Expr:
    """Returns the value that a load gives after ``value`` was stored to an element of that type."""
    return Narrow(element, value) if element in _NARROW else value


def zero(element: ScalarType) -> Literal:
    """Returns the value of an element beyond the end."""
    return Literal(element.widened, 0)

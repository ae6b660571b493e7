"""The model in which laws are tried on all values: the language with every type at 8 bits, or at 8 and 16.

The rules are those of ``numerics.scalar`` themselves, which do not care about the width; here they become tables over
all operands, through which whole arrays of values go at once.  Values are bit patterns, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from vyre.domain.dialects.laws.evaluation import ScalarAlgebra, Types
from vyre.domain.dialects.laws.law import CONSTANTS, Law
from vyre.domain.ir.expr import Cast, Expr, Fma, Literal, Narrow, Pack, Unpack, Var, WrapCast, walk
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import TRANSCENDENTALS, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.domain.numerics.constants import CONVERSIONS
from vyre.domain.numerics.scalar import MINIFLOAT, SMALL_MINIFLOAT, WIDE_MINIFLOAT, ModelType, ValueType
from vyre.domain.validation.typing import static_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values: TypeAlias = NDArray[np.unsignedinteger[Any]]
    """Bit patterns of a model type, broadcast against those of the other holes."""

_S: Final = ScalarType
_TABLE_BITS: Final = 8
"""Operators on operands of at most so many bits go through a table of all pairs."""
_NO_MODEL: Final = (Narrow, Pack, Unpack)


def model_types(law: Law, dtype: ScalarType) -> Types | None:
    """Returns the types with which to model a law at one type; None if it has no model.

    All types have 8 bits; if the law converts between widths, those of 64 bits have 16.  A law with ``fma`` has floats
    of 6 bits, so that all triples of operands are a table.  Narrow types, transcendental functions and integer
    literals that need more than 8 bits have no model.
    """
    nodes = [node for side in _sides(law, dtype) for node in walk(side)]
    if any(isinstance(node, _NO_MODEL) for node in nodes) or is_transcendental(law, dtype):
        return None
    if not all(_fits(node) for node in nodes if isinstance(node, Literal)):
        return None
    if _changes_width(law, dtype):
        return _integers(_S.U16, _S.I16) | {_S.F32: MINIFLOAT, _S.F64: _S.F16}
    if any(isinstance(node, Fma) for node in nodes):
        return {_S.F32: SMALL_MINIFLOAT, _S.F64: SMALL_MINIFLOAT}
    small = WIDE_MINIFLOAT if any(isinstance(node, Cast) for node in nodes) else MINIFLOAT
    return _integers(_S.U8, _S.I8) | {_S.F32: small, _S.F64: small}


def is_transcendental(law: Law, dtype: ScalarType) -> bool:
    """Returns whether a law is about functions that have one width only and are slow."""
    return any(getattr(node, "op", None) in TRANSCENDENTALS for side in _sides(law, dtype) for node in walk(side))


def _integers(unsigned: ScalarType, signed: ScalarType) -> dict[ScalarType, ValueType]:
    return {_S.U32: _S.U8, _S.I32: _S.I8, _S.U64: unsigned, _S.I64: signed}


def _sides(law: Law, dtype: ScalarType) -> Iterable[Expr]:
    condition = law.condition_side(dtype)
    return law.sides(dtype) if condition is None else (*law.sides(dtype), condition)


def _fits(literal: Literal) -> bool:
    value = literal.value
    return literal.dtype.is_float or -(1 << (_TABLE_BITS - 1)) <= value < 1 << (_TABLE_BITS - 1) or _is_mask(literal)


def _is_mask(literal: Literal) -> bool:
    """Returns whether an unsigned literal is a small negative number modulo 2^width."""
    return (1 << literal.dtype.bits) - literal.bits <= 1 << (_TABLE_BITS - 1)


def _changes_width(law: Law, dtype: ScalarType) -> bool:
    visible = law.hole_types(dtype) | {
        name: constant.dtype(dtype) for name, constant in CONSTANTS.items() if _exists(name, dtype)
    }
    for side in _sides(law, dtype):
        for node in walk(side):
            if isinstance(node, Cast | WrapCast):
                source = static_type(node.operand, visible, {})
                if source is not _S.BOOL is not node.dtype and source is not None and source.bits != node.dtype.bits:
                    return True
    return False


def _exists(name: str, dtype: ScalarType) -> bool:
    return dtype is not _S.BOOL or name not in ("SIGN_BIT", "FRACTION")


def all_values(dtype: ValueType) -> Values:
    """Returns every bit pattern of a model type, ascending."""
    import numpy as np

    return np.arange(value_count(dtype), dtype=_storage(dtype))


def value_count(dtype: ValueType) -> int:
    """Returns the number of bit patterns of a type."""
    return 2 if dtype is _S.BOOL else 1 << dtype.bits


def _storage(dtype: ValueType) -> type[np.unsignedinteger[Any]]:
    import numpy as np

    return np.uint16 if dtype is not _S.BOOL and dtype.bits > _TABLE_BITS else np.uint8


class TableAlgebra(ScalarAlgebra):
    """Arrays of bit patterns of model types: each operator is a table made of the scalar rules."""

    def literal(self, dtype: ScalarType, bits: int) -> Any:
        """Returns the bits of a literal, as an array without axes."""
        return self.constant(dtype, super().literal(dtype, bits))

    def constant(self, dtype: ScalarType, bits: int) -> Any:
        """Returns the bits of a model type as an array without axes."""
        import numpy as np

        return np.asarray(bits, _storage(self._type(dtype)))

    def binary(self, op: BinaryOp, dtype: ScalarType, count: ScalarType, left: Any, right: Any) -> Any:
        """Returns ``left op right`` for every pair."""
        model, other = self._type(dtype), self._type(count)
        if max(value_count(model), value_count(other)) <= 1 << _TABLE_BITS:
            return _binary_table(op, model, other).take(left.astype("uint16") * value_count(other) + right)
        return _by_pairs(lambda a, b: scalar.binary(op, model, a, b), left, right)

    def unary(self, op: UnaryOp, dtype: ScalarType, operand: Any) -> Any:
        """Returns ``op operand`` for every value."""
        return _unary_table(op, self._type(dtype)).take(operand)

    def select(self, dtype: ScalarType, condition: Any, on_true: Any, on_false: Any) -> Any:
        """Returns one of two values for every triple."""
        import numpy as np

        return np.where(condition != 0, on_true, on_false)

    def convert(self, node: type[Node], source: ScalarType, target: ScalarType, operand: Any) -> Any:
        """Returns every value converted."""
        kind: Any = node  # a node class is hashable, though mypy thinks of its instances
        return _conversion_table(kind, self._type(source), self._type(target)).take(operand)

    def fma(self, dtype: ScalarType, a: Any, b: Any, c: Any) -> Any:
        """Returns ``a * b + c`` for every triple."""
        model = self._type(dtype)
        size = value_count(model)
        return _fma_table(model).take((a.astype("uint32") * size + b) * size + c)


def _by_pairs(rule: Callable[[int, int], int], left: Any, right: Any) -> Any:
    """Returns a rule applied to arrays, once for each pair of values that occurs."""
    import numpy as np

    pairs, places = np.unique(left.astype(np.uint64) << np.uint64(32) | right, return_inverse=True)
    results = [rule(pair >> 32, pair & 0xFFFF_FFFF) for pair in pairs.tolist()]
    shape = np.broadcast_shapes(left.shape, right.shape)
    return np.asarray(results, np.uint16)[places].reshape(shape)


def _table(rows: Iterable[int]) -> Any:
    import numpy as np

    values = list(rows)
    return np.asarray(values, np.uint8 if max(values) < 1 << _TABLE_BITS else np.uint16)


@cache
def _binary_table(op: BinaryOp, dtype: ValueType, count: ValueType) -> Any:
    left, right = range(value_count(dtype)), range(value_count(count))
    return _table(scalar.binary(op, dtype, a, b) for a in left for b in right)


@cache
def _unary_table(op: UnaryOp, dtype: ValueType) -> Any:
    return _table(scalar.unary(op, dtype, a) for a in range(value_count(dtype)))


@cache
def _conversion_table(node: Any, source: ValueType, target: ValueType) -> Any:
    return _table(CONVERSIONS[node](source, target, a) for a in range(value_count(source)))


@cache
def _fma_table(dtype: ValueType) -> Any:
    values = range(value_count(dtype))
    return _table(scalar.fma(dtype, a, b, c) for a in values for b in values for c in values)


@cache
def is_nan_table(dtype: ValueType) -> Any:
    """Returns for every bit pattern whether it is a NaN, as an array of bools."""
    import numpy as np

    return np.asarray([scalar.is_nan(dtype, a) for a in range(value_count(dtype))])


def type_text(dtype: ValueType) -> str:
    """Returns what a type is called in reports."""
    return dtype.text if isinstance(dtype, ModelType) or dtype.is_executable else f"{dtype.text} (model)"


def constant_values(law: Law, dtype: ScalarType, types: Types) -> dict[str, int]:
    """Returns the bits of the named constants of a law in a model."""
    used = {node.name for side in _sides(law, dtype) for node in walk(side) if isinstance(node, Var)}
    return {name: constant.bits(types.get(dtype, dtype)) for name, constant in CONSTANTS.items() if name in used}


def constant_types(law: Law, dtype: ScalarType) -> dict[str, ScalarType]:
    """Returns the types of the named constants of a law."""
    return {name: CONSTANTS[name].dtype(dtype) for name in constant_values(law, dtype, {})}

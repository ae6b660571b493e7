"""The rules of every operator over NumPy lane arrays.

Lanes of u32 i32 u64 i64 f32 f64 bool are arrays of uint32 int32 uint64 int64 float32 float64 bool. Each function here
returns the rule for given types as a callable (often a plain ufunc) over arrays of any shape and layout or NumPy
scalars of exactly these dtypes, in any mixture that broadcasts.  Python numbers are not lanes: pass ``np.uint32(3)``,
not ``3``.

The caller has two duties.  Rules compute garbage, overflow and NaN without warnings only under
``np.errstate(all="ignore")``, set once around a run.  And a rule that changes nothing (a load of f32, a cast to the
same type) returns its argument itself, so copy before writing into a result.

Operators that are not defined for a type raise ``KeyError``; the validator refuses them before.
``vyre.domain.numerics.scalar`` states the same rules for one lane in plain Python and is the arbiter.
"""

from __future__ import annotations

from vyre.adapters.lanes.conversion import bitcast, cast, load_convert, store_convert, wrap_cast
from vyre.adapters.lanes.floating import FLOAT_BINARY, FLOAT_UNARY, fma_f32, fma_f64
from vyre.adapters.lanes.integer import integer_binary, integer_unary
from vyre.adapters.lanes.logic import BOOL_BINARY, BOOL_UNARY, COMPARE
from vyre.adapters.lanes.narrowing import narrow, pack, unpack
from vyre.adapters.lanes.types import BinaryRule, Lanes, TernaryRule, UnaryRule
from vyre.domain.ir.operators import TRANSCENDENTALS, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType

__all__ = [
    "BinaryRule",
    "Lanes",
    "TernaryRule",
    "UnaryRule",
    "binary",
    "bitcast",
    "cast",
    "fma",
    "load_convert",
    "narrow",
    "pack",
    "store_convert",
    "unary",
    "unpack",
    "wrap_cast",
]


def binary(op: BinaryOp, dtype: ScalarType) -> BinaryRule:
    """Returns the rule of ``op`` for a left operand of ``dtype``; shift and rotate counts may be uint32 or the left
    dtype.
    """
    if op in COMPARE:
        return COMPARE[op]
    if dtype.is_float:
        return FLOAT_BINARY[op]
    return integer_binary(op, dtype) if dtype.is_integer else BOOL_BINARY[op]


def unary(op: UnaryOp, dtype: ScalarType) -> UnaryRule:
    """Returns the rule of ``op`` for an operand of ``dtype``."""
    if op in TRANSCENDENTALS:
        if dtype is not ScalarType.F32:
            raise KeyError(op)
        from vyre.domain.numerics.evaluate import evaluate_lanes  # few programs have transcendental functions
        from vyre.domain.numerics.transcendentals import transcendental

        program = transcendental(op)
        return lambda x: evaluate_lanes(program, x)
    if dtype.is_float:
        return FLOAT_UNARY[op]
    return integer_unary(op, dtype) if dtype.is_integer else BOOL_UNARY[op]


def fma(dtype: ScalarType) -> TernaryRule:
    """Returns the rule of ``a * b + c`` rounded once, for f32 or f64."""
    return {ScalarType.F32: fma_f32, ScalarType.F64: fma_f64}[dtype]

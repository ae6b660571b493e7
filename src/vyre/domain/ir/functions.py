"""Functions over values for the operations without a Python operator.

Their names are those of ``.vyre`` text; ``abs_ min_ max_ round_`` carry an underscore because Python's own functions
of these names must stay usable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.caller import caller_location, fail
from vyre.domain.ir.function_names import FUNCTION_NAMES
from vyre.domain.ir.operators import (
    BINARY,
    BOOL,
    FLOATS,
    INTEGERS,
    SUBGROUP,
    UNARY,
    BinaryOp,
    SubgroupOp,
    UnaryOp,
    narrow_is_legal,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.value import (
    Operand,
    TypeLike,
    Value,
    as_value,
    binary,
    common,
    condition,
    derive,
    type_argument,
    type_error,
    typed,
    unary,
)

_LANES: Final = 32
UnaryFunction: TypeAlias = Callable[[Operand], Value]
BinaryFunction: TypeAlias = Callable[[Operand, Operand], Value]


def select(condition_: Operand, on_true: Operand, on_false: Operand) -> Value:
    """Returns ``on_true`` where the condition holds, else ``on_false``; both are evaluated.

    A condition that is not bool means ``condition != 0``.  The branches must have one type.
    """
    test = condition(condition_)
    (a, b), dtype = common((on_true, on_false), "select")
    return derive(ir.Select(test.expr, a.expr, b.expr, loc=caller_location()), dtype, test, a, b)


def fma(a: Operand, b: Operand, c: Operand) -> Value:
    """Returns ``a * b + c`` with one rounding; f32 or f64."""
    (x, y, z), dtype = common((a, b, c), "fma")
    if dtype not in FLOATS:
        type_error("fma", dtype, FLOATS)
    return derive(ir.Fma(x.expr, y.expr, z.expr, loc=caller_location()), dtype, x, y, z)


def narrow(dtype: TypeLike, x: Operand) -> Value:
    """Returns the value that a load gives after ``x`` was stored to an element of the type ``dtype``.

    ``dtype`` is u8, u16, i8, i16, f16 or bf16.  ``x`` and the result are u32 for u8 and u16, i32 for i8 and i16, f32
    for f16 and bf16.  Integers wrap, floats are rounded to nearest even and overflow to infinity.
    """
    target = _narrow(dtype, "narrow")
    v = typed(x, target.widened, f"the operand of narrow({target.text}, x)")
    return derive(ir.Narrow(target, v.expr, loc=caller_location()), v.dtype, v)


def pack(dtype: TypeLike, x: Operand) -> Value:
    """Returns the bits that a store of ``x`` leaves in an element of the type ``dtype``, as a u32.

    ``dtype`` is u8, u16, i8, i16, f16 or bf16.  ``x`` is u32 for u8 and u16, i32 for i8 and i16, f32 for f16 and bf16.
    The bits above the element's are 0.
    """
    target = _narrow(dtype, "pack")
    v = typed(x, target.widened, f"the operand of pack({target.text}, x)")
    return derive(ir.Pack(target, v.expr, loc=caller_location()), ScalarType.U32, v)


def unpack(dtype: TypeLike, word: Operand) -> Value:
    """Returns the load of an element of the type ``dtype`` that holds the low bits of a u32.

    ``dtype`` is u8, u16, i8, i16, f16 or bf16.  The result is u32, i32 or f32; the higher bits of ``word`` are ignored.
    """
    target = _narrow(dtype, "unpack")
    v = typed(word, ScalarType.U32, f"the operand of unpack({target.text}, x)")
    return derive(ir.Unpack(target, v.expr, loc=caller_location()), target.widened, v)


def wrap_cast(dtype: TypeLike, x: Operand) -> Value:
    """Converts f32 or f64 to u32, i32, u64 or i64: truncated toward zero, modulo 2^width; infinities and NaN give 0.

    ``x.cast(dtype)`` saturates instead.
    """
    target = type_argument(dtype, "wrap_cast")
    if target not in INTEGERS:
        fail(f"wrap_cast makes integers, and not {target.text}", "use u32, i32, u64 or i64.")
    v = as_value(x)
    if v.dtype not in FLOATS:
        type_error("wrap_cast", v.dtype, FLOATS)
    return derive(ir.WrapCast(target, v.expr, loc=caller_location()), target, v)


def _narrow(dtype: object, operation: str) -> ScalarType:
    target = type_argument(dtype, operation)
    if not narrow_is_legal(target):
        fail(f"{operation} is not defined for {target.text}", "use u8, u16, i8, i16, f16 or bf16.")
    return target


def subgroup_ballot(condition_: Operand) -> Value:
    """Returns a u32 whose bit k is the condition of lane k of the subgroup."""
    test = condition(condition_)
    return derive(ir.SubgroupBallot(test.expr, loc=caller_location()), ScalarType.U32, test)


def subgroup_shuffle(value: Operand, lane: Operand) -> Value:
    """Returns ``value`` of lane ``lane`` (u32) of the subgroup; 0 where that lane does not exist."""
    v = as_value(value)
    index = typed(lane, ScalarType.U32, "the lane of a shuffle")
    return derive(ir.SubgroupShuffle(v.expr, index.expr, loc=caller_location()), v.dtype, v, index)


def subgroup_broadcast(value: Operand, lane: int) -> Value:
    """Returns ``value`` of one lane, a number of 0 to 31, in all lanes of the subgroup; 0 where that lane does not
    exist.
    """
    v = as_value(value)
    number = typed(lane, ScalarType.U32, "the lane of a broadcast")
    if type(number.expr) is not ir.Literal or number.expr.bits >= _LANES:
        fail("the lane of a broadcast is no number of 0 to 31", "write subgroup_shuffle(value, lane) for others.")
    return derive(ir.SubgroupShuffle(v.expr, number.expr, loc=caller_location()), v.dtype, v)


def _over_lanes(op: SubgroupOp) -> UnaryFunction:
    row = SUBGROUP[op]

    def function(value: Operand) -> Value:
        v = condition(value) if BOOL in row.operands else as_value(value)
        if v.dtype not in row.operands:
            type_error(row.text, v.dtype, row.operands)
        return derive(ir.SubgroupReduce(op, v.expr, loc=caller_location()), v.dtype, v)

    function.__name__ = function.__qualname__ = row.text
    function.__doc__ = f"Returns {row.meaning}."
    return function


def _unary(op: UnaryOp) -> UnaryFunction:
    def function(x: Operand) -> Value:
        return unary(op, x)

    function.__name__ = function.__qualname__ = str(UNARY[op].function)
    function.__doc__ = f"{UNARY[op].meaning}."
    return function


def _binary(op: BinaryOp) -> BinaryFunction:
    def function(a: Operand, b: Operand) -> Value:
        return binary(op, a, b)

    function.__name__ = function.__qualname__ = str(BINARY[op].function)
    function.__doc__ = f"{BINARY[op].meaning}."
    return function


abs_diff: Final = _binary(BinaryOp.ABS_DIFF)
min_: Final = _binary(BinaryOp.MIN)
max_: Final = _binary(BinaryOp.MAX)
sat_add: Final = _binary(BinaryOp.SATURATING_ADD)
sat_sub: Final = _binary(BinaryOp.SATURATING_SUB)
sat_mul: Final = _binary(BinaryOp.SATURATING_MUL)
rotl: Final = _binary(BinaryOp.ROTATE_LEFT)
rotr: Final = _binary(BinaryOp.ROTATE_RIGHT)
mulhi: Final = _binary(BinaryOp.MUL_HIGH)
clmul: Final = _binary(BinaryOp.CLMUL)

subgroup_add: Final = _over_lanes(SubgroupOp.ADD)
subgroup_min: Final = _over_lanes(SubgroupOp.MIN)
subgroup_max: Final = _over_lanes(SubgroupOp.MAX)
subgroup_and: Final = _over_lanes(SubgroupOp.AND)
subgroup_or: Final = _over_lanes(SubgroupOp.OR)
subgroup_xor: Final = _over_lanes(SubgroupOp.XOR)
subgroup_any: Final = _over_lanes(SubgroupOp.ANY)
subgroup_all: Final = _over_lanes(SubgroupOp.ALL)
subgroup_inclusive_add: Final = _over_lanes(SubgroupOp.INCLUSIVE_ADD)
subgroup_inclusive_min: Final = _over_lanes(SubgroupOp.INCLUSIVE_MIN)
subgroup_inclusive_max: Final = _over_lanes(SubgroupOp.INCLUSIVE_MAX)
subgroup_inclusive_and: Final = _over_lanes(SubgroupOp.INCLUSIVE_AND)
subgroup_inclusive_or: Final = _over_lanes(SubgroupOp.INCLUSIVE_OR)
subgroup_inclusive_xor: Final = _over_lanes(SubgroupOp.INCLUSIVE_XOR)
subgroup_exclusive_add: Final = _over_lanes(SubgroupOp.EXCLUSIVE_ADD)
subgroup_exclusive_min: Final = _over_lanes(SubgroupOp.EXCLUSIVE_MIN)
subgroup_exclusive_max: Final = _over_lanes(SubgroupOp.EXCLUSIVE_MAX)
subgroup_exclusive_and: Final = _over_lanes(SubgroupOp.EXCLUSIVE_AND)
subgroup_exclusive_or: Final = _over_lanes(SubgroupOp.EXCLUSIVE_OR)
subgroup_exclusive_xor: Final = _over_lanes(SubgroupOp.EXCLUSIVE_XOR)

popcount: Final = _unary(UnaryOp.POPCOUNT)
clz: Final = _unary(UnaryOp.CLZ)
ctz: Final = _unary(UnaryOp.CTZ)
reverse_bits: Final = _unary(UnaryOp.REVERSE_BITS)
abs_: Final = _unary(UnaryOp.ABS)
sqrt: Final = _unary(UnaryOp.SQRT)
inverse_sqrt: Final = _unary(UnaryOp.INVERSE_SQRT)
reciprocal: Final = _unary(UnaryOp.RECIPROCAL)
floor: Final = _unary(UnaryOp.FLOOR)
ceil: Final = _unary(UnaryOp.CEIL)
round_: Final = _unary(UnaryOp.ROUND)
round_even: Final = _unary(UnaryOp.ROUND_EVEN)
trunc: Final = _unary(UnaryOp.TRUNC)
sign: Final = _unary(UnaryOp.SIGN)
is_nan: Final = _unary(UnaryOp.IS_NAN)
is_inf: Final = _unary(UnaryOp.IS_INF)
is_finite: Final = _unary(UnaryOp.IS_FINITE)
exp: Final = _unary(UnaryOp.EXP)
exp2: Final = _unary(UnaryOp.EXP2)
log: Final = _unary(UnaryOp.LOG)
log2: Final = _unary(UnaryOp.LOG2)
sin: Final = _unary(UnaryOp.SIN)
cos: Final = _unary(UnaryOp.COS)
tan: Final = _unary(UnaryOp.TAN)
asin: Final = _unary(UnaryOp.ASIN)
acos: Final = _unary(UnaryOp.ACOS)
atan: Final = _unary(UnaryOp.ATAN)
sinh: Final = _unary(UnaryOp.SINH)
cosh: Final = _unary(UnaryOp.COSH)
tanh: Final = _unary(UnaryOp.TANH)

__all__ = [*FUNCTION_NAMES]

"""The operations that functions of Python, ``math`` and NumPy stand for."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir import functions as of_vyre
from vyre.domain.ir.operators import BinaryOp, UnaryOp

_U: Final = UnaryOp
OF_MATH: Final[dict[str, UnaryOp]] = {
    "sin": _U.SIN,
    "cos": _U.COS,
    "tan": _U.TAN,
    "asin": _U.ASIN,
    "acos": _U.ACOS,
    "atan": _U.ATAN,
    "sinh": _U.SINH,
    "cosh": _U.COSH,
    "tanh": _U.TANH,
    "exp": _U.EXP,
    "exp2": _U.EXP2,
    "log": _U.LOG,
    "log2": _U.LOG2,
    "sqrt": _U.SQRT,
    "floor": _U.FLOOR,
    "ceil": _U.CEIL,
    "trunc": _U.TRUNC,
    "fabs": _U.ABS,
    "isnan": _U.IS_NAN,
    "isinf": _U.IS_INF,
    "isfinite": _U.IS_FINITE,
}
"""The functions of ``math`` with an exact counterpart; the results of floor, ceil and trunc keep the type of x."""
OF_NUMPY: Final[dict[str, UnaryOp]] = {
    **{name: op for name, op in OF_MATH.items() if name not in ("asin", "acos", "atan")},
    "arcsin": _U.ASIN,
    "arccos": _U.ACOS,
    "arctan": _U.ATAN,
    "rint": _U.ROUND_EVEN,
    "absolute": _U.ABS,
    "sign": _U.SIGN,
    "negative": _U.NEGATE,
}
"""The functions of NumPy with an exact counterpart."""
OF_VYRE_UNARY: Final[dict[object, UnaryOp]] = {
    getattr(of_vyre, name): op
    for op in UnaryOp
    for name in (f"{op.name.lower()}_", op.name.lower())
    if hasattr(of_vyre, name)
}
_BINARY_NAMES: Final = {
    BinaryOp.ABS_DIFF: "abs_diff",
    BinaryOp.MIN: "min_",
    BinaryOp.MAX: "max_",
    BinaryOp.SATURATING_ADD: "sat_add",
    BinaryOp.SATURATING_SUB: "sat_sub",
    BinaryOp.SATURATING_MUL: "sat_mul",
    BinaryOp.ROTATE_LEFT: "rotl",
    BinaryOp.ROTATE_RIGHT: "rotr",
    BinaryOp.MUL_HIGH: "mulhi",
}
OF_VYRE_BINARY: Final[dict[object, BinaryOp]] = {getattr(of_vyre, name): op for op, name in _BINARY_NAMES.items()}
INSTEAD: Final[dict[str, str]] = {
    "print": "store what is to be seen to an array; docs/debugging.md shows how to find a wrong line.",
    "sum": "write a loop that adds up.",
    "sorted": "write a sorting network, as the gallery does.",
    "any": "write a loop, or `or`.",
    "all": "write a loop, or `and`.",
    "pow": "write the product, or exp2(log2(x) * y), which is an approximation.",
    "isinstance": "types are known: test `T is f32` for a type parameter T.",
    "minimum": "write min(a, b), which is Python's, or vyre.min_(a, b), which ignores NaN.",
    "maximum": "write max(a, b), which is Python's, or vyre.max_(a, b), which ignores NaN.",
    "fmin": "write vyre.min_(a, b).",
    "fmax": "write vyre.max_(a, b).",
    "where": "write `a if c else b`.",
    "clip": "write min(max(x, low), high).",
    "dot": "write a loop that adds up the products.",
    "zeros": "write vyre.private_array(f32, n) or vyre.workgroup_array(f32, n).",
    "empty": "write vyre.private_array(f32, n) or vyre.workgroup_array(f32, n).",
    "array": "write a tuple for fixed items, or vyre.private_array(f32, n).",
    "atan2": "write math.atan(y / x) with the quadrants that are needed.",
    "hypot": "write math.sqrt(x * x + y * y).",
    "log10": "write math.log(x) * 0.4342944819032518.",
    "open": "read the file outside the kernel and pass it as an array.",
    "input": "pass a parameter.",
}
"""The fix for each function of Python that kernels do not have."""

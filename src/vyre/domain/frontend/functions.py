"""The operations that functions of Python, ``math`` and NumPy stand for."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir import functions as of_vyre
from vyre.domain.ir.operators import BINARY, UNARY, BinaryOp, UnaryOp

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
    getattr(of_vyre, row.function): op for op, row in UNARY.items() if row.function is not None
}
OF_VYRE_BINARY: Final[dict[object, BinaryOp]] = {
    getattr(of_vyre, row.function): op for op, row in BINARY.items() if row.function is not None
}
INSTEAD: Final[dict[str, str]] = {
    "print": "store what is to be seen to an array; docs/debugging.md shows how to find a wrong line.",
    "sum": "write a loop that adds up.",
    **dict.fromkeys(("sorted", "sort", "argsort"), "write a sorting network, as the gallery does."),
    "rsqrt": "write 1.0 / math.sqrt(x).",
    **dict.fromkeys(("let", "var"), "assign it to a name: v = x."),
    **dict.fromkeys(("mean", "prod", "cumsum", "argmax", "argmin"), "write a loop over the elements."),
    "any": "write a loop, or `or`.",
    "all": "write a loop, or `and`.",
    "pow": "write the product, 1.0 / x for -1, or exp2(log2(x) * y), which is an approximation.",
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
_LOOP: Final = "write a loop over the elements: for j in range(len(x)): ... x[j]."
OF_METHODS: Final[dict[str, str]] = {
    **{name: f"write math.{name}(x)." for name in OF_MATH},
    **{name: f"write {name}(x)." for name in ("abs", "round")},
    **dict.fromkeys(("sum", "mean", "prod", "min", "max", "any", "all", "argmax", "argmin", "cumsum", "dot"), _LOOP),
    **dict.fromkeys(("sort", "argsort"), INSTEAD["sort"]),
    **dict.fromkeys(("copy", "fill"), "store each element: y[i] = x[i]."),
    **dict.fromkeys(("item", "tolist"), "leave it out: x[i] is a number of the lane."),
    "clip": INSTEAD["clip"],
}
"""The fix for each method of NumPy's arrays and numbers, which kernels do not have."""

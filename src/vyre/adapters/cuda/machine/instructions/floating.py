"""Float arithmetic.  Only explicit roundings exist: PTX may fuse an ``add.f32`` without one, so it does not load.

Instructions that hardware approximates return a value that is deliberately off by one place.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from vyre.adapters.cuda.machine.instructions import halves
from vyre.adapters.cuda.machine.instructions.integer import ORDERED, comparisons
from vyre.adapters.cuda.machine.instructions.operation import LANE_DTYPE, Noise, Operation, Rule, Table, unsigned
from vyre.adapters.lanes import binary, fma
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType

_FLOATS: Final = {"f32": ScalarType.F32, "f64": ScalarType.F64}


def _reciprocal(x: Any) -> Any:
    return np.divide(x.dtype.type(1), x)


def _inverse_sqrt(x: Any) -> Any:
    return _reciprocal(np.sqrt(x))


def _either_unordered(a: Any, b: Any) -> Any:
    return np.isnan(a) | np.isnan(b)


def _or_unordered(compare: Rule) -> Rule:
    return lambda a, b: compare(a, b) | _either_unordered(a, b)


def _relations() -> dict[str, Rule]:
    """Returns the comparisons: ordered relations are false for NaN; those ending in ``u`` are true."""
    table = dict(ORDERED)
    table["ne"] = lambda a, b: np.not_equal(a, b) & ~_either_unordered(a, b)
    table |= {f"{name}u": _or_unordered(compare) for name, compare in ORDERED.items()}
    table["num"] = lambda a, b: ~_either_unordered(a, b)
    table["nan"] = _either_unordered
    return table


def _normal(x: Any) -> Any:
    return np.isfinite(x) & (np.absolute(x) >= np.finfo(x.dtype).smallest_normal)


def _subnormal(x: Any) -> Any:
    return (x != 0) & (np.absolute(x) < np.finfo(x.dtype).smallest_normal)


_TESTS: Final[dict[str, Rule]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": _normal,
    "subnormal": _subnormal,
}
_APPROXIMATE: Final[dict[str, Rule]] = {
    "rcp.approx": _reciprocal,
    "sqrt.approx": np.sqrt,
    "rsqrt.approx": _inverse_sqrt,
    "ex2.approx": np.exp2,
    "lg2.approx": np.log2,
    "sin.approx": np.sin,
    "cos.approx": np.cos,
    "tanh.approx": np.tanh,
}


def _negate(kind: str) -> Rule:
    word = unsigned(kind)
    sign, dtype = word.type(1 << (word.itemsize * 8 - 1)), LANE_DTYPE[kind]
    return lambda x: (x.view(word) ^ sign).view(dtype)


def _table() -> Table:
    table: Table = {}
    for kind, dtype in _FLOATS.items():
        two = (kind, kind)
        for name, ufunc in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)):
            table[f"{name}.rn.{kind}"] = Operation(kind, two, ufunc, Noise.NAN)
        table[f"fma.rn.{kind}"] = Operation(kind, (kind, kind, kind), fma(dtype), Noise.NAN)
        table[f"sqrt.rn.{kind}"] = Operation(kind, (kind,), np.sqrt, Noise.NAN)
        table[f"rcp.rn.{kind}"] = Operation(kind, (kind,), _reciprocal, Noise.NAN)
        table[f"min.{kind}"] = Operation(kind, two, binary(BinaryOp.MIN, dtype), Noise.NAN)
        table[f"max.{kind}"] = Operation(kind, two, binary(BinaryOp.MAX, dtype), Noise.NAN)
        table[f"abs.{kind}"] = Operation(kind, (kind,), np.absolute, Noise.NAN)
        table[f"neg.{kind}"] = Operation(kind, (kind,), _negate(kind), Noise.NAN)
        table[f"copysign.{kind}"] = Operation(kind, two, lambda sign, x: np.copysign(x, sign))
        for name, test in _TESTS.items():
            table[f"testp.{name}.{kind}"] = Operation("pred", (kind,), test)
        table |= comparisons(kind, _relations())
    table |= halves.table(_relations())
    for name, rule in _APPROXIMATE.items():
        table[f"{name}.f32"] = Operation("f32", ("f32",), rule, Noise.APPROXIMATE)
    for name in ("div.approx", "div.full"):
        table[f"{name}.f32"] = Operation("f32", ("f32", "f32"), np.divide, Noise.APPROXIMATE)
    return table


TABLE: Final[Table] = _table()
